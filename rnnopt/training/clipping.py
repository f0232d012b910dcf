"""Clipping gradients by their norm."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def clip_by_norm(gradients: Mapping[str, np.ndarray], max_norm: float) -> tuple[float, float]:
    """Return the norm of all gradients together, and the factor that brings it down to `max_norm`.

    The gradients stay as they are: the factor is given to the optimiser's ``update``,
    which saves a pass over them. The rule is that of torch's ``clip_grad_norm_``.

    Parameters
    ----------
    gradients : mapping of str to ndarray
    max_norm : float
        More than 0; may be infinite, to only look at the norm.

    Raises
    ------
    ValueError
        If `max_norm` is not more than 0.
    FloatingPointError
        If a gradient is NaN or infinite: no factor would help.
    """
    if not max_norm > 0:
        raise ValueError(f"max_norm must be more than 0, got {max_norm}")
    squares = {name: float(np.einsum("i,i->", value.ravel(), value.ravel(), dtype=np.float64)) for name, value in gradients.items()}
    norm = float(np.sqrt(sum(squares.values())))
    if not np.isfinite(norm):
        wrong = [name for name, square in squares.items() if not np.isfinite(square)]
        raise FloatingPointError(f"gradients are not finite: {', '.join(wrong)}; the network's outputs or its loss have exploded before")
    return norm, min(1.0, max_norm / (norm + 1e-6))
