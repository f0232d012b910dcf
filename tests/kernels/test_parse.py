"""A kernel's signature alone tells what a launch reads and writes."""

import re

import pytest

from rnnopt import kernels

ONE = """
// flops per element: 3
extern "C" __global__ void scale(
    int rows, int cols,
    const float* __restrict__ x, int x_ld,
    float* y, int y_ld)
{
}
"""


def test_matrices_are_read_in_order_and_const_ones_are_not_written():
    assert kernels.parse("scale.cu", ONE) == [kernels.Kernel("scale", "scale.cu", (("x", False), ("y", True)), 3)]


def test_what_follows_the_matrices_are_scalars_with_their_types():
    kernel, = kernels.parse("scale.cu", ONE.replace("float* y, int y_ld", "float* y, int y_ld,\n    int first, float by"))
    assert kernel.matrices == (("x", False), ("y", True))
    assert kernel.scalars == (("first", "int"), ("by", "float"))


def test_each_kernel_takes_the_flops_of_the_line_above_it():
    other = ONE.replace("scale", "shift").replace("element: 3", "element: 1")
    assert [(k.name, k.flops_per_element) for k in kernels.parse("two.cu", ONE + other)] == [("scale", 3), ("shift", 1)]


def test_functions_that_are_no_kernels_are_left_out():
    assert kernels.parse("none.cu", "__device__ inline float half(float x) { return x / 2; }\n") == []


@pytest.mark.parametrize(("right", "wrong"), [
    ("// flops per element: 3\n", ""),
    ("int rows, int cols", "int cols, int rows"),
    ("int x_ld", "int ld"),
    (", int y_ld", ""),
    ("float* y", "double* y"),
    ("float* y", "float y"),
    ("int y_ld", "int y_ld, double by"),
    ("int y_ld", "int y_ld, float by, const float* z, int z_ld"),
])
def test_kernel_that_breaks_the_convention_is_refused_by_name(right, wrong):
    with pytest.raises(ValueError, match=r"^scale\.cu: kernel scale "):
        kernels.parse("scale.cu", ONE.replace(right, wrong))


def test_unknown_kernel_is_refused_with_the_names_there_are():
    with pytest.raises(KeyError, match="no kernel is called 'lstm'.*lstm_forward"):
        kernels.get("lstm")


def test_every_global_function_of_the_folder_is_in_the_catalogue():
    texts = [path.read_text(encoding="utf-8") for path in kernels.FOLDER.glob("*.cu")]
    assert sum(len(re.findall(r"\b__global__\b", text)) for text in texts) == len(kernels.catalogue())


def test_hash_of_a_file_covers_the_headers_it_includes():
    assert set(kernels.hashes(["lstm.cu"])) == {"lstm.cu", "common.cuh"}
    assert kernels.hashes(["lstm.cu"])["common.cuh"] == kernels.hashes(["transpose.cu"])["common.cuh"]
