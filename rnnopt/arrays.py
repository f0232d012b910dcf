"""Arrays of other libraries as NumPy's, by DLPack: the same memory, no copy."""

from __future__ import annotations

import numpy as np


def as_numpy(name: str, array) -> np.ndarray:
    """Return `array` as a NumPy array that shares its memory.

    Parameters
    ----------
    name : str
        What the array is, for messages.
    array : ndarray, or anything with ``__dlpack__`` whose memory is the CPU's
        PyTorch tensors among others. (What rnnopt returns goes the other way by ``torch.from_dlpack``.)

    Raises
    ------
    TypeError
        If it is neither, is masked (the mask would be lost), needs gradients of
        its own, is a view that torch has yet to negate or conjugate (its memory
        holds the values before), or lies on another device; the message says what to do.
    """
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, and its mask would be lost: fill it first, with .filled(value)")
    if isinstance(array, np.ndarray):
        return array
    if not hasattr(array, "__dlpack__"):
        raise TypeError(f"{name} must be a NumPy array of float32, got {type(array).__name__}")
    if getattr(array, "requires_grad", False):
        raise TypeError(f"{name} requires gradients, which can't follow it here: give {name}.detach()")
    # DLPack knows nothing of these two bits of a tensor, and torch exports a negated view without a word.
    for bit, done in (("neg", "negated"), ("conj", "conjugated")):
        if hasattr(array, f"is_{bit}") and getattr(array, f"is_{bit}")():
            raise TypeError(f"{name} is a view that is yet to be {done}, which its memory doesn't show: give {name}.resolve_{bit}()")
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, ValueError, TypeError) as error:
        raise TypeError(f"{name} can't be shared with NumPy ({error}): copy it to the CPU first, dense and as float32") from None
