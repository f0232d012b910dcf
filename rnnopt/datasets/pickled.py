"""Arrays from a pickle that is not trusted, nor known to be whole.

A pickle may run anything, so only what arrays are made of may be named. Nor
does NumPy fill arrays from it: its ``__setstate__`` believes what it reads,
and one wrong byte can end the process. What stands here instead is Python.
"""

from __future__ import annotations

import pickle

import numpy as np


class _Dtype:
    def __init__(self, code, *_):
        self.code, self.order = code, "="

    def __setstate__(self, state):
        self.order = state[1]


class _Array:
    """What a pickle says of an array; :func:`value` is it."""

    def __init__(self, *_):
        self.value = None

    def __setstate__(self, state):
        _, shape, dtype, by_columns, data = state
        if dtype.code.startswith("O"):
            self.value = data[0] if shape == () else data
        else:
            flat = np.frombuffer(data, np.dtype(dtype.order + dtype.code))
            self.value = flat.reshape(shape, order="F" if by_columns else "C")


def _latin1(text, codec):
    """``_codecs.encode``, by which old protocols write bytes. Other codecs may do anything, as decompress."""
    if codec != "latin1":
        raise ValueError(f"it encodes by {codec!r}, where a pickle of arrays has 'latin1'")
    return text.encode("latin1")


#: All that a pickle may name, and what it gets. ``ndarray`` is only an argument of ``_reconstruct``, and can't be called.
_ALLOWED = {"_codecs.encode": _latin1, "numpy.ndarray": "ndarray", "numpy.dtype": _Dtype,
            "numpy.core.multiarray._reconstruct": _Array, "numpy._core.multiarray._reconstruct": _Array}


class Unpickler(pickle._Unpickler):
    """The one in Python: that in C reserves as much memory as a damaged number says, and so does BYTEARRAY8 here."""

    dispatch = {code: load for code, load in pickle._Unpickler.dispatch.items() if code != pickle.BYTEARRAY8[0]}  # noqa: RUF012

    def find_class(self, module, name):
        if f"{module}.{name}" not in _ALLOWED:
            raise ValueError(f"it names {module}.{name}, which is no part of an array")
        return _ALLOWED[f"{module}.{name}"]


def value(found):
    """Return the array, or the list of objects, that `found` stands for, or `found` itself."""
    return found.value if isinstance(found, _Array) else found
