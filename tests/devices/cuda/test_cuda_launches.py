"""Launches and GEMMs get the grids, arguments and leading dimensions that their operations say."""

import struct
import sys

import numpy as np
import pytest

from rnnopt import kernels
from rnnopt.devices.cuda import cublas, launches
from rnnopt.operations import Buffer, Gemm, Launch


def launch_of(kernel, rows, cols):
    operands = [Buffer(name, (rows, cols), "scratch")[:, :] for name, _ in kernels.get(kernel).matrices]
    scalars = tuple(7 if kind == "int" else 0.5 for _, kind in kernels.get(kernel).scalars)
    return Launch(kernel, rows, cols, tuple(operands), scalars=scalars)


@pytest.mark.parametrize(("rows", "cols", "grid", "threads"), [
    (1, 1, (1, 1), 32),
    (64, 33, (1, 64), 64),
    (64, 256, (1, 64), 256),
    (64, 257, (2, 64), 256),
    (3, 512, (2, 3), 256),
    (65536, 1, (1, 65535), 32),
])
def test_threads_follow_the_columns_and_blocks_the_rows(rows, cols, grid, threads):
    assert launches.shape(launch_of("add", rows, cols)) == (grid, (threads, 1, 1))


@pytest.mark.parametrize(("rows", "cols", "grid"), [(1, 1, (1, 1)), (33, 64, (2, 2)), (64, 33, (2, 2)), (2048, 512, (16, 64))])
def test_a_kernel_that_works_in_tiles_gets_a_block_per_tile(rows, cols, grid):
    assert launches.shape(launch_of("transpose", rows, cols)) == (grid, (256, 1, 1))


@pytest.mark.parametrize("kernel", kernels.catalogue())
def test_packed_arguments_are_what_the_signature_says(kernel):
    """Two ints, then for each matrix a pointer, aligned to 8 bytes, and an int, then the scalars."""
    operation = launch_of(kernel, 3, 5)
    packed = struct.pack(launches.argument_format(kernel), *launches.arguments(operation, lambda view: 2**40 + view.offset))
    assert struct.unpack_from("ii", packed) == (3, 5)
    for number in range(len(operation.operands)):
        assert struct.unpack_from("Pi", packed, 8 + 16 * number) == (2**40, 5)
    scalars = struct.unpack_from("".join(kind[0] for _, kind in kernels.get(kernel).scalars), packed, 4 + 16 * len(operation.operands))
    assert scalars == operation.scalars
    assert len(packed) == 4 + 16 * len(operation.operands) + 4 * len(scalars)


def test_arguments_point_at_the_first_element_and_carry_the_leading_dimension():
    wide, bias = Buffer("wide", (2, 3, 20), "scratch"), Buffer("bias", (20,), "weight")
    operation = Launch("add", 3, 5, (wide[1, :, 5:10], bias[10:15], wide[0, :, 15:20]))
    assert launches.arguments(operation, lambda view: 4 * view.offset) == [3, 5, 4 * 65, 20, 4 * 10, 0, 4 * 15, 20]


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize(("rows", "cols", "inner"), [(1, 1, 1), (3, 4, 5), (1, 7, 2), (6, 1, 3)])
def test_gemm_is_the_row_major_product_within_wider_matrices(gpu, rows, cols, inner, transpose_a, transpose_b, accumulate):
    """And no element beside the product changes."""
    rng = np.random.default_rng(0)
    shape_a, shape_b = (inner, rows) if transpose_a else (rows, inner), (cols, inner) if transpose_b else (inner, cols)
    buffers = {name: Buffer(name, (r + 2, c + 3), "scratch")
               for name, (r, c) in {"out": (rows, cols), "a": shape_a, "b": shape_b}.items()}
    views = {name: buffer[1:-1, 2:-1] for name, buffer in buffers.items()}
    operation = Gemm(views["out"], views["a"], views["b"], transpose_a, transpose_b, accumulate)
    cuda = sys.modules["pycuda.driver"]
    primary = cuda.Device(0).retain_primary_context()
    primary.push()
    arrays, addresses = {}, {}
    for name, buffer in buffers.items():
        address = int(cuda.mem_alloc(buffer.nbytes))
        arrays[name] = gpu.array(address, buffer.nbytes // 4).reshape(buffer.shape)
        arrays[name][:] = rng.standard_normal(buffer.shape)
        addresses[name] = address + 4 * views[name].offset
    before = arrays["out"].copy()
    stream = cuda.Stream()
    cublas.gemm(cublas.open_handle(stream.handle), operation, addresses["out"], addresses["a"], addresses["b"])()
    stream.synchronize()
    a, b = (arrays[name][1:-1, 2:-1] for name in "ab")
    before[1:-1, 2:-1] *= accumulate
    before[1:-1, 2:-1] += (a.T if transpose_a else a) @ (b.T if transpose_b else b)
    np.testing.assert_allclose(arrays["out"], before, rtol=1e-5, atol=1e-6)
