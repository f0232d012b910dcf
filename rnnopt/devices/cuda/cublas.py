"""cuBLAS, through the bindings of nvmath-python."""

from __future__ import annotations

from functools import cache, partial

import numpy as np

from rnnopt.devices import DeviceUnavailable
from rnnopt.operations import Gemm

# cuBLAS's numbers for what it is told; stable since its first release.
PLAIN, TRANSPOSED = 0, 1
FLOAT32_MATH = 0  # CUBLAS_DEFAULT_MATH: products and sums in float32, never TF32

# Read from host memory at every call, so they have to stay where they are.
_ONE, _ZERO = np.ones(1, np.float32), np.zeros(1, np.float32)


@cache
def load():
    """Return the module ``nvmath.bindings.cublas``, with the library it binds.

    Raises
    ------
    rnnopt.devices.DeviceUnavailable
        If either is missing.
    """
    try:
        from nvmath.bindings import cublas
    except ImportError as error:
        raise DeviceUnavailable(f"no bindings of cuBLAS ({error}): pip install 'nvmath-python>=1.0,<2', "
                                f"or conda install nvmath-python") from None
    try:
        cublas.get_property(0)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise DeviceUnavailable(f"no cuBLAS library ({reason}): pip install 'nvidia-cublas>=13,<14', "
                                f"or conda install libcublas") from None
    return cublas


def version() -> str:
    """Version of the library: major.minor.patch."""
    return ".".join(str(load().get_property(part)) for part in range(3))


def open_handle(stream: int) -> int:
    """Return a new handle that issues to the stream with this address, in the current context."""
    cublas = load()
    handle = cublas.create()
    cublas.set_stream(handle, stream)
    cublas.set_math_mode(handle, FLOAT32_MATH)
    return handle


def close_handle(handle: int):
    load().destroy(handle)


def gemm(handle: int, operation: Gemm, out: int, a: int, b: int):
    """Return a call without arguments that issues `operation` on matrices at these addresses.

    cuBLAS is column-major, and sees the transpose of a row-major matrix: it is
    asked for outᵀ = bᵀ aᵀ, or for outᵀ += bᵀ aᵀ.
    """
    rows, cols, inner = operation.shape
    turn_a, turn_b = (TRANSPOSED if turned else PLAIN for turned in (operation.transpose_a, operation.transpose_b))
    kept = _ONE if operation.accumulate else _ZERO
    return partial(load().sgemm, handle, turn_b, turn_a, cols, rows, inner, _ONE.ctypes.data, b, operation.b.ld,
                   a, operation.a.ld, kept.ctypes.data, out, operation.out.ld)
