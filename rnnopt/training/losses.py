"""Losses and what stands between them and a network, each with its gradient."""

from __future__ import annotations

import numpy as np


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean of -log softmax(logits)[label] over the mini-batch, and its gradient.

    Parameters
    ----------
    logits : ndarray of float32, shape (batch, classes)
    labels : ndarray of int, shape (batch,)
        Each at least 0 and less than the number of classes.

    Returns
    -------
    loss : float
    d_logits : ndarray of float32, shape (batch, classes)

    Raises
    ------
    TypeError
        If the labels are no integers.
    ValueError
        If the batch is empty, shapes don't fit, or a label is no class.
    FloatingPointError
        If a logit is NaN or infinite.
    """
    logits, labels = checked(logits, labels)
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))
    d_logits = np.exp(shifted - log_sum)
    d_logits[rows, labels] -= 1
    return float(np.mean(log_sum[:, 0] - shifted[rows, labels])), (d_logits / len(labels)).astype(np.float32)


def checked(logits, labels) -> tuple[np.ndarray, np.ndarray]:
    """Return logits and labels as arrays, or raise what :func:`cross_entropy` says."""
    logits, labels = np.asarray(logits), np.asarray(labels)
    if logits.ndim != 2 or 0 in logits.shape or labels.shape != logits.shape[:1]:
        raise ValueError(f"logits must have shape (batch, classes) and labels (batch,), neither of them empty; "
                         f"got {logits.shape} and {labels.shape}")
    if not np.issubdtype(labels.dtype, np.integer):
        raise TypeError(f"labels must be integers, got {labels.dtype}")
    if labels.min() < 0 or labels.max() >= logits.shape[1]:
        raise ValueError(f"labels must be at least 0 and less than the {logits.shape[1]} classes, "
                         f"got values from {labels.min()} to {labels.max()}")
    if not np.isfinite(logits).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(logits))[0])
        raise FloatingPointError(f"the loss is not finite: logits[{row}, {column}] is {logits[row, column]}")
    return logits, labels


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return x · weightᵀ + bias: (batch, features), (outputs, features), (outputs,) -> (batch, outputs)."""
    with np.errstate(over="ignore", invalid="ignore"):  # the loss looks at what comes of it
        return x @ weight.T + bias


def linear_backward(x: np.ndarray, weight: np.ndarray, d_y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the gradients of x, weight and bias, given that of what :func:`linear` returns."""
    return d_y @ weight, d_y.T @ x, d_y.sum(axis=0)
