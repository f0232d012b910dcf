"""What the LSTM cell emits, operation by operation."""

from helpers import sized

import rnnopt
from rnnopt.operations import Launch


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
