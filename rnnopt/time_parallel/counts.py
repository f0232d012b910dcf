"""Steps that a solve takes, by formula: what the cycles are counted against, and what an ideal speed-up follows from."""

from __future__ import annotations

from rnnopt.time_parallel.hierarchy import Hierarchy


def cycle_steps(hierarchy: Hierarchy, relaxation: tuple[int, ...]) -> int:
    """Steps of a V-cycle, those of all intervals counted.

    With n_l points and factor c_l on level l, and ρ_l relaxations of C-points::

        Σ_{l < last} (ρ_l n_l + n_l + n_{l+1}) + n_last + Σ_{0 < l < last} n_l (1 - 1/c_l)

    relaxation; F-points and residual; the coarse step of the right side; the coarsest solve; F-points after a correction.
    """
    n, last = [hierarchy.points(level) for level in range(hierarchy.levels)], hierarchy.coarsest
    down = sum((1 + relaxation[level]) * n[level] + n[level + 1] for level in range(last))
    return down + n[last] + sum(_f_points(hierarchy, level) for level in range(1, last))


def start_steps(hierarchy: Hierarchy) -> int:
    """Steps of the start: the coarsest solve, and F-points on the way down."""
    last = hierarchy.coarsest
    return hierarchy.points(last) + sum(_f_points(hierarchy, level) for level in range(1, last)) if last else 0


def solve_steps(hierarchy: Hierarchy, relaxation: tuple[int, ...], iterations: int, *, start: bool = True, finish: str = "FC") -> int:
    """Steps of a whole solve.

    Parameters
    ----------
    hierarchy : Hierarchy
    relaxation : tuple of int
        Relaxations of C-points on each level but the coarsest.
    iterations : int
    start : bool
        Whether the first iteration is the start.
    finish : {"FC", "F"}
        Whether the end renews the C-points. Ours does; the forward solve of the authors' logged run did not.
    """
    cycles = (iterations - start) * cycle_steps(hierarchy, relaxation) if hierarchy.coarsest else 0
    end = hierarchy.points(0) if finish == "FC" or not hierarchy.coarsest else _f_points(hierarchy, 0)
    return (start_steps(hierarchy) if start else 0) + cycles + end


def ideal_speedup(hierarchy: Hierarchy, relaxation: tuple[int, ...], iterations: int, backward_iterations: int, ranks: int) -> float:
    """Serial training step over that of `ranks`, if communication is free, and a backward step costs two forward steps.

    Relaxation is shared by the ranks; the coarsest level goes from rank to rank.
    """
    def share(iterations):
        serial = iterations * hierarchy.points(hierarchy.coarsest)
        return serial + (solve_steps(hierarchy, relaxation, iterations) - serial) / ranks

    return 3 * hierarchy.padded / (share(iterations) + 2 * share(backward_iterations))


def _f_points(hierarchy, level):
    return hierarchy.points(level) - hierarchy.points(level + 1)
