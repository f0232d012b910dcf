"""SciPy's BLAS for native code: a function pointer, and how many threads it uses."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from functools import cache


@cache
def address(routine: str) -> int:
    """Address of a Fortran BLAS `routine`, from the capsule that SciPy offers to Cython."""
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__[routine]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))


@cache
def libraries() -> tuple:
    """The BLAS libraries of this process whose threads can be set (threadpoolctl's controllers)."""
    from threadpoolctl import ThreadpoolController

    address("sgemm")  # so that SciPy's is loaded
    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


@contextmanager
def threads(count: int):
    """Let every BLAS of this process use `count` threads, and what it used before afterwards."""
    changed = [(library, library.num_threads) for library in libraries() if library.num_threads != count]
    for library, _ in changed:
        library.set_num_threads(count)
    try:
        yield
    finally:
        for library, before in changed:
            library.set_num_threads(before)


def describe() -> str:
    """Name and version of the BLAS in use, as threadpoolctl tells them."""
    known = [f"{lib.internal_api} {lib.version or ''}".strip() for lib in libraries()]
    return ", ".join(dict.fromkeys(known)) or "BLAS of SciPy (threads not controllable)"
