"""The float64 reference as a device: what runs where there is no compiler."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from rnnopt import cells, reference
from rnnopt.schedule.dropout import numbers


def open_device():
    return ReferenceDevice()


class ReferenceDevice:
    """NumPy, one cell after the other: right on every machine, fast on none."""

    name = "reference"
    reason = "opened directly"

    def describe(self) -> dict:
        return {"device": self.name, "what": "NumPy float64 reference"}

    def input_group(self, spec) -> int:
        return 1

    def flush_cache(self):
        pass

    def prepare(self, spec, plan, share=None):
        return ReferenceExecutable(spec) if share is None else ReferenceBackward(spec, share)


class ReferenceExecutable:
    """Ignores the plan: its schedule makes no difference to a result."""

    def __init__(self, spec):
        self._spec, self._arrays, self._results = spec, {}, {}

    def load(self, arrays):
        self._arrays |= arrays

    def replay(self) -> float:
        names = cells.get(self._spec.cell).STATES
        start = perf_counter()
        outputs, state = reference.forward(self._spec, self._arrays, self._sequence("inputs"),
                                           self._states("initial"), key=self._key())
        self._results = {"outputs": outputs, **{f"final_{n}": part for n, part in zip(names, state, strict=True)}}
        return perf_counter() - start

    def result(self, name) -> np.ndarray:
        return self._results[name].astype(np.float32)

    def _sequence(self, name):
        return self._arrays[name].reshape(*self._spec.rows, -1)

    def _states(self, prefix):
        return [self._arrays[f"{prefix}_{name}"] for name in cells.get(self._spec.cell).STATES]

    def _key(self):
        return numbers(self._arrays["dropout_key"]) if "dropout_key" in self._arrays else None


class ReferenceBackward(ReferenceExecutable):
    """The backward pass of what another executable was last given."""

    def __init__(self, spec, forward):
        super().__init__(spec)
        self._arrays = forward._arrays

    def replay(self) -> float:
        start = perf_counter()
        gradients = reference.backward(self._spec, self._arrays, self._sequence("inputs"), self._sequence("d_outputs"),
                                       self._states("d_final"), self._states("initial"), key=self._key())
        states = zip(cells.get(self._spec.cell).STATES, gradients.pop("state"), strict=True)
        self._results = {f"d_{name}": value for name, value in gradients.items()} | {f"d_initial_{name}": part for name, part in states}
        return perf_counter() - start
