"""The LSTM cell: its maths in NumPy, and what it emits."""

import numpy as np
import pytest
from helpers import sized

import rnnopt
from rnnopt import cells
from rnnopt.cells import lstm
from rnnopt.operations import Launch


def test_cells_are_found_by_name():
    assert cells.get("lstm") is lstm
    with pytest.raises(ValueError, match="cell must be one of 'lstm', 'gru', .*, got 'gated'"):
        cells.get("gated")


def test_a_step_keeps_the_dtype_of_its_arguments():
    for dtype in (np.float32, np.float64):
        arguments = [np.ones(shape, dtype) for shape in [(8, 3), (8, 2), (8,), (8,), (5, 3), (5, 2), (5, 2)]]
        assert [part.dtype for part in lstm.step(*arguments)] == [dtype, dtype]


def test_each_bias_and_each_weight_matters():
    rng = np.random.default_rng(0)
    arguments = [rng.standard_normal(shape) for shape in [(8, 3), (8, 2), (8,), (8,), (5, 3), (5, 2), (5, 2)]]
    before = lstm.step(*arguments)
    for k in range(len(arguments)):
        changed = [argument + 0.1 * (k == n) for n, argument in enumerate(arguments)]
        assert all((old != new).any() for old, new in zip(before, lstm.step(*changed), strict=True)), k


def test_the_unfused_cell_is_one_launch_per_elementary_operation():
    """Eight additions of biases, four of products, four activations, five operations of the state."""
    plan = rnnopt.schedule(sized(layers=1, steps=1), ())
    launches = [operation for operation in plan.operations if isinstance(operation, Launch)]
    assert len(launches) == 21
    assert [sum(op.kernel == name for op in launches) for name in ("add", "multiply", "sigmoid", "hyperbolic_tangent")] == [13, 3, 3, 2]
    assert {(op.rows, op.cols) for op in launches} == {(3, 7)}


def test_the_fused_cell_is_one_launch():
    plan = rnnopt.schedule(sized(layers=1, steps=1), {"fused_pointwise"})
    launch, = [operation for operation in plan.operations if isinstance(operation, Launch)]
    assert (launch.kernel, launch.rows, launch.cols) == ("lstm_forward", 3, 7)
    assert [view.cols for view in launch.operands] == [28, 28, 28, 28, 7, 7, 7]
    assert [view.ld for view in launch.operands][2:4] == [0, 0]
