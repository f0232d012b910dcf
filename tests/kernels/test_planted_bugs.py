"""A checked build finds what it is there to find, says what and where, and passes the kernel that is right.

Each bug is planted by changing the text of a right kernel: so each check is
seen to fail, and for that change alone.
"""

import numpy as np
import pytest
from twins import disagreement, make_case

from rnnopt import kernels
from rnnopt.devices.host.checked import Case, run
from rnnopt.devices.host.checked.report import SanitizerError

TRANSPOSE = (kernels.FOLDER / "transpose.cu").read_text(encoding="utf-8")
ELEMENTWISE = (kernels.FOLDER / "elementwise.cu").read_text(encoding="utf-8")

#: y[r] = sum of row r of x: a tree in shared memory, each row by one block.
ROW_SUM = """
#include "common.cuh"
// y is rows × 1
// flops per element: 1
extern "C" __global__ void row_sum(int rows, int cols, const float* x, int x_ld, float* y, int y_ld)
{
    __shared__ float part[128];
    if (blockIdx.x > 0)
        return;
    FOR_EACH_ROW(r, rows) {
        float sum = 0;
        for (int j = threadIdx.x; j < cols; j += blockDim.x)
            sum += x[r * x_ld + j];
        part[threadIdx.x] = sum;
        __syncthreads();
        for (int n = blockDim.x; n > 1; n = (n + 1) / 2) {
            if (threadIdx.x < n / 2)
                part[threadIdx.x] += part[threadIdx.x + (n + 1) / 2];
            __syncthreads();
        }
        if (threadIdx.x == 0)
            y[r * y_ld] = part[0];
    }
}
"""


@pytest.fixture
def plant(tmp_path):
    """Write a kernel's source with one text in it replaced by another."""
    def write(source, right="", wrong="", count=1):
        assert right in source
        path = tmp_path / "planted.cu"
        path.write_text(source.replace(right, wrong, count), encoding="utf-8")
        return path
    return write


def transpose_case(grid=(1, 1)):
    return make_case(kernels.get("transpose"), 5, 100, 33, grid)


def add_case(grid=(2, 1)):
    return make_case(kernels.get("add"), 3, 100, 32, grid)


def row_sum_case(grid=(1, 2), block=33):
    x = np.random.default_rng(0).standard_normal(5 * 100, dtype=np.float32)
    return Case("row_sum", 5, 100, {"x": x, "y": np.full(5, np.nan, np.float32)}, {"x": 100, "y": 1}, block, grid)


def found(path, case, look_for):
    """Return what is reported of `case`, without its line breaks; nothing must also be able to be found."""
    with pytest.raises(SanitizerError) as error:
        run(path, [case], look_for)
    assert error.value.case is case
    assert error.value.report
    return " ".join(str(error.value).split())


def line_of(path, text):
    lines = path.read_text(encoding="utf-8").splitlines()
    return f"planted.cu:{next(number for number, line in enumerate(lines, 1) if text in line)}"


def test_right_kernels_pass_the_checks_that_the_bugs_fail(plant, look_for):
    for source, case in [(TRANSPOSE, transpose_case()), (TRANSPOSE, transpose_case((2, 2))), (ELEMENTWISE, add_case())]:
        kernel = kernels.get(case.kernel)
        assert disagreement(kernel, case, run(plant(source), [case], look_for)[0]) == ""
    for case in [row_sum_case(), row_sum_case((2, 1), 1), row_sum_case((1, 2), 128)]:
        sums = run(plant(ROW_SUM), [case], look_for)[0]["y"]
        np.testing.assert_allclose(sums, case.arrays["x"].reshape(5, 100).sum(axis=1, dtype=np.float64), atol=1e-4)


@pytest.mark.parametrize("look_for", ["races"], indirect=True)
class TestRaces:
    def test_missing_barrier_between_writing_and_reading_a_tile(self, plant, look_for):
        path = plant(TRANSPOSE, "__syncthreads();", "")
        text = found(path, transpose_case(), look_for)
        assert "data race on element" in text
        assert "of the shared array tile: no barrier lies between" in text
        assert line_of(path, "tile[i][j] = x") in text
        assert line_of(path, "= tile[i][j];") in text

    def test_missing_barrier_before_the_next_tile_is_written(self, plant, look_for):
        head, middle, tail = TRANSPOSE.split("__syncthreads();")
        text = found(plant(head + "__syncthreads();" + middle + tail), transpose_case(), look_for)
        assert "of the shared array tile: no barrier lies between" in text

    def test_missing_barrier_in_a_reduction(self, plant, look_for):
        head, middle, tail = ROW_SUM.split("__syncthreads();")
        for source in (head + middle + "__syncthreads();" + tail, head + "__syncthreads();" + middle + tail):
            assert "of the shared array part: no barrier lies between" in found(plant(source), row_sum_case(), look_for)

    def test_all_threads_of_a_block_writing_one_element(self, plant, look_for):
        path = plant(ROW_SUM, "if (threadIdx.x == 0)", "if (true)")
        # One row for each block: before a second one, thread 0 would also write `part` while others read it, a race of its own.
        text = found(path, row_sum_case(grid=(1, 5)), look_for)
        assert "data race on element" in text
        assert "of y: no barrier lies between" in text
        assert f"writes it, {line_of(path, 'y[r * y_ld] = part[0];')}" in text

    def test_two_blocks_writing_one_element(self, plant, look_for):
        path = plant(ROW_SUM, "if (blockIdx.x > 0)", "if (false)")
        text = found(path, row_sum_case(grid=(2, 1), block=1), look_for)
        assert "of y: nothing orders the threads of two blocks" in text
        assert "thread 0 of block (0, 0)" in text
        assert "thread 0 of block (1, 0)" in text

    def test_shared_arrays_of_two_blocks_are_two(self, plant, look_for):
        run(plant(TRANSPOSE), [transpose_case((3, 1))], look_for)


@pytest.mark.parametrize("look_for", ["memory"], indirect=True)
class TestMemory:
    def test_loop_that_goes_one_too_far(self, plant, look_for):
        path = plant(ELEMENTWISE, "FOR_EACH_COLUMN(j, cols)", "FOR_EACH_COLUMN(j, cols + 1)")
        text = found(path, add_case(), look_for)
        assert "heap buffer overflow" in text
        assert "element 300 of" in text
        assert "which has 300" in text
        assert line_of(path, "a[r * a_ld + j] + b[r * b_ld + j]") in text

    def test_write_beyond_the_end_names_the_array_and_the_thread(self, plant, look_for):
        text = found(plant(ROW_SUM, "y[r * y_ld] = part[0]", "y[r * y_ld + 1] = part[0]"), row_sum_case((1, 1)), look_for)
        assert "thread 0 of block (0, 0) writes element 5 of y, which has 5" in text

    def test_read_before_the_beginning(self, plant, look_for):
        text = found(plant(ROW_SUM, "x[r * x_ld + j]", "x[r * x_ld + j - 1]"), row_sum_case(), look_for)
        assert "reads element -1 of x, which has 500" in text

    def test_leading_dimension_that_is_too_large(self, plant, look_for):
        text = found(plant(ELEMENTWISE, "y[r * y_ld + j]", "y[r * (y_ld + 1) + j]"), add_case(), look_for)
        assert "of y, which has 300" in text

    def test_tile_that_is_too_narrow(self, plant, look_for):
        path = plant(TRANSPOSE, "tile[TILE][TILE + 1]", "tile[TILE][TILE - 1]")
        text = found(path, transpose_case(), look_for)
        assert "index 31 out of bounds for type 'float[31]'" in text.replace("float [", "float[")
        assert line_of(path, "tile[i][j] = x") in text

    def test_shared_array_that_is_too_short_for_the_block(self, plant, look_for):
        text = found(plant(ROW_SUM, "part[128]", "part[16]"), row_sum_case(), look_for)
        assert "out of bounds for type 'float[16]'" in text.replace("float [", "float[")

    def test_index_that_overflows_an_int(self, plant, look_for):
        text = found(plant(ELEMENTWISE, "y[r * y_ld + j]", "y[(r + 2147483647) * y_ld + j]"), add_case(), look_for)
        assert "undefined behaviour" in text
        assert "overflow" in text


@pytest.mark.parametrize("look_for", ["memory"], indirect=True)
def test_barrier_that_some_threads_return_before(plant, look_for):
    path = plant(ROW_SUM, "__syncthreads();", "if (threadIdx.x == 5)\nreturn;\n__syncthreads();")
    text = found(path, row_sum_case(), look_for)
    assert "some threads of block (0, 0) ended while others waited for them" in text
    assert "__syncthreads() of line" in text


@pytest.mark.parametrize("look_for", ["memory"], indirect=True)
def test_barrier_that_some_threads_leave_out(plant, look_for):
    head, tail = TRANSPOSE.split("__syncthreads();", 1)
    path = plant(head + "if (threadIdx.x < 20)\n__syncthreads();" + tail)
    text = found(path, transpose_case(), look_for)
    assert "waited for each other at two __syncthreads()" in text
    assert line_of(path, "__syncthreads();").split(":")[1] in text


@pytest.mark.parametrize("look_for", ["memory"], indirect=True)
def test_shared_memory_read_before_it_is_written_spoils_the_result(plant, look_for):
    case = transpose_case()
    after = run(plant(TRANSPOSE, "j < width; j += lanes", "j + 1 < width; j += lanes"), [case], look_for)[0]
    assert "transpose, 5 × 100" in disagreement(kernels.get("transpose"), case, after)


@pytest.mark.parametrize("look_for", ["memory"], indirect=True)
@pytest.mark.parametrize(("right", "wrong"), [
    ("f * c_prev[", "i * c_prev["),
    ("2 * cols + j", "3 * cols + j"),
    ("o * tanh_of(cell)", "o * cell"),
])
def test_wrong_arithmetic_disagrees_with_the_twin(plant, look_for, right, wrong):
    kernel = kernels.get("lstm_forward")
    case = make_case(kernel, 3, 7, 32, (1, 1))
    after = run(plant((kernels.FOLDER / kernel.file).read_text(encoding="utf-8"), right, wrong), [case], look_for)[0]
    assert disagreement(kernel, case, after)
