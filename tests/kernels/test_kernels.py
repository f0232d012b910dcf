"""Every kernel does what its NumPy twin does, whatever the block, the grid and the sizes.

In a checked build, whose sanitisers watch every access, and in the fast build
that the host device runs.
"""

import ctypes
from functools import cache

import numpy as np
import pytest
from twins import IN_PLACE, TWINS, disagreement, make_case

from rnnopt import kernels
from rnnopt.devices.host import checked, program
from rnnopt.devices.host.checked.__main__ import shapes

BLOCKS = [1, 32, 33, 128]
GRIDS = [(1, 1), (2, 1), (1, 3), (3, 2)]
SIZES = [(rows, cols) for rows in (1, 3, 5) for cols in (1, 7, 33, 100)]


def cases_of(kernel, block):
    """Sizes with changing grids and leading dimensions, then each special form that the kernel allows."""
    cases = [make_case(kernel, *size, block, GRIDS[(number + number // 4) % 4], pad=3 * (number % 2), seed=number)
             for number, size in enumerate(SIZES)]
    cases += [make_case(kernel, 5, 33, block, grid, pad=2) for grid in GRIDS]
    if kernel.name == "transpose":
        cases += [make_case(kernel, *size, block, (2, 2), pad=1) for size in [(33, 5), (64, 31), (65, 97)]]
    if kernel.file == "elementwise.cu":
        first, *others = [name for name, written in kernel.matrices if not written]
        cases += [make_case(kernel, 5, 33, block, (2, 2), pad=4, in_place=[(first, kernel.matrices[-1][0])])]
        cases += [make_case(kernel, 5, 33, block, (2, 2), repeated=others)] if others else []
    if kernel.name in IN_PLACE:
        cases += [make_case(kernel, 5, 33, block, (2, 2), pad=4, in_place=IN_PLACE[kernel.name])]
    if kernel.name == "exchange_steps":
        cases += [make_case(kernel, 48, 5, block, (2, 2), pad=1)]
    if kernel.file == "column_sum.cu":
        cases += [make_case(kernel, 200, 260, block, (2, 1))]
    return cases


@pytest.fixture(params=kernels.catalogue())
def kernel(request):
    return kernels.get(request.param)


def test_every_kernel_has_a_twin():
    assert set(TWINS) == set(kernels.catalogue())
    for name, twin in TWINS.items():
        assert list(twin.shapes) == [matrix for matrix, _ in kernels.get(name).matrices]


def test_comments_of_a_file_tell_the_shapes_of_its_arrays(kernel):
    documented = shapes((kernels.FOLDER / kernel.file).read_text(encoding="utf-8"), 3, 7)
    for name, shape in TWINS[kernel.name].shapes.items():
        assert documented.get(name, (3, 7)) == shape(3, 7), f"{kernel.file} must say in a comment '{name} is ... × ...'"


@pytest.mark.parametrize("block", BLOCKS)
def test_checked_kernel_agrees_with_its_twin(kernel, block, look_for):
    launches = [pair for pair in launched(kernel.file, block, look_for) if pair[0].kernel == kernel.name]
    assert len(launches) >= len(SIZES)
    assert [disagreement(kernel, *pair) for pair in launches] == [""] * len(launches)


@cache
def launched(file, block, look_for):
    """Run all kernels of `file` in one process, since its threads cost more than what they do."""
    cases = [case for kernel in kernels.catalogue().values() if kernel.file == file for case in cases_of(kernel, block)]
    return list(zip(cases, checked.run(kernels.FOLDER / file, cases, look_for), strict=True))


@pytest.mark.parametrize("blocks", [1, 3])
def test_fast_kernel_agrees_with_its_twin(kernel, blocks, cxx):
    for case in cases_of(kernel, block=1):
        copies = {id(array): array.copy() for array in case.arrays.values()}
        after = {name: copies[id(array)] for name, array in case.arrays.items()}
        launch_fast(kernel, case, after, blocks)
        assert disagreement(kernel, case, after) == ""


def test_column_sum_of_many_rows_is_accurate_and_the_same_for_any_number_of_blocks(cxx):
    kernel = kernels.get("column_sum")
    case = make_case(kernel, 10_000, 130, 1, (1, 1))
    sums = []
    for blocks in (1, 3):
        after = {name: array.copy() for name, array in case.arrays.items()}
        after["x"] += np.float32(1)  # a mean, in which what is added last could drown
        launch_fast(kernel, case, after, blocks)
        sums.append(after["y"])
    assert np.array_equal(*sums)
    right = after["x"].reshape(10_000, 130).sum(axis=0, dtype=np.float64)
    assert np.abs(sums[0] / right - 1).max() < 2e-6  # one running sum is ten times as far off


def launch_fast(kernel, case, arrays, blocks):
    """Call the entry point that the host device calls, block by block."""
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)(program.entry_point(kernel.name))
    values = [ctypes.c_int(case.rows), ctypes.c_int(case.cols)]
    for name, _ in kernel.matrices:
        values += [ctypes.c_void_p(arrays[name].ctypes.data), ctypes.c_int(case.lds[name])]
    values += [ctypes.c_int64(kernels.bits(value)) for value in case.scalars.values()]
    pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    for block in range(blocks):
        entry(pointers, block, blocks)
