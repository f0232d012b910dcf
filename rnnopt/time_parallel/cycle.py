"""The multigrid-reduction-in-time cycle (Moon & Cyr 2022, Algorithm 2; the full approximation scheme of XBraid).

A system is u_i = Φ(u_{i-1}) + f_i on each level, with f = 0 on level 0 (or a gradient's sources), and Φ of level l a
step of c^l. This module says what is relaxed, restricted and corrected, and when. How, a system knows: those of
:mod:`rnnopt.time_parallel.systems` compute at once, those of :mod:`rnnopt.time_parallel.planned` write a plan.

Restriction is injection: a level begins with the C-points of the level below, so the correction u_c + (coarse - u_c) is the coarse
value itself; and of the right side r_c + u_c - Φ_{l+1}(u_{c-1}) remains candidate - Φ_{l+1}(u_{c-1}).
"""

from __future__ import annotations

from rnnopt.time_parallel.hierarchy import Hierarchy


class Cycle:
    """Start, cycles and end of a solve.

    Parameters
    ----------
    system
        Has ``step(level, number)``, ``exchange(level)``, ``restrict(level)``, ``inject(level)``, ``norm()``, and
        ``first_coarse()`` which sets the first point of the coarsest level.
    hierarchy : Hierarchy
    relaxation : tuple of int
        For each level but the coarsest, how often C-points are relaxed before a restriction: 0 is F, 1 FCF, 2 FCFCF.
    """

    def __init__(self, system, hierarchy: Hierarchy, relaxation: tuple[int, ...]):
        self._system, self._hierarchy, self._relaxation = system, hierarchy, relaxation

    def start(self):
        """Solve the coarsest level alone and take the result down: the first guess, with no cycle spent on zeros."""
        if not self._hierarchy.coarsest:
            return  # :meth:`finish` is the serial recurrence then
        self._system.first_coarse()
        self._solve(corrected=False)
        for level in reversed(range(self._hierarchy.coarsest)):
            self._system.inject(level)
            if level > 0:
                self.f_relax(level, corrected=False)

    def cycle(self, level: int = 0, kind: str = "V", norm: bool = False):
        """Improve `level`: relax, correct by the next level, and (but on level 0, where the next cycle does it) relax F-points."""
        if level == self._hierarchy.coarsest:
            self._solve()
            return
        if kind == "relaxation":
            self.f_relax(level)
            self._candidates(level)
            if norm:
                self._system.norm()
            self._system.exchange(level)
            return
        for _ in range(self._relaxation[level]):
            self.f_relax(level)
            self.c_relax(level)
        self.f_relax(level)
        self._candidates(level)
        if norm and level == 0:
            self._system.norm()
        self._system.restrict(level)
        self.cycle(level + 1, kind)
        if kind == "F" and level + 1 < self._hierarchy.coarsest:
            self.cycle(level + 1, "V")
        self._system.inject(level)
        if level > 0:
            self.f_relax(level)

    def finish(self):
        """Relax level 0 once more: what was corrected last reaches all steps."""
        self.f_relax(0)
        self._candidates(0)

    def f_relax(self, level, corrected=True):
        """Go through all intervals side by side, from their C-points."""
        for number in range(self._hierarchy.places(level) - 1):
            self._system.step(level, number, corrected)

    def c_relax(self, level):
        """Renew the C-points from the last F-points before them."""
        self._candidates(level)
        self._system.exchange(level)

    def _candidates(self, level):
        self._system.step(level, self._hierarchy.places(level) - 1)

    def _solve(self, corrected=True):
        for number in range(self._hierarchy.units):
            self._system.step(self._hierarchy.coarsest, number, corrected)
