"""What is computed: the network's shape, apart from how it is scheduled."""

from __future__ import annotations

from dataclasses import dataclass, fields
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
        layer the ``hidden_size`` outputs of the layer below.

    Raises
    ------
    TypeError
        If a size is not an integer.
    ValueError
        If the cell is unknown, a size is below 1, or the sizes together make
        an array of more than 2**31 - 1 elements, which an ``int`` can't index.
    """

    cell: str
    layers: int
    input_size: int
    hidden_size: int
    batch: int
    steps: int

    def __post_init__(self):
        cells.get(self.cell)
        for field in fields(self)[1:]:
            object.__setattr__(self, field.name, positive_integer(field.name, getattr(self, field.name)))
        for what, elements in self._largest_arrays().items():
            if elements > MAX_ELEMENTS:
                raise ValueError(
                    f"{what} has {elements:,} elements; kernels index with 32-bit integers, "
                    f"so at most {MAX_ELEMENTS:,} are possible: reduce one of these sizes"
                )

    def _largest_arrays(self):
        gates = cells.get(self.cell).gates
        widest = max(self.input_size, self.hidden_size)
        return {
            f"an input or output of steps × batch × features ({self.steps} × {self.batch} × {widest})":
                self.steps * self.batch * widest,
            f"a weight matrix of gates × hidden_size × features ({gates} × {self.hidden_size} × {widest})":
                gates * self.hidden_size * widest,
            f"the gates of two steps, 2 × batch × gates × hidden_size (2 × {self.batch} × {gates} × {self.hidden_size})":
                2 * self.batch * gates * self.hidden_size,
            f"the state of layers × batch × hidden_size ({self.layers} × {self.batch} × {self.hidden_size})":
                self.layers * self.batch * self.hidden_size,
        }

    def layer_input_size(self, layer: int) -> int:
        """Number of features that `layer` reads at each step."""
        return self.input_size if layer == 0 else self.hidden_size

    @property
    def paper_flops(self) -> int:
        """FLOPs of a forward pass as Appleyard et al. count them.

        layers × steps × (2 × gates) × 2 × hidden × batch × (hidden + 1): the
        author's own rule for LSTM.cu (input size = hidden size, pointwise work
        left out), so that GFLOP/s here compare with the paper's. It differs
        from DeepBench's rule by a factor of about two: never mix them.
        """
        gates = cells.get(self.cell).gates
        return self.layers * self.steps * 2 * gates * 2 * self.hidden_size * self.batch * (self.hidden_size + 1)


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
