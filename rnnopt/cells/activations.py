"""Functions that gates are squashed with."""

from __future__ import annotations

import numpy as np


def sigmoid(x):
    """The logistic function σ, in the dtype of its argument."""
    # exp of a negative argument only, so that large |x| don't overflow.
    z = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, z) / (1 + z)
