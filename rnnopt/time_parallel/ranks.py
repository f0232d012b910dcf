"""A system whose units are shared by ranks: each has some of the coarsest level's points, and of every other level what lies between them.

Layouts are those of :mod:`rnnopt.time_parallel.hierarchy`, with fewer units. What goes from rank to rank is the state where one's
last interval ends and the next one's first begins: after C-relaxation, before and after the coarsest solve, and for a norm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rnnopt.time_parallel.hierarchy import Hierarchy
from rnnopt.time_parallel.systems import Adjoint, Recurrence, System


@dataclass(frozen=True)
class Share:
    """What a rank has of the units.

    Attributes
    ----------
    rank, ranks : int
        Its number, and how many there are that have any.
    first, end : int
        Its units.
    """

    rank: int
    ranks: int
    first: int
    end: int

    def neighbour(self, ahead: bool, reverse: bool) -> int | None:
        """The rank ahead or behind, for who goes with the sequence or, in `reverse`, against it; None if there is none."""
        rank = self.rank + (1 if ahead != reverse else -1)
        return rank if 0 <= rank < self.ranks else None


def shares(hierarchy: Hierarchy, ranks: int) -> list[Share]:
    """Return what each rank has; there are no more of them than units, and those beyond have nothing to do."""
    ranks = min(ranks, hierarchy.units)
    edges = [hierarchy.units * rank // ranks for rank in range(ranks + 1)]
    return [Share(rank, ranks, *edges[rank:rank + 2]) for rank in range(ranks)]


class Ranked(System):
    """What a system does beside its own work when it is one of several.

    Attributes
    ----------
    transport : rnnopt.time_parallel.transport.Transport
    share : Share
    """

    transport = share = None

    def _neighbour(self, ahead):
        return self.share.neighbour(ahead, self.way.reverse)

    def _ends(self, level):
        """Indices of the first interval's C-point and of the last interval's candidate."""
        places, *rest = self.hierarchy.shape(level)
        first, last = zip(*map(self.way.edges, rest), strict=True) if rest else ((), ())
        return (self.way.c_point(places), *first), (self.way.candidate(places), *last)

    def _send(self, level):
        if (rank := self._neighbour(ahead=True)) is not None:
            self.transport.send(np.stack([part[self._ends(level)[1]] for part in self.u[level]]), rank)

    def _receive(self):
        """What the rank behind has sent, or None on the first."""
        rank = self._neighbour(ahead=False)
        if rank is None:
            return None
        received = np.empty((len(self.u[0]), *self.u[0][0].shape[-2:]))
        self.transport.receive(received, rank)()
        return received

    def _take_over(self, level):
        if (received := self._receive()) is not None:
            for part, value in zip(self.u[level], received, strict=True):
                part[self._ends(level)[0]] = value

    def step(self, level, number, corrected=True):
        coarsest = level == self.hierarchy.coarsest
        if coarsest and number == 0:
            self._take_over(level)
        super().step(level, number, corrected)
        if coarsest and number == self.hierarchy.units - 1:
            self._send(level)

    def exchange(self, level):
        super().exchange(level)
        self._send(level)
        self._take_over(level)

    def norm(self):
        super().norm()
        sums = np.square(self.norms.pop())  # of its own intervals
        self._send(0)
        if (received := self._receive()) is not None:
            c_points = np.stack([part[self._ends(0)[0]] for part in self.u[0]])
            sums += np.sum((received - c_points) ** 2), np.sum(c_points ** 2)
        self.transport.add(sums)
        self.norms.append(tuple(np.sqrt(sums)))


class RankedRecurrence(Ranked, Recurrence):
    """A rank's part of a recurrence; its inputs are those of its steps, and only the first rank's `initial` counts."""


class RankedAdjoint(Ranked, Adjoint):
    """A rank's part of an adjoint."""
