"""A solve on a device: the plans of its start, a cycle and its end, and how often the cycle is replayed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rnnopt.plan import Plan
from rnnopt.schedule.builder import Builder
from rnnopt.spec import NetworkSpec
from rnnopt.time_parallel.adjoint import PlannedAdjoint
from rnnopt.time_parallel.cycle import Cycle
from rnnopt.time_parallel.handover import RankedPlannedAdjoint, RankedPlannedRecurrence
from rnnopt.time_parallel.hierarchy import Hierarchy
from rnnopt.time_parallel.mgrit import MGRIT, NotConverged
from rnnopt.time_parallel.ranks import Share
from rnnopt.time_parallel.recurrence import PlannedRecurrence
from rnnopt.time_parallel.segments import SegmentedBuilder

#: What a solve consists of; `again` begins instead of `start` where a call may go on from the states of the one before.
PARTS = ("start", "again", "cycle", "finish")


@dataclass(frozen=True)
class Plans:
    """What a solve replays, with the steps that each part takes (those of all intervals counted).

    Attributes
    ----------
    start, cycle, finish : Plan
        Where ranks share the sequence: a tuple of plans, and of messages between them.
    again : Plan
        What begins instead of `start` where a call goes on from the states of the one before.
    steps : dict of str to int
    hierarchy : Hierarchy
    """

    start: Plan
    again: Plan
    cycle: Plan
    finish: Plan
    steps: dict
    hierarchy: Hierarchy

    @property
    def first(self) -> Plan:
        """What is replayed first."""
        return self.start if isinstance(self.start, Plan) else self.start[0]


def plans(spec: NetworkSpec, solver: MGRIT, *, backward: bool = False, training: bool = False, hierarchy: Hierarchy | None = None,
          share: Share | None = None) -> Plans:
    """Return the plans of a solve.

    Parameters
    ----------
    spec : NetworkSpec
    solver : MGRIT
    backward : bool
        Of the gradients instead of the states.
    training : bool
        Keep what the gradients need.
    hierarchy : Hierarchy, optional
        If not what `solver` makes of the steps.
    share : Share, optional
        What a rank has of the units, if `spec` and `hierarchy` are of its own steps alone.
    """
    hierarchy = hierarchy or solver.hierarchy(spec.steps)
    cells = spec.layers * spec.steps
    made, steps = {}, {}

    def emit(name, write, keep=False):
        if share is None:
            builder = Builder()
            written = (PlannedAdjoint if backward else PlannedRecurrence)(builder, spec, hierarchy, keep)
        else:
            builder = SegmentedBuilder()
            written = (RankedPlannedAdjoint if backward else RankedPlannedRecurrence)(builder, spec, hierarchy, keep, share=share)
        write(written, Cycle(written, hierarchy, solver.relaxations(hierarchy)))
        if share is not None:
            written.arrive()
        made[name] = builder.plan(cells) if share is None else builder.segments(cells)
        steps[name] = written.evaluated

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
    emit("cycle", lambda written, cycle: cycle.cycle(kind=solver.cycle, norm=solver.measures))
    emit("finish", finish, keep=training or backward)
    return Plans(**made, steps=steps, hierarchy=hierarchy)


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
        self.hierarchy = plans.hierarchy
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
        return ratio(*np.sqrt(self.sums())) if self.solver.measures else float("nan")

    def sums(self) -> np.ndarray:
        """Squares added up after a cycle: of the residual, and of the C-points that it belongs to."""
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
        #: Of each part its executables, and the messages between them.
        self.parts = {}
        for name in PARTS:
            if name == "again" and plans.again is plans.start:
                self.parts[name] = self.parts["start"]
                continue
            self.parts[name] = []
            part = getattr(plans, name)
            for item in (part,) if isinstance(part, Plan) else part:
                if isinstance(item, Plan):
                    item = last = device.prepare(spec, item, last)
                self.parts[name].append(item)
        self._last = last
        self._home = {}  # name of a buffer -> an executable that has it
        for executable in self._executables:
            self._home |= dict.fromkeys(executable.plan.buffers, executable)

    @property
    def _executables(self):
        return list(dict.fromkeys(item for part in self.parts.values() for item in part if hasattr(item, "replay")))

    def load(self, arrays):
        """Give inputs, weights and states, by buffer name."""
        for name, array in arrays.items():
            if name in self._home:
                self._home[name].load({name: array})

    def run(self, name):
        return sum(executable.replay() for executable in self.parts[name])

    def result(self, name) -> np.ndarray:
        """Return an output of the last replay."""
        return self._home[name].result(name)

    def close(self):
        for executable in reversed(self._executables):
            executable.close()

    def sums(self):
        found = np.zeros(2)
        for executable in self.parts["cycle"]:
            for name in executable.plan.buffers if hasattr(executable, "replay") else ():
                if "_residual_" in name or "_size_" in name:
                    found[int("_size_" in name)] += executable.result(name).sum(dtype=np.float64)
        return found


def ratio(residual, size) -> float:
    """Residual relative to what it is of; infinite where that is zero, as it is to begin with."""
    return float(residual / size) if size else float("inf") if residual else 0.0
