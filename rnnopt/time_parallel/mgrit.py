"""What a multigrid solve along time is told: levels, relaxation, iterations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite, prod

from rnnopt.names import did_you_mean
from rnnopt.spec import positive_integer
from rnnopt.time_parallel.hierarchy import Hierarchy

#: What a level relaxes before it is restricted -> how often its C-points are among it.
RELAXATIONS = {"F": 0, "FCF": 1, "FCFCF": 2, "FCFCFCF": 3}

CYCLES = ("V", "F", "relaxation")

STARTS = ("coarse", "zeros", "previous")


class NotConverged(ArithmeticError):
    """A tolerance was asked for, and not reached in as many iterations as were allowed."""


@dataclass(frozen=True)
class MGRIT:
    """Multigrid reduction in time, of a recurrence and of its gradients (Moon & Cyr 2022).

    The defaults are those of the authors' logged run on UCI-HAR. They make results *approximate*, gradients more than
    states: more iterations, or a tolerance, make them as exact as wanted, and T / c iterations of F-relaxation or
    T / 2c of FCF-relaxation, with c the first coarsening factor, make them exact but for rounding.

    Parameters
    ----------
    levels : int
        Of time points. On one level there is nothing parallel: that is the serial recurrence. A sequence too short for so many has fewer.
    coarsening : int or sequence of int
        Points of a level for each of the next: for all levels, or for each but the coarsest.
    relaxation : str or sequence of str
        ``"F"``, ``"FCF"``, ``"FCFCF"`` or ``"FCFCFCF"``: for all levels, or for each from the finest; the last holds for the rest.
    iterations, backward_iterations : int
        Of the forward and of the backward solve. The first of them is the start, unless `start` is ``"zeros"`` or ``"previous"``.
    cycle : str
        ``"V"``; ``"F"``, which corrects each level twice; or ``"relaxation"``, which relaxes F- and C-points of the finest level and
        corrects nothing. That is enough, and the least work, where a network has forgotten within an interval what came before it.
    start : str
        ``"coarse"`` solves the coarsest level first and takes the result down; ``"zeros"`` and ``"previous"`` begin with a
        cycle, from zeros or from what the last call of the same network ended with (forward; gradients then begin with zeros).
    tolerance : float, optional
        Iterate until the residual at the C-points, in the 2-norm, is at most so much of the norm of the C-points themselves; `iterations`
        and `backward_iterations` are then the most that are made.
    norms : bool
        Record residuals, which a tolerance needs anyway.

    Raises
    ------
    TypeError, ValueError
        If an option is wrong; the message names it.
    """

    levels: int = 3
    coarsening: int | tuple[int, ...] = 4
    relaxation: str | tuple[str, ...] = ("F", "FCF")
    iterations: int = 2
    backward_iterations: int = 1
    cycle: str = "V"
    start: str = "coarse"
    tolerance: float | None = None
    norms: bool = False

    def __post_init__(self):
        for name in ("levels", "iterations", "backward_iterations"):
            object.__setattr__(self, name, positive_integer(name, getattr(self, name)))
        object.__setattr__(self, "coarsening", self._factors())
        object.__setattr__(self, "relaxation", self._relaxations())
        for name, known in (("cycle", CYCLES), ("start", STARTS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {getattr(self, name)!r}")
        if not isinstance(self.norms, bool):
            raise TypeError(f"norms must be True or False, got {self.norms!r}")
        if self.tolerance is not None:
            if isinstance(self.tolerance, bool) or not isinstance(self.tolerance, (int, float)):
                raise TypeError(f"tolerance must be a number greater than 0, or None, got {self.tolerance!r}")
            if not (isfinite(self.tolerance) and self.tolerance > 0):
                raise ValueError(f"tolerance must be greater than 0, got {self.tolerance}")

    def _factors(self):
        given, count = self.coarsening, self.levels - 1
        if isinstance(given, str) or not isinstance(given, Iterable):
            given = (given,) * count
        factors = tuple(positive_integer("coarsening", factor) for factor in given)
        if len(factors) != count:
            raise ValueError(f"coarsening must be a factor, or one for each of the {self.levels} levels but the coarsest, got {factors}")
        if 1 in factors:
            raise ValueError(f"coarsening must be at least 2, got {factors}")
        return factors

    def _relaxations(self):
        given = (self.relaxation,) if isinstance(self.relaxation, str) else self.relaxation
        if not isinstance(given, Iterable):
            raise TypeError(f"relaxation must be one of {', '.join(map(repr, RELAXATIONS))}, or one for each level, got {given!r}")
        given = tuple(given)
        for name in given:
            if name not in RELAXATIONS:
                raise ValueError(f"relaxation must be one of {', '.join(map(repr, RELAXATIONS))}, got {name!r}"
                                 f"{did_you_mean(str(name), RELAXATIONS)}")
        if not given or (len(given) > max(self.levels - 1, 1) and self.levels > 1 and given != ("F", "FCF")):
            raise ValueError(f"relaxation must be one, or one for each of the {self.levels} levels but the coarsest, got {given}")
        return given

    @property
    def measures(self) -> bool:
        """Whether a cycle takes the norm of the residual."""
        return self.norms or self.tolerance is not None

    def hierarchy(self, steps: int) -> Hierarchy:
        """Return the levels of a sequence of `steps`: as many as it has whole intervals for."""
        factors = self.coarsening
        while factors and prod(factors) > steps:
            factors = factors[:-1]
        return Hierarchy(steps, factors)

    def relaxations(self, hierarchy: Hierarchy) -> tuple[int, ...]:
        """How often C-points are relaxed before a restriction, on each level but the coarsest."""
        last = len(self.relaxation) - 1
        return tuple(RELAXATIONS[self.relaxation[min(level, last)]] for level in range(hierarchy.coarsest))
