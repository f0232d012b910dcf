"""What an operation asks of a card: blocks, cycles and bytes.

A GEMM is a grid of thread blocks, each of which computes a tile of the result. For each of the
`inner` terms of its sums, a block multiplies and adds tile elements, ``rows × cols`` of them, and
loads ``rows + cols`` operands. A block that has its SM to itself waits for those loads: the
multiply-adds take ``rows · cols / lanes`` cycles, the loads :data:`Constants.load` each. Blocks
side by side on an SM hide each other's waiting until the SM's multiply-adds are used up. So the
paper's small GEMMs are slow for two reasons that this form has: they leave SMs empty (wave
quantisation), and those that they use wait.

Everything else (pointwise kernels, copies) moves bytes. What an operation finds in L2, because
little has been touched since it was touched last, costs less than what it must fetch.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from rnnopt.devices.model.card import Card
from rnnopt.operations import Gemm
from rnnopt.plan import Plan


@dataclass(frozen=True)
class Constants:
    """What no data sheet says: the same for every card.

    The first five are fitted on published times of one card, the Tesla M40 (:mod:`rnnopt.devices.model.fit`); the
    rest are assumed, for the reason given.

    Attributes
    ----------
    load : float
        Cycles that a block alone on an SM waits per operand it loads, of each inner term.
    transposed : float
        How many times longer it waits where the weights are read across their rows (not pre-transposed).
    saturated : float
        Share of an SM's multiply-adds that many blocks reach together.
    prologue : float
        Microseconds of a GEMM before its first and after its last multiply-add.
    latency : float
        Microseconds from the end of an operation to the start of one that waited for it.
    graph_latency : float
        The same within a CUDA graph. Assumed: 1.5, about what NVIDIA's engineers report.
    launch : float
        Microseconds of the host per launch; of a whole graph, 10 times that. Assumed: 3, within the 2 to 5 usually reported.
    memory : float
        Share of the memory's bandwidth that streaming kernels reach. Assumed: 0.75.
    l2 : float
        How much faster L2 is than memory. Assumed: 3.
    fill : float
        A library takes its largest tile that gives this share of the SMs a block. Assumed: a quarter, with
        which it takes 128 × 64 for the paper's combined GEMM, as the first author's profile shows, and less for a single gate.
    """

    load: float = 0.68
    transposed: float = 1.24
    saturated: float = 0.74
    prologue: float = 4.2
    latency: float = 7.9
    graph_latency: float = 1.5
    launch: float = 3.0
    memory: float = 0.75
    l2: float = 3.0
    fill: float = 0.25


CONSTANTS = Constants()


@dataclass(frozen=True)
class Work:
    """What an operation asks of a card.

    Attributes
    ----------
    blocks : int
    seconds : float
        It would take with a block per SM, or all of the memory's bandwidth, for itself.
    demand : float
        Share of an SM's attainable multiply-adds that one block uses when it has the SM for itself.
    bytes : float
        To be moved, as if all came from memory.
    bound : str
        What those seconds are: ``"latency"`` of loads, ``"arithmetic"``, or ``"memory"``.
    """

    blocks: int
    seconds: float
    demand: float
    bytes: float
    bound: str


def works(plan: Plan, card: Card, constants: Constants = CONSTANTS) -> list[Work]:
    """Return what each operation of `plan` asks of `card`."""
    cache = _Cache(card.l2 * 2**20, constants.l2)
    return [_gemm(operation, cache, card, constants) if isinstance(operation, Gemm) else _streaming(operation, cache, card, constants)
            for operation in plan.operations]


@dataclass(frozen=True)
class Grid:
    """How a library computes a product: the tile of each block, their number, and in how many parts they share the inner length."""

    tile: tuple[int, int]
    blocks: int
    parts: int
    slices: int


def grid(rows: int, cols: int, inner: int, card: Card, constants: Constants = CONSTANTS) -> Grid:
    """Return how a library is taken to compute a product of these sizes: see :attr:`Constants.fill`.

    Deep products, whose inner length is the longest side, are split along it if their tiles don't fill the SMs.
    """
    deep = max(1, inner // max(rows, cols))
    for high, wide, slices in card.tiles:
        # The libraries' tiles are longer along the weights' outputs, which are cuBLAS's rows and a plan's columns.
        tiles = ceil(cols / high) * ceil(rows / wide)
        parts = deep if tiles < card.sms else 1
        found = Grid((high, wide), tiles * parts, parts, slices)
        if found.blocks >= constants.fill * card.sms:
            break
    return found


def _gemm(operation, cache, card, constants):
    rows, cols, inner = operation.shape
    chosen = grid(rows, cols, inner, card, constants)
    high, wide = chosen.tile
    cycle = 1e-9 * inner / chosen.parts / card.clock  # seconds that each block takes per cycle of an inner term
    arithmetic = cycle * high * wide / card.lanes
    waiting = cycle * constants.load * (high + wide) / chosen.slices * (constants.transposed if operation.transpose_b else 1)
    seconds = arithmetic + waiting + 1e-6 * constants.prologue
    moved = cache.bytes(operation)
    if chosen.parts > 1:  # partial results are written and read again
        moved += 2 * chosen.parts * operation.out.nbytes / constants.l2
    streaming = moved / (1e9 * card.bandwidth * constants.memory)
    bound = "memory" if streaming > seconds else "latency" if waiting > arithmetic else "arithmetic"
    seconds = max(seconds, streaming)
    return Work(chosen.blocks, seconds, arithmetic / seconds / constants.saturated, moved, bound)


def _streaming(operation, cache, card, constants):
    moved = cache.bytes(operation)
    out = operation.writes[0]
    return Work(max(1, out.rows * ceil(out.cols / 256)), moved / (1e9 * card.bandwidth * constants.memory), 0.0, moved, "memory")


class _Cache:
    """Bytes of an operation, those that are still in L2 counted for less.

    A region is still there if less than the cache holds was touched since (its reuse distance, repeats included).
    """

    def __init__(self, size, faster):
        self._size, self._faster = size, faster
        self._touched, self._last = 0, {}

    def bytes(self, operation):
        total = 0
        for view in {*operation.reads, *operation.writes}:
            key = view.buffer.name, view.box
            near = key in self._last and self._touched - self._last[key] + view.nbytes <= self._size
            total += view.nbytes / (self._faster if near else 1)
            self._touched += view.nbytes
            self._last[key] = self._touched
        return total
