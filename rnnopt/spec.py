"""What is computed: the network's shape, apart from how it is scheduled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from math import isfinite
from operator import index

from rnnopt import cells

#: Kernels index with ``int``; no buffer may hold more elements than one can address.
MAX_ELEMENTS = 2**31 - 1


@dataclass(frozen=True)
class NetworkSpec:
    """A stack of recurrent layers and the mini-batch it is applied to.

    Parameters
    ----------
    cell : str
        Name of the cell, one of :data:`rnnopt.cells.CELLS`.
    layers, input_size, hidden_size, batch, steps : int
        All at least 1. Layer 0 reads ``input_size`` features, every other
        layer the outputs of the layer below.
    bidirectional : bool
        Each layer runs along the sequence and against it, and its outputs are both hidden states side by side.
    dropout : float
        Probability, at least 0 and less than 1, with which training drops an
        output of a layer on its way to the layer above.
    lengths : sequence of int, optional
        Steps of each sequence of the mini-batch, the longest (which must have
        `steps`) first. Inputs and outputs are then *packed*, as the data of
        torch's ``PackedSequence``: the rows of all sequences that are still
        going on at a step, step after step. Without it all have `steps`.

    Raises
    ------
    TypeError
        If a field has the wrong type.
    ValueError
        If the cell is unknown, a size is below 1, the dropout is no
        probability, the lengths are none, or the sizes together make
        an array of more than 2**31 - 1 elements, which an ``int`` can't index.
    """

    cell: str
    layers: int
    input_size: int
    hidden_size: int
    batch: int
    steps: int
    bidirectional: bool = False
    dropout: float = 0.0
    lengths: tuple[int, ...] | None = None

    def __post_init__(self):
        cells.get(self.cell)
        for name in ("layers", "input_size", "hidden_size", "batch", "steps"):
            object.__setattr__(self, name, positive_integer(name, getattr(self, name)))
        if not isinstance(self.bidirectional, bool):
            raise TypeError(f"bidirectional must be True or False, got {self.bidirectional!r}")
        object.__setattr__(self, "dropout", _probability("dropout", self.dropout))
        if self.lengths is not None:
            object.__setattr__(self, "lengths", self._checked_lengths())
        for what, elements in self._largest_arrays().items():
            if elements > MAX_ELEMENTS:
                raise ValueError(
                    f"{what} has {elements:,} elements; kernels index with 32-bit integers, "
                    f"so at most {MAX_ELEMENTS:,} are possible: reduce one of these sizes"
                )

    def _checked_lengths(self):
        if isinstance(self.lengths, str) or not isinstance(self.lengths, Iterable):
            raise TypeError(f"lengths must be a sequence of integers, got {self.lengths!r}")
        lengths = tuple(positive_integer(f"lengths[{k}]", length) for k, length in enumerate(self.lengths))
        if len(lengths) != self.batch:
            raise ValueError(f"lengths must say the steps of each of the {self.batch} sequences of the batch, got {len(lengths)} of them")
        if list(lengths) != sorted(lengths, reverse=True):
            raise ValueError(f"lengths must come in decreasing order, got {lengths}: rnnopt.pack sorts a batch")
        if lengths[0] != self.steps:
            raise ValueError(f"the longest of lengths must have all {self.steps} steps, got {lengths[0]}: give that as steps")
        return lengths

    def _largest_arrays(self):
        gates = cells.get(self.cell).gates
        widest = max(self.input_size, self.output_size)
        return {
            f"an input or output of steps × batch × features ({self.steps} × {self.batch} × {widest})":
                self.steps * self.batch * widest,
            f"a weight matrix of gates × hidden_size × features ({gates} × {self.hidden_size} × {widest})":
                gates * self.hidden_size * widest,
            f"the gates of two steps, 2 × batch × gates × hidden_size (2 × {self.batch} × {gates} × {self.hidden_size})":
                2 * self.batch * gates * self.hidden_size,
            f"the state of layers × batch × hidden_size ({self.layers * self.directions} × {self.batch} × {self.hidden_size})":
                self.layers * self.directions * self.batch * self.hidden_size,
        }

    def layer_input_size(self, layer: int) -> int:
        """Number of features that `layer` reads at each step."""
        return self.input_size if layer == 0 else self.output_size

    @property
    def directions(self) -> int:
        """How many times each layer goes through the sequence: 2 if bidirectional."""
        return 1 + self.bidirectional

    @property
    def output_size(self) -> int:
        """Number of features that each layer hands up at each step."""
        return self.directions * self.hidden_size

    @cached_property
    def batch_sizes(self) -> tuple[int, ...]:
        """How many sequences are still going on at each step (torch's ``PackedSequence.batch_sizes``)."""
        if self.lengths is None:
            return (self.batch,) * self.steps
        return tuple(sum(length > step for length in self.lengths) for step in range(self.steps))

    @property
    def rows(self) -> tuple[int, ...]:
        """Shape of a sequence without its features: (steps, batch), or (tokens,) where sequences are packed."""
        return (self.steps, self.batch) if self.lengths is None else (sum(self.lengths),)

    @property
    def state_shape(self) -> tuple[int, int, int]:
        """Shape of each state: (layers × directions, batch, hidden size), torch's order."""
        return self.layers * self.directions, self.batch, self.hidden_size

    def as_dict(self) -> dict:
        """Fields by name; the optional ones only where they are not at their defaults, so that records stay as they are."""
        values = {field.name: getattr(self, field.name) for field in fields(self)
                  if field.default is MISSING or getattr(self, field.name) != field.default}
        return values | ({"lengths": list(self.lengths)} if self.lengths else {})

    @property
    def paper_flops(self) -> int:
        """FLOPs of a forward pass as Appleyard et al. count them.

        layers × steps × (2 × gates) × 2 × hidden × batch × (hidden + 1): the
        author's own rule for LSTM.cu (input size = hidden size, pointwise work
        left out), so that GFLOP/s here compare with the paper's. It differs
        from DeepBench's rule by a factor of about two: never mix them.
        """
        gates = cells.get(self.cell).gates
        return self.layers * self.directions * 2 * gates * 2 * self.hidden_size * sum(self.batch_sizes) * (self.hidden_size + 1)

    @property
    def cudnn_flops(self) -> int:
        """FLOPs of a forward pass, and of each half of a backward pass, as NVIDIA's cuDNN 5 sample counts them.

        (2 × gates) × 2 × hidden² × steps × batch × layers × directions: products
        only, input size = hidden size. A whole backward pass, data and weights, counts twice that.
        """
        gates = cells.get(self.cell).gates
        return self.layers * self.directions * 2 * gates * 2 * self.hidden_size**2 * sum(self.batch_sizes)


def positive_integer(name: str, value) -> int:
    """Return `value` as an int of at least 1, or raise with the `name` of the argument."""
    try:
        if isinstance(value, bool):
            raise TypeError
        value = index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer of at least 1, got {value!r} ({type(value).__name__})") from None
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return value


def _probability(name, value):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of at least 0 and less than 1, got {value!r}")
    if not (isfinite(value) and 0 <= value < 1):
        raise ValueError(f"{name} must be at least 0 and less than 1, got {value}")
    return float(value)
