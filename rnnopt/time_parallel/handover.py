"""What a planned system does beside its own steps when it is one of several ranks.

The state in which a rank's last interval ends goes to the rank ahead. While it is on its way, intervals that don't wait for it take
their first step.
"""

from __future__ import annotations

from rnnopt.time_parallel.adjoint import PlannedAdjoint
from rnnopt.time_parallel.planned import STREAM
from rnnopt.time_parallel.ranks import Share
from rnnopt.time_parallel.recurrence import PlannedRecurrence
from rnnopt.time_parallel.segments import Post, Wait


class Handover:
    """Mixed into :class:`rnnopt.time_parallel.planned.Planned`; `emit` is a :class:`~rnnopt.time_parallel.segments.SegmentedBuilder`."""

    #: The input buffer for the given state, which for all ranks but the first is what the rank behind sends.
    given: str
    _pending = None  # level whose first C-point is on its way

    def __init__(self, emit, spec, hierarchy, keep=False, *, share: Share):
        super().__init__(emit, spec, hierarchy, keep)
        self._behind, self._ahead = (share.neighbour(ahead, self.way.reverse) is not None for ahead in (False, True))

    def step(self, level, number, corrected=True, within=()):
        coarsest = level == self.hierarchy.coarsest
        if coarsest and number == 0:
            self._post(level, sends=False)
        if self._pending == level:
            interior, edge = ((), ()) if coarsest else self._split(level)
            if interior:
                super().step(level, number, corrected, interior)
            self.arrive()
            super().step(level, number, corrected, edge)
        else:
            super().step(level, number, corrected)
        if coarsest and number == self.hierarchy.units - 1:
            self._post(level, receives=False)

    def exchange(self, level):
        self._post(level)
        super().exchange(level)

    def set_first(self, level):
        """Of a rank with another behind it the first point is no given state, and stays what it is."""
        if not self._behind:
            super().set_first(level)

    def handed_over(self):
        pairs = super().handed_over()
        self._post(0)
        if self._pending is not None:
            self._receive()
            pairs += [(self.edges(0, k)[0], self.first(k)) for k in self.layers]
        return pairs

    def arrive(self):
        """Wait for what is on its way, if anything is, and put it where it belongs."""
        if self._pending is not None:
            level = self._pending
            self._receive()
            for k in self.layers:
                self.emit.copy(self.edges(level, k)[0], self.first(k), STREAM)

    def _post(self, level, sends=True, receives=True):
        sends, receives = sends and self._ahead, receives and self._behind
        out = f"{self.name}_handed_over"
        for k in self.layers if sends else ():
            self.emit.copy(self.emit.buffer(out, self.spec.state_shape, "output")[k], self.edges(level, k)[1], STREAM)
        if sends or receives:
            self.emit.message(Post(out if sends else None, receives))
        if receives:
            self._pending = level

    def _receive(self):
        self._pending = None
        self.emit.message(Wait(self.given))
        self.received()

    def received(self):
        """Emit what makes the first state of what came."""

    def _split(self, level):
        """Indices of the intervals that don't wait, and of those around the first one, which do."""
        _, count, *_ = self.hierarchy.shape(level)
        _, after = self.way.shifted(count)
        return ((after,), (self.way.edges(count)[0],)) if count > 1 else ((), ())


class RankedPlannedRecurrence(Handover, PlannedRecurrence):
    """A rank's part of a network's recurrence."""

    given = "initial_h"


class RankedPlannedAdjoint(Handover, PlannedAdjoint):
    """A rank's part of the gradients of a network's states."""

    given = "d_final_h"

    def received(self):
        self.add_last_source()
