"""Regions of buffers are where NumPy says they are, and operations fit their operands."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnopt.operations import Buffer, Copy, Gemm, Launch, View


@given(st.data())
def test_layout_of_a_region_is_where_its_elements_lie(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    box = tuple(tuple(sorted(data.draw(st.lists(st.integers(0, n), min_size=2, max_size=2, unique=True)))) for n in shape)
    view = View(Buffer("x", shape, "scratch"), box)
    rows = np.arange(np.prod(shape)).reshape(shape)[tuple(slice(*extent) for extent in box)]
    rows = rows.reshape(-1, rows.shape[-1])
    steps = set(np.diff(rows[:, 0]))
    if len(steps) > 1:
        with pytest.raises(ValueError, match="not evenly spaced"):
            _ = view.layout
        return
    assert (view.offset, view.rows, view.cols) == (rows[0, 0], *rows.shape)
    assert steps <= {view.ld}
    assert view.ld >= view.cols or len(shape) == 1
    assert view.nbytes == 4 * rows.size


def test_layouts_of_the_regions_that_schedules_use():
    x, row = Buffer("x", (5, 3, 8), "scratch"), Buffer("row", (8,), "weight")
    assert x[2].layout == (48, 3, 8, 8)
    assert x[1:4].layout == (24, 9, 8, 8)
    assert x[1:4, :, 2:4].layout == (26, 9, 2, 8)
    assert x[:, 1].layout == (8, 5, 8, 24)
    assert x[4, 2, 7].layout == (119, 1, 1, 8)
    assert row[:].layout == (0, 1, 8, 0)
    assert row[2:4].layout == (2, 1, 2, 0)
    with pytest.raises(ValueError, match=r"x\[0:2, 0:2, :\] has rows that are not evenly spaced"):
        _ = x[0:2, 0:2].layout


@pytest.mark.parametrize("key", [5, -6, -1, slice(3, 3), slice(4, 2), slice(5, 9), slice(0, 4, 2), slice(None, None, -1),
                                 (0, 3), (0, 0, slice(8, 9))])
def test_regions_out_of_range_are_refused(key):
    with pytest.raises(IndexError, match=r"^x\[5, 3, 8\] has no region "):
        Buffer("x", (5, 3, 8), "scratch")[key]


def test_more_indices_than_axes_are_refused():
    with pytest.raises(IndexError, match=r"^x\[5\] has no region "):
        Buffer("x", (5,), "scratch")[0, 0]


boxes = st.tuples(*[st.tuples(st.integers(0, 3), st.integers(1, 3)).map(lambda p: (p[0], p[0] + p[1]))] * 2)


@given(boxes, boxes)
def test_overlap_and_cover_mean_common_and_all_elements(a, b):
    x = Buffer("x", (6, 6), "scratch")
    first, second = ({(r, c) for r in range(*box[0]) for c in range(*box[1])} for box in (a, b))
    assert View(x, a).overlaps(View(x, b)) == bool(first & second)
    assert View(x, a).covers(View(x, b)) == (second <= first)


def test_operands_that_do_not_fit_are_refused():
    a, b, c = (Buffer(name, (3, 4), "scratch") for name in "abc")
    with pytest.raises(ValueError, match="don't fit"):
        Gemm(a[:, :], b[:, :], c[:, :], transpose_b=True)
    with pytest.raises(ValueError, match="don't fit"):
        Gemm(a[:, 0:3], b[:, :], c[:, :], transpose_b=False)
    assert Gemm(a[:, 0:3], b[:, :], c[:, :], transpose_b=True).shape == (3, 3, 4)
    with pytest.raises(ValueError, match="don't fit"):
        Copy(a[0:2], b[:, :])
    with pytest.raises(ValueError, match=r"kernel add takes 3 matrices \(a, b, y\), got 2"):
        Launch("add", 3, 4, (a[:, :], b[:, :]))
    with pytest.raises(KeyError, match="no kernel is called 'power'"):
        Launch("power", 3, 4, (a[:, :], b[:, :]))


def test_a_launch_reads_and_writes_what_its_signature_says():
    a, b, c = (Buffer(name, (3, 4), "scratch")[:, :] for name in "abc")
    launch = Launch("add", 3, 4, (a, b, c))
    assert (launch.reads, launch.writes) == ((a, b), (c,))
    assert launch.flops == 12
