"""The float64 reference as a device: what runs where there is no compiler."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from rnnopt import cells, reference


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

    def prepare(self, spec, plan):
        return ReferenceExecutable(spec)


class ReferenceExecutable:
    """Ignores the plan: its schedule makes no difference to a result."""

    def __init__(self, spec):
        self._spec, self._arrays, self._results = spec, {}, {}

    def load(self, arrays):
        self._arrays |= arrays

    def replay(self) -> float:
        names = cells.get(self._spec.cell).STATES
        start = perf_counter()
        outputs, state = reference.forward(self._spec, self._arrays, self._arrays["inputs"],
                                           [self._arrays[f"initial_{name}"] for name in names])
        self._results = {"outputs": outputs, **{f"final_{n}": part for n, part in zip(names, state, strict=True)}}
        return perf_counter() - start

    def result(self, name) -> np.ndarray:
        return self._results[name].astype(np.float32)
