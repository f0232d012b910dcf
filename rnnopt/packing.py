"""Sequences of different lengths in one mini-batch: packed, as torch's ``PackedSequence`` packs them.

Packed data hold no padding. With the longest sequence first, those that are
still going on at a step are the first ones; their rows follow each other, step after step::

    a b c    sequences of 3, 2 and 1 steps   ->   a0 b0 c0 a1 b1 a2

Gradients go the other way with the same two functions: what came from
:func:`unpack` has its gradients packed, and what was packed unpacked.
"""

from __future__ import annotations

from operator import index

import numpy as np


def pack(padded, lengths) -> tuple[np.ndarray, np.ndarray]:
    """Sort sequences by decreasing length and leave out their padding.

    ``NetworkSpec`` then wants ``lengths=lengths[order]``; states of the
    network, also the initial ones, have their sequences in this order.

    Parameters
    ----------
    padded : ndarray, shape (steps, batch, ...)
        Sequence k is ``padded[:lengths[k], k]``; what comes after it is not looked at.
    lengths : sequence of int
        Steps of each sequence: at least 1.

    Returns
    -------
    data : ndarray, shape (sum(lengths), ...)
        All steps of all sequences, as ``torch.nn.utils.rnn.pack_padded_sequence(..., enforce_sorted=False).data``.
    order : ndarray of int, shape (batch,)
        The sequences, longest first; equally long ones stay in their order.

    Raises
    ------
    TypeError, ValueError
        If a length is no integer, 0, or more than the steps there are, or
        their number is not that of the sequences.
    """
    padded = np.asarray(padded)
    if padded.ndim < 2:
        raise ValueError(f"padded must have the shape (steps, batch, ...), got {padded.shape}")
    steps, batch = padded.shape[:2]
    lengths = _checked(lengths)
    if len(lengths) != batch:
        raise ValueError(f"lengths must say the steps of each of the {batch} sequences of padded, whose shape is {padded.shape}: "
                         f"got {len(lengths)} of them")
    if lengths.max() > steps:
        k = int(lengths.argmax())
        raise ValueError(f"lengths[{k}] is {lengths[k]}, but padded has only {steps} steps: cut the length, or pad to as many steps")
    order = _longest_first(lengths)
    return padded[_positions(lengths[order], order)], order


def unpack(data, lengths, *, order=None) -> np.ndarray:
    """Put sequences back where :func:`pack` took them from, with zeros as padding.

    Parameters
    ----------
    data : ndarray, shape (sum(lengths), ...)
    lengths : sequence of int
        Steps of each sequence, as :func:`pack` was given them: not sorted.
    order : ndarray of int, shape (batch,), optional
        As :func:`pack` returned it; found from the lengths if not given.

    Returns
    -------
    ndarray, shape (max(lengths), batch, ...)

    Raises
    ------
    TypeError, ValueError
        If a length is no integer or 0, or the data or the order don't belong to the lengths.
    """
    data, lengths = np.asarray(data), _checked(lengths)
    tokens = int(lengths.sum())
    if data.shape[:1] != (tokens,):
        raise ValueError(f"data must have {tokens} rows, the sum of lengths, got the shape {data.shape}")
    order = _longest_first(lengths) if order is None else np.asarray(order)
    if order.shape != lengths.shape or (np.sort(order) != np.arange(len(lengths))).any():
        raise ValueError(f"order must hold each of the numbers 0 to {len(lengths) - 1} once, as pack returns it, got {order.tolist()}")
    if (np.diff(lengths[order]) > 0).any():
        raise ValueError(f"order must take the longest sequence first, but takes lengths of {lengths[order].tolist()}: "
                         "give lengths as pack was given them, not sorted")
    padded = np.zeros((lengths.max(), len(lengths), *data.shape[1:]), data.dtype)
    padded[_positions(lengths[order], order)] = data
    return padded


def _longest_first(lengths):
    return np.argsort(-lengths, kind="stable")


def _positions(lengths, order):
    """Return step and sequence of every row of packed data, given decreasing lengths."""
    steps, places = np.nonzero(lengths > np.arange(lengths[0])[:, None])
    return steps, order[places]


def _checked(lengths):
    checked = []
    for k, length in enumerate(lengths):
        try:
            if isinstance(length, (bool, np.bool_)):
                raise TypeError
            checked.append(index(length))
        except TypeError:
            raise TypeError(f"lengths must be integers, but lengths[{k}] is {length!r}") from None
        if checked[-1] < 1:
            raise ValueError(f"lengths[{k}] is {checked[-1]}, but every sequence must have at least 1 step: leave it out of the batch")
    if not checked:
        raise ValueError("lengths is empty: a batch must have at least one sequence")
    return np.array(checked)
