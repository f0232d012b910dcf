"""A solve on a device: the plans of its start, a cycle and its end, and how often the cycle is replayed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rnnopt.plan import Plan
from rnnopt.schedule.builder import Builder
from rnnopt.spec import NetworkSpec
from rnnopt.time_parallel.adjoint import PlannedAdjoint
from rnnopt.time_parallel.cycle import Cycle
from rnnopt.time_parallel.mgrit import MGRIT, NotConverged
from rnnopt.time_parallel.recurrence import PlannedRecurrence

#: What a solve consists of; `again` begins instead of `start` where a call may go on from the states of the one before.
PARTS = ("start", "again", "cycle", "finish")


@dataclass(frozen=True)
class Plans:
    """What a solve replays, with the steps that each part takes (those of all intervals counted).

    Attributes
    ----------
    start, cycle, finish : Plan
    again : Plan
        What begins instead of `start` where a call goes on from the states of the one before.
    steps : dict of str to int
    """

    start: Plan
    again: Plan
    cycle: Plan
    finish: Plan
    steps: dict


def plans(spec: NetworkSpec, solver: MGRIT, *, backward: bool = False, training: bool = False) -> Plans:
    """Return the plans of a solve.

    Parameters
    ----------
    spec : NetworkSpec
    solver : MGRIT
    backward : bool
        Of the gradients instead of the states.
    training : bool
        Keep what the gradients need.
    """
    hierarchy = solver.hierarchy(spec.steps)
    system = PlannedAdjoint if backward else PlannedRecurrence
    made, steps = {}, {}

    def emit(name, write, keep=False):
        builder = Builder()
        written = system(builder, spec, hierarchy, keep)
        write(written, Cycle(written, hierarchy, solver.relaxations(hierarchy)))
        made[name], steps[name] = builder.plan(cells=spec.layers * spec.steps), written.evaluated

    def begin(warm):
        def write(written, cycle):
            written.prepare()
            if solver.start == "coarse" and hierarchy.coarsest:
                cycle.start()
            else:
                written.begin(warm)
        return write

    def finish(written, cycle):
        cycle.finish()
        written.results()

    emit("start", begin(warm=False))
    if not backward and solver.start == "previous":
        emit("again", begin(warm=True))
    else:
        made["again"], steps["again"] = made["start"], steps["start"]
    emit("cycle", lambda written, cycle: cycle.cycle(kind=solver.cycle, norm=solver.norms or solver.tolerance is not None))
    emit("finish", finish, keep=training or backward)
    return Plans(**made, steps=steps)


class Iterated:
    """How often what is replayed.

    Parameters
    ----------
    spec : NetworkSpec
    solver : MGRIT
    plans : Plans
    backward : bool

    Attributes
    ----------
    convergence : list of float
        Of the last replay, at each cycle: the residual's norm over that of the C-points, as they were when the cycle
        began. NaN where the solver asks for no norms.
    steps : int
        Steps that the last replay took, those of all intervals counted.
    """

    def __init__(self, spec, solver, plans, backward=False):
        self.spec, self.solver, self.plans, self.backward = spec, solver, plans, backward
        self.hierarchy = solver.hierarchy(spec.steps)
        cycles = (solver.backward_iterations if backward else solver.iterations) - (solver.start == "coarse")
        self._most = cycles if self.hierarchy.coarsest else 0
        self._begun = False
        self.convergence, self.steps = [], 0

    def replay(self) -> float:
        """Solve once; return the seconds that it took.

        Raises
        ------
        NotConverged
            If the solver has a tolerance, and it was not reached.
        """
        tolerance = self.solver.tolerance
        begin, self._begun = "again" if self._begun else "start", True
        self.convergence, self.steps = [], 0
        seconds = self._run(begin)
        while len(self.convergence) < self._most and not self._converged:
            seconds += self._run("cycle")
            self.convergence.append(self._residual())
        seconds += self._run("finish")
        if tolerance is not None and self._most and not self._converged:
            what = "gradients" if self.backward else "states"
            raise NotConverged(f"the {what} have a residual of {self.convergence[-1]:.2g}, relative to themselves, after {self._most} "
                               f"cycles, and {tolerance:g} was asked for: allow more iterations, relax more, or coarsen less")
        return seconds

    @property
    def _converged(self):
        return self.solver.tolerance is not None and bool(self.convergence) and self.convergence[-1] <= self.solver.tolerance

    def _run(self, name):
        self.steps += self.plans.steps[name]
        return self.run(name)

    def run(self, name) -> float:
        """Do a part of the solve, ``"start"``, ``"again"``, ``"cycle"`` or ``"finish"``; return its seconds."""
        raise NotImplementedError

    def _residual(self):
        raise NotImplementedError


class Solve(Iterated):
    """An executable, as a device prepares one, that replays the plans of a solve.

    Parameters
    ----------
    device
    spec, solver, plans, backward
        As :class:`Iterated` has them.
    share : Solve, optional
        Buffers that it has too, by name, are the same memory.
    """

    def __init__(self, device, spec, solver, plans, backward=False, share=None):
        super().__init__(spec, solver, plans, backward)
        last = share and share._last
        self._executables = {}
        for name in PARTS:
            if name == "again" and plans.again is plans.start:
                self._executables[name] = last
            else:
                last = self._executables[name] = device.prepare(spec, getattr(plans, name), last)
        self._last = last
        self._sums = [buffer.name for buffer in plans.cycle.buffers.values() if buffer.role == "output"]

    def load(self, arrays):
        """Give inputs, weights and states, by buffer name."""
        for name, array in arrays.items():
            for executable in self._executables.values():
                if name in executable.plan.buffers:
                    executable.load({name: array})
                    break

    def run(self, name):
        return self._executables[name].replay()

    def result(self, name) -> np.ndarray:
        """Return an output of the last replay."""
        return self._executables["finish"].result(name)

    def close(self):
        for executable in dict.fromkeys(reversed(self._executables.values())):
            executable.close()

    def _residual(self):
        """Norm of the residual over that of the C-points, by the sums that the cycle leaves; NaN if it leaves none."""
        sums = {"residual": 0.0, "size": 0.0}
        for name in self._sums:
            sums[name.split("_")[-2]] += float(self._executables["cycle"].result(name).sum(dtype=np.float64))
        return ratio(np.sqrt(sums["residual"]), np.sqrt(sums["size"])) if self._sums else float("nan")


def ratio(residual, size) -> float:
    """Residual relative to what it is of; infinite where that is zero, as it is to begin with."""
    return float(residual / size) if size else float("inf") if residual else 0.0
