"""Fit the constants that no data sheet gives, on published times of one card: ``python -m rnnopt.devices.model.fit``.

Only the Tesla M40 is fitted, on the paper's ladder, the full ladder's 27.807743 ms and DeepBench's LSTM rows (forward). What is
then predicted of other cards, of backward passes and of other cells is a test. The sum of absolute logarithms of predicted /
published is made small, which a few erratic rows don't govern; DeepBench as a whole weighs as much as the ladder.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rnnopt.devices.model import validation
from rnnopt.devices.model.costs import CONSTANTS

#: What is fitted, and the steps it is rounded to: finer would say more than the data do.
FITTED = {"load": 0.01, "transposed": 0.01, "saturated": 0.01, "prologue": 0.1, "latency": 0.1}


def misfit(constants) -> float:
    """Mean absolute logarithm of predicted / published, half of it the ladder's, half of it DeepBench's."""
    ladder = validation.ladder(constants=constants, steps=20)
    full = validation.full_ladder_milliseconds(constants)
    deepbench = validation.deepbench("m40", passes=("forward",), constants=constants)
    of_ladder = np.abs(np.log1p([*ladder.error[1:], *full.error]))
    return float(of_ladder.mean() + np.abs(np.log1p(deepbench.error)).mean()) / 2


def fit(start=CONSTANTS):
    """Return `start` with the entries of :data:`FITTED` at their best."""
    from scipy.optimize import minimize

    def constants(scale):
        return replace(start, **{name: getattr(start, name) * factor for name, factor in zip(FITTED, scale, strict=True)})

    found = minimize(lambda scale: misfit(constants(scale)) if min(scale) > 0.2 else 1e3, np.ones(len(FITTED)), method="Nelder-Mead",
                     options={"xatol": 1e-3, "fatol": 1e-4, "maxfev": 300,
                              "initial_simplex": np.vstack([np.ones(len(FITTED)), 1 + 0.15 * np.eye(len(FITTED))])}).x
    return replace(start, **{name: round(round(getattr(constants(found), name) / step) * step, 6) for name, step in FITTED.items()})


if __name__ == "__main__":
    best = fit()
    print(f"misfit {misfit(CONSTANTS):.4f} before, {misfit(best):.4f} after")
    for name in FITTED:
        print(f"    {name}: float = {getattr(best, name):.4g}")
