"""What the pointwise part of a cell works on: views of the rows of one (layer, direction, step)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rnnopt.operations import View
from rnnopt.schedule.builder import part


class _Operands:
    def gate(self, stacked: View, number: int) -> View:
        """The part of `stacked` that belongs to gate `number`."""
        hidden = self.previous[0].cols
        return part(stacked, number * hidden, (number + 1) * hidden)


@dataclass(frozen=True)
class CellOperands(_Operands):
    """What the forward pass of a cell works on.

    Attributes
    ----------
    input, recurrent : View
        The two products, (rows, gates × hidden). Training finds the activated
        gates in `recurrent` afterwards.
    bias_ih, bias_hh : View
        (gates × hidden,), repeated for every row.
    previous, new : tuple of View
        (rows, hidden), one per state of the cell.
    saved : callable
        Name, one of the cell's ``SAVED`` -> View (rows, hidden) that training keeps for the backward pass.
    scratch : callable
        Name -> View (rows, hidden) of a temporary of this layer.
    training : bool
    stream
    """

    input: View
    recurrent: View
    bias_ih: View
    bias_hh: View
    previous: tuple[View, ...]
    new: tuple[View, ...]
    saved: Callable[[str], View]
    scratch: Callable[[str], View]
    training: bool
    stream: object


@dataclass(frozen=True)
class BackwardOperands(_Operands):
    """What the backward pass of a cell works on.

    Attributes
    ----------
    gates : View
        (rows, gates × hidden): what the forward pass left in ``recurrent``;
        becomes the gradient of the pre-activations.
    saved : callable
        As the forward pass left them; may become a part of that gradient.
    previous, new : tuple of View
        States before and after the step, not to be written.
    d_output : View
        (rows, hidden), gradient of the cell's output, from above; not to be written.
    d_state : tuple of View
        (rows, hidden), one per state: its gradient from the next step, to
        become what reaches the previous one past the recurrent product.
    scratch : callable
        Name -> View (rows, hidden) of a temporary of this layer.
    stream
    """

    gates: View
    saved: Callable[[str], View]
    previous: tuple[View, ...]
    new: tuple[View, ...]
    d_output: View
    d_state: tuple[View, ...]
    scratch: Callable[[str], View]
    stream: object
