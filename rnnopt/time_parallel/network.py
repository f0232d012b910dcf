"""Networks whose states, and gradients, are solved for along time."""

from __future__ import annotations

from functools import cached_property

from rnnopt.network import Network, TrainingNetwork
from rnnopt.spec import NetworkSpec
from rnnopt.time_parallel.mgrit import MGRIT
from rnnopt.time_parallel.reference_solve import ReferenceSolve
from rnnopt.time_parallel.solve import Solve, plans


def compile_solved(spec: NetworkSpec, weights, solver: MGRIT, device, training: bool):
    """Return the network of :func:`rnnopt.compile` with a solver.

    Raises
    ------
    TypeError
        If `solver` is none.
    ValueError
        If the network is none that it can solve.
    """
    refuse(spec, solver, training)
    prepared = ReferenceSolve if device.name in ("reference", "model") else Solve
    return (SolvedTrainingNetwork if training else SolvedNetwork)(spec, weights, solver, device, prepared)


def refuse(spec: NetworkSpec, solver, training: bool):
    """Raise what :func:`compile_solved` raises."""
    if not isinstance(solver, MGRIT):
        raise TypeError(f"solver must be rnnopt.MGRIT(...), got {solver!r}")
    if spec.cell != "implicit_gru":
        raise ValueError(f"cell must be 'implicit_gru' for a solver along time, whose coarse levels take long steps, got {spec.cell!r}")
    refused = {"bidirectional": spec.bidirectional, "lengths": spec.lengths is not None, "dropout": training and spec.dropout}
    for name, value in refused.items():
        if value:
            raise ValueError(f"a network with {name} can't be solved for along time: leave solver out, or {name}")


class SolvedNetwork(Network):
    """A network that is solved for along time; call it as any :class:`rnnopt.Network`.

    Parameters
    ----------
    spec, weights, device
        As :class:`rnnopt.Network` has them.
    solver : MGRIT
    prepared : callable
        What makes an executable of plans: :class:`Solve`, or another that is called as it is.
    **part
        For a rank: its hierarchy and share, as :func:`plans` takes them.

    Attributes
    ----------
    plans : rnnopt.time_parallel.solve.Plans
    solver : MGRIT
    hierarchy : rnnopt.time_parallel.hierarchy.Hierarchy
    """

    def __init__(self, spec, weights, solver, device, prepared, **part):
        self.plans = plans(spec, solver, **part)
        super().__init__(spec, weights, self.plans.first, device)
        self.solver, self.hierarchy, self._prepared = solver, self.plans.hierarchy, prepared

    @cached_property
    def executable(self):
        executable = self._solve(self.plans)
        executable.load(self.weights)
        return executable

    def _solve(self, plans, **options):
        return self._prepared(self.device, self.spec, self.solver, plans, **options)

    @property
    def convergence(self) -> list[float]:
        """Residuals of the last call, as :class:`rnnopt.time_parallel.solve.Solve` records them."""
        return self.executable.convergence


class SolvedTrainingNetwork(SolvedNetwork, TrainingNetwork):
    """A network that is trained along time: its gradients are those at the states it has, and solved for as they are.

    Attributes
    ----------
    plans, backward_plans : rnnopt.time_parallel.solve.Plans
    """

    def __init__(self, spec, weights, solver, device, prepared, **part):
        self.plans, self.backward_plans = plans(spec, solver, training=True, **part), plans(spec, solver, backward=True, **part)
        TrainingNetwork.__init__(self, spec, weights, self.plans.first, self.backward_plans.first, device)
        self.solver, self.hierarchy, self._prepared = solver, self.plans.hierarchy, prepared

    @cached_property
    def backward_executable(self):
        return self._solve(self.backward_plans, backward=True, share=self.executable)
