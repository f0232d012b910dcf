"""Levels of time points, and where they lie in memory.

Level 0 has all steps, level l + 1 every c-th point of level l, with c the coarsening factor: its *C-points*. The points between
are *F-points*. C-points cut a level into intervals, which relaxation goes through side by side. Here points are laid out
by their place in an interval first, so that what is done side by side lies side by side: on three levels, with factors 4 and 2,
step t = (unit × 2 + b) × 4 + a is at [a, b, unit]. So all intervals' points at place a are one matrix of (interval × batch) rows,
and the C-points of a level, [0, ...], lie as the next level has its own.

To its places a level adds one: the *candidate*, where a step from the last place leads, which is the next interval's C-point.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod


@dataclass(frozen=True)
class Hierarchy:
    """Levels over a sequence.

    Parameters
    ----------
    steps : int
        Of the sequence. Points are added to the last interval of the coarsest level until it is whole; they read zeros.
    factors : tuple of int
        Coarsening factor of each level but the coarsest.
    """

    steps: int
    factors: tuple[int, ...]

    @property
    def levels(self) -> int:
        return len(self.factors) + 1

    @property
    def coarsest(self) -> int:
        return len(self.factors)

    @property
    def units(self) -> int:
        """Points of the coarsest level."""
        return -(-self.steps // prod(self.factors))

    @property
    def padded(self) -> int:
        """Steps with those that were added."""
        return self.units * prod(self.factors)

    def shape(self, level: int) -> tuple[int, ...]:
        """The points of `level`, as they are laid out: place in an interval, interval in one of the next level, and so on."""
        return *self.factors[level:], self.units

    def points(self, level: int) -> int:
        return prod(self.shape(level))

    def places(self, level: int) -> int:
        """Points of an interval; on the coarsest level all are one."""
        return self.shape(level)[0]

    def dt(self, level: int) -> int:
        """Size of a step of `level`, in steps of level 0."""
        return prod(self.factors[:level])

    @cached_property
    def passes(self) -> tuple[tuple[int, int], ...]:
        """From steps in their order to steps as they are laid out: exchange (inner, radix) for (radix, inner), pass after pass."""
        found, inner = [], self.padded
        for factor in self.factors:
            inner //= factor
            found.append((inner, factor))
        return tuple(found)

    def place(self, step: int) -> tuple[int, ...]:
        """Where `step` is on level 0."""
        index = []
        for factor in self.factors:
            step, digit = divmod(step, factor)
            index.append(digit)
        return *index, step


class Along:
    """With the sequence: points follow each other from the first place to the last, and on to the candidate."""

    reverse = False

    @staticmethod
    def slots(places: int, number: int) -> tuple[int, int, int]:
        """Of step `number` in an interval: the slot it leads from, that it leads to, and the place of what it reads."""
        return number, number + 1, number

    @staticmethod
    def c_point(places: int) -> int:
        """Slot of the C-points."""
        return 0

    @staticmethod
    def candidate(places: int) -> int:
        return places

    @staticmethod
    def points(places: int) -> slice:
        """Slots of a level's points, without the candidate."""
        return slice(0, places)

    @staticmethod
    def edges(count: int) -> tuple[int, int]:
        """First and last of `count`, in the order of the steps."""
        return 0, count - 1

    @staticmethod
    def shifted(count: int) -> tuple[slice, slice]:
        """All but the last of `count`, and those that follow them."""
        return slice(0, count - 1), slice(1, count)


class Against(Along):
    """Against the sequence, as gradients go: the same, mirrored."""

    reverse = True

    @staticmethod
    def slots(places, number):
        return places - number, places - number - 1, places - number - 1

    @staticmethod
    def c_point(places):
        return places

    @staticmethod
    def candidate(places):
        return 0

    @staticmethod
    def points(places):
        return slice(1, places + 1)

    @staticmethod
    def edges(count):
        return count - 1, 0

    @staticmethod
    def shifted(count):
        return slice(1, count), slice(0, count - 1)


def pieces(way, shape: tuple[int, ...]) -> list[tuple[tuple, tuple]]:
    """Pair (indices of intervals, indices of those that follow them): the candidates of the first are C-points of the second.

    An interval that is the last of its unit is followed by the first of the next one: so there is a piece for each level above.
    The last interval of all has no follower, and the first follows none.
    """
    found, ends, starts = [], (), ()
    for count in shape:
        before, after = way.shifted(count)
        if count > 1:
            found.append(((*ends, before), (*starts, after)))
        first, last = way.edges(count)
        ends, starts = (*ends, last), (*starts, first)
    return found
