"""What is promised of every cell: its maths in NumPy, its gradients, and what it says of itself."""

import numpy as np
import pytest
from helpers import sized

import rnnopt
from rnnopt import cells
from rnnopt.cells import gru, implicit_gru
from rnnopt.cells.activations import sigmoid
from rnnopt.operations import Launch

every_cell = pytest.mark.parametrize("cell", [cells.get(name) for name in cells.CELLS], ids=cells.CELLS)


def drawn(cell, dtype=np.float64, features=3, hidden=4, batch=5, seed=0):
    """Parameters, input and states of a cell, and gradients of its new states."""
    rng = np.random.default_rng(seed)
    rows, state = cell.gates * hidden, (batch, hidden)
    shapes = [(rows, features), (rows, hidden), (rows,), (rows,), (batch, features), *[state] * len(cell.STATES)]
    arguments = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    return arguments, tuple(rng.standard_normal(state).astype(dtype) for _ in cell.STATES)


def gradients(cell, arguments, d_states, **options):
    """Gradients of all arguments of a step, put together as a network does."""
    w, r, b, b2, x, *states = arguments
    d_input, d_recurrent, d_previous = cell.step_backward(w, r, b, b2, x, tuple(states), d_states, **options)
    return (d_input.T @ x, d_recurrent.T @ states[0], d_input.sum(0), d_recurrent.sum(0), d_input @ w,
            d_previous[0] + d_recurrent @ r, *d_previous[1:])


@every_cell
def test_cells_are_found_by_name(cell):
    assert cells.get(cell.__name__.removeprefix("rnnopt.cells.")) is cell


@pytest.mark.parametrize(("wrong", "hint"), [("gated", ""),
                                             ("LSTM", r" \(did you mean 'lstm'\?\)"), ("rnn_tan", r" \(did you mean 'rnn_tanh'\?\)")])
def test_another_name_is_refused_with_those_there_are(wrong, hint):
    known = ", ".join(map(repr, cells.CELLS))
    with pytest.raises(ValueError, match=f"^cell must be one of {known}, got {wrong!r}{hint}$"):
        cells.get(wrong)


@every_cell
def test_what_a_cell_says_of_itself_fits_together(cell):
    assert cell.gates == len(cell.GATES) == len(set(cell.GATES))
    assert cell.STATES[0] == "h"
    for parts in (cell.INPUT_PARTS, cell.RECURRENT_PARTS):
        assert all(name in ("gates", *cell.SAVED) for name, _, _ in parts)
        assert [first for _, first, _ in parts] == [0, *[end for _, _, end in parts[:-1]]]
        assert parts[-1][2] == cell.gates


@every_cell
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_step_and_its_gradients_keep_the_dtype_of_their_arguments(cell, dtype):
    arguments, d_states = drawn(cell, dtype)
    *parameters, states = *arguments[:5], tuple(arguments[5:])
    d_input, d_recurrent, d_previous = cell.step_backward(*parameters, states, d_states)
    assert {part.dtype for part in (*cell.step(*arguments), d_input, d_recurrent, *d_previous)} == {np.dtype(dtype)}


@every_cell
def test_a_step_and_its_gradients_leave_their_arguments_alone_and_have_the_shapes_of_the_states(cell):
    arguments, d_states = drawn(cell)
    before = [array.copy() for array in (*arguments, *d_states)]
    d_input, d_recurrent, d_previous = cell.step_backward(*arguments[:5], tuple(arguments[5:]), d_states)
    assert all((old == new).all() for old, new in zip(before, (*arguments, *d_states), strict=True))
    assert d_input.shape == d_recurrent.shape == (5, cell.gates * 4)
    assert [part.shape for part in (*cell.step(*arguments), *d_previous)] == 2 * [part.shape for part in d_states]


@every_cell
def test_each_argument_matters(cell):
    arguments, _ = drawn(cell)
    before = cell.step(*arguments)
    for k in range(len(arguments)):
        changed = [argument + 0.1 * (k == n) for n, argument in enumerate(arguments)]
        assert all((old != new).any() for old, new in zip(before, cell.step(*changed), strict=True)), k


@pytest.mark.parametrize(("cell", "options"), [*((cells.get(name), {}) for name in cells.CELLS),
                                               *((implicit_gru, {"dt": dt}) for dt in (0.25, 4.0, 64.0))])
def test_gradients_of_a_step_agree_with_differences(cell, options):
    arguments, d_states = drawn(cell)
    rng = np.random.default_rng(1)

    def loss(arguments):
        return sum((part * d).sum() for part, d in zip(cell.step(*arguments, **options), d_states, strict=True))

    for k, gradient in enumerate(gradients(cell, arguments, d_states, **options)):
        direction = rng.standard_normal(gradient.shape)
        slope = sum(factor * loss([a + (k == n) * step * 1e-3 * direction if k == n else a for n, a in enumerate(arguments)])
                    for step, factor in ((-2, 1), (-1, -8), (1, 8), (2, -1))) / 12e-3
        assert (gradient * direction).sum() == pytest.approx(slope, rel=1e-7), k


@every_cell
def test_a_gradient_bypasses_the_recurrent_product_where_the_cell_says_so(cell):
    arguments, d_states = drawn(cell)
    *_, d_previous = cell.step_backward(*arguments[:5], tuple(arguments[5:]), d_states)
    assert d_previous[0].any() == cell.BYPASS
    assert all(part.any() for part in d_previous[1:])


@every_cell
def test_the_products_have_gradients_of_their_own_where_the_cell_says_so(cell):
    arguments, d_states = drawn(cell)
    d_input, d_recurrent, _ = cell.step_backward(*arguments[:5], tuple(arguments[5:]), d_states)
    same = cell.INPUT_PARTS == cell.RECURRENT_PARTS
    assert (d_input is d_recurrent) == same
    if not same:  # but only where they are in different buffers
        assert (d_input[:, :8] == d_recurrent[:, :8]).all()
        assert (d_input[:, 8:] != d_recurrent[:, 8:]).any()


@every_cell
@pytest.mark.parametrize("huge", [1e3, -1e3, 1e30, -1e30])
def test_saturated_gates_do_not_overflow(cell, huge):
    arguments, d_states = drawn(cell)
    arguments[4] = np.full_like(arguments[4], huge)
    d_input, d_recurrent, d_previous = cell.step_backward(*arguments[:5], tuple(arguments[5:]), d_states)  # a warning would be an error
    assert all(np.isfinite(part).all() for part in (*cell.step(*arguments), d_input, d_recurrent, *d_previous))


def test_the_logistic_function():
    x = np.linspace(-30, 30, 61)
    np.testing.assert_allclose(sigmoid(x), 1 / (1 + np.exp(-x)), rtol=1e-15)
    assert sigmoid(np.array([-1e4, 0, 1e4])).tolist() == [0, 0.5, 1]


# The two forms of the GRU as steps of one differential equation, dh/dt = (1 - z) ∘ (n - h).

def test_the_gru_is_an_explicit_step_of_size_1():
    arguments, _ = drawn(gru)
    _, z, n, _ = gru.activate(*arguments)
    h = arguments[5]
    np.testing.assert_allclose(gru.step(*arguments)[0], h + (1 - z) * (n - h), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("dt", [0.5, 1.0, 4.0, 64.0])
def test_the_implicit_gru_solves_the_equation_of_the_implicit_step(dt):
    arguments, _ = drawn(implicit_gru)
    _, z, n, _ = gru.activate(*arguments)
    h, (new,) = arguments[5], implicit_gru.step(*arguments, dt=dt)
    np.testing.assert_allclose(new, h + dt * (1 - z) * (n - new), rtol=1e-13, atol=1e-14)
    assert ((new - h) * (new - n) <= 0).all()  # it lies between the two


def test_the_step_of_the_implicit_gru_is_1_unless_given():
    arguments, d_states = drawn(implicit_gru)
    assert (implicit_gru.step(*arguments)[0] == implicit_gru.step(*arguments, dt=1)[0]).all()
    assert all((a == b).all() for a, b in zip(gradients(implicit_gru, arguments, d_states),
                                              gradients(implicit_gru, arguments, d_states, dt=1), strict=True))


def test_small_steps_of_both_forms_agree_and_large_ones_reach_n():
    arguments, _ = drawn(implicit_gru)
    _, z, n, _ = gru.activate(*arguments)
    h = arguments[5]
    for dt in (1e-3, 1e-4):
        assert np.abs(implicit_gru.step(*arguments, dt=dt)[0] - (h + dt * (1 - z) * (n - h))).max() < 10 * dt**2
    assert np.abs(implicit_gru.step(*arguments, dt=1e9)[0] - n).max() < 1e-5


# What it emits.

@every_cell
def test_a_fused_cell_is_one_launch_in_each_pass_and_training_has_a_kernel_of_its_own_where_it_saves_more(cell):
    name = cell.__name__.rpartition(".")[2]
    spec = sized(layers=1, steps=1, cell=name)
    plans = (rnnopt.schedule(spec, {"fused_pointwise"}), rnnopt.schedule(spec, {"fused_pointwise"}, training=True),
             rnnopt.schedule_backward(spec, {"fused_pointwise"}))
    found = [{op.kernel for op in plan.operations if isinstance(op, Launch) and op.kernel != "column_sum"} for plan in plans]
    forward = f"{name}_forward"
    assert found == [{forward}, {forward if name.startswith("rnn_") else f"{forward}_training"}, {f"{name}_backward"}]


@pytest.mark.parametrize(("name", "launches"), [("lstm", 21), ("gru", 17), ("rnn_tanh", 4), ("rnn_relu", 4), ("implicit_gru", 18)])
def test_an_unfused_cell_is_one_launch_per_elementary_operation(name, launches):
    """Of every gate three additions and one activation, one product more of r; the rest is the new state's."""
    plan = rnnopt.schedule(sized(layers=1, steps=1, cell=name), ())
    assert sum(isinstance(operation, Launch) for operation in plan.operations) == launches


def test_the_gru_is_forward_euler_of_its_equation_and_only_the_implicit_one_stays_bounded():
    arguments, _ = drawn(gru)
    assert np.allclose(gru.euler_step(*arguments)[0], gru.step(*arguments)[0], rtol=1e-13)
    arguments[-1] = np.tanh(arguments[-1])
    assert np.abs(implicit_gru.step(*arguments, dt=64.0)[0]).max() <= 1 < np.abs(gru.euler_step(*arguments, dt=64.0)[0]).max()
