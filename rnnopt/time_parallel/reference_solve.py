"""A solve in float64 NumPy."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from rnnopt import cells
from rnnopt.time_parallel.cycle import Cycle
from rnnopt.time_parallel.solve import Iterated
from rnnopt.time_parallel.systems import Adjoint, recurrence
from rnnopt.weights import parameter_names


class ReferenceSolve(Iterated):
    """An executable for devices that run no plans: the reference, which is timed, and the model, which says how long a plan takes.

    Parameters
    ----------
    device, spec, solver, plans, backward
        As :class:`Solve` has them.
    share : ReferenceSolve, optional
        The forward solve, whose states the gradients are taken at.
    """

    def __init__(self, device, spec, solver, plans, backward=False, share=None):
        super().__init__(spec, solver, plans, backward)
        self._predict = getattr(device, "timeline", None)
        self._arrays, self._forward, self.system = {} if share is None else share._arrays, share, None

    def load(self, arrays):
        self._arrays |= arrays

    def run(self, name):
        start = perf_counter()
        if name in ("start", "again"):
            before, self.system = self.system, self._adjoint() if self.backward else self._recurrence()
            self._cycle = Cycle(self.system, self.hierarchy, self.solver.relaxations(self.hierarchy))
            if self.solver.start == "coarse":
                self._cycle.start()
            elif self.solver.start == "previous" and before is not None and not self.backward:
                self.system.go_on(before)
        elif name == "cycle":
            self._cycle.cycle(kind=self.solver.cycle, norm=True)
        else:
            self._cycle.finish()
        return self._predict(getattr(self.plans, name)).seconds if self._predict else perf_counter() - start

    def result(self, name) -> np.ndarray:
        return np.ascontiguousarray(self._results()[name], np.float32)

    def _results(self):
        if not self.backward:
            outputs = self.system.outputs()
            return {"outputs": outputs[-1], "final_h": np.stack([part[-1] for part in outputs])}
        start = (0,) * self.hierarchy.levels
        found = {"d_inputs": self.system.d_inputs(), "d_initial_h": np.stack([part[start] for part in self.system.u[0]])}
        for layer, gradients in enumerate(self.system.gradients()):
            found |= {f"d_{name}": value for name, value in zip(parameter_names(layer, False), gradients, strict=True)}
        return found

    def _recurrence(self):
        return recurrence(self.spec, self._arrays, self._arrays["inputs"], self.hierarchy, state=self._arrays["initial_h"])

    def _adjoint(self):
        return Adjoint(self._forward.system, cells.get(self.spec.cell).step_backward,
                       *(np.asarray(self._arrays[name], np.float64) for name in ("d_outputs", "d_final_h")))

    def sums(self):
        return np.square(self.system.norms[-1])
