"""SciPy's BLAS for native code: a function pointer, and how many threads it uses."""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager
from functools import cache

from rnnopt.locks import ProcessLock

#: OpenBLAS's threads wait for their next product by spinning for 2^SPIN cycles. By its own choice that is longer than
#: a whole replay, in which they are in the way of workers; this is a third of a millisecond.
SPIN = "20"

#: BLAS has one number of threads for the whole process, so whoever has set it keeps the others waiting.
_CHOSEN = ProcessLock()


@cache
def address(routine: str) -> int:
    """Address of a Fortran BLAS `routine`, from the capsule that SciPy offers to Cython."""
    # Read when SciPy's OpenBLAS is loaded, which is here, unless somebody was earlier.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", SPIN)
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
    with _CHOSEN():
        before = [(library, library.num_threads) for library in libraries() if library.num_threads != count]
        try:
            for library, _ in before:
                _set(library, count)
            yield
        finally:
            for library, number in before:
                _set(library, number)


def _set(library, count):
    # threadpoolctl lets one Python thread alone set OpenBLAS, and ignores the others until that one
    # gives it up. Here the lock keeps them apart, and each must be able to.
    give_up = getattr(library, "clear_controlling_thread", lambda force: None)
    give_up(force=True)
    library.set_num_threads(count)
    give_up(force=True)


def describe() -> str:
    """Name and version of the BLAS in use, as threadpoolctl tells them."""
    known = [f"{lib.internal_api} {lib.version or ''}".strip() for lib in libraries()]
    return ", ".join(sorted(set(known))) or "BLAS of SciPy (threads not controllable)"
