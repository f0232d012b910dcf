"""The calls of cuBLAS's bindings that the cuda device makes, on fake_cuda's streams and memory.

A product is worked out column by column, as BLAS defines it, so that a wrong
order of matrices or a wrong leading dimension gives wrong numbers or an error.
"""

import ctypes
from types import ModuleType

from fake_cuda import LogicError


def nvmath_cublas(gpu):
    """What stands for the module ``nvmath.bindings.cublas``."""

    def create():
        gpu.need_context()
        handle = 500 + len(gpu.handles)
        gpu.handles[handle] = {}
        return handle

    def sgemm(handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
        if lda < (k if transa else m) or ldb < (n if transb else k) or ldc < m:
            raise LogicError("cublasSgemm failed: INVALID_VALUE")
        scale, keep = (ctypes.c_float.from_address(address).value for address in (alpha, beta))
        stream = next(stream for stream in gpu.streams if stream.handle == gpu.handles[handle]["stream"])
        gpu.log.append(("gemm", stream, (transa, transb, m, n, k, lda, ldb, ldc)))

        def column_major(address, rows, cols, ld):
            return gpu.matrix(address, cols, rows, ld).T

        def run():
            left = column_major(a, k, m, lda).T if transa else column_major(a, m, k, lda)
            right = column_major(b, n, k, ldb).T if transb else column_major(b, k, n, ldb)
            out = column_major(c, m, n, ldc)
            out[:] = scale * (left @ right) + (keep * out if keep else 0)

        stream.add(run)

    module = ModuleType("nvmath.bindings.cublas")
    vars(module).update(create=create, destroy=gpu.handles.pop, get_property=lambda part: (13, 0, 2)[part], sgemm=sgemm,
                        set_stream=lambda handle, stream: gpu.handles[handle].update(stream=stream),
                        set_math_mode=lambda handle, mode: gpu.handles[handle].update(math=mode))
    return module
