"""The gradients of the reference are right: by PyTorch, by a recurrence differentiated by it, and by differences."""

from functools import cache

import numpy as np
import pytest
import torch_peer
from helpers import sized, training
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnopt import cells, reference
from rnnopt.cells import gru, implicit_gru, lstm
from rnnopt.random_numbers import dropout_mask
from rnnopt.weights import weight_shapes

KEY = 12345678901, 3


def gradients(t, key=None):
    p = t.problem
    return reference.backward(p.spec, p.weights, p.inputs, t.d_outputs, t.d_state, p.state, key=key)


def assert_agrees(found, expected):
    assert found.keys() == expected.keys()
    for name, value in found.items():
        for got, true in zip(*((value, expected[name]) if name == "state" else ((value,), (expected[name],))), strict=True):
            np.testing.assert_allclose(got, true, rtol=1e-11, atol=1e-12, err_msg=name)


@settings(max_examples=100)
@given(data=st.data(), cell=st.sampled_from(list(torch_peer.PEERS)), seed=st.integers(0, 99), with_state=st.booleans(),
       with_d_state=st.booleans())
def test_gradients_agree_with_torch_in_float64(torch, data, cell, seed, with_state, with_d_state):
    t = training(data.draw(torch_peer.specs(cell)), seed, with_state, with_d_state)
    _, expected = torch_peer.solution(torch, t.problem, t.d_outputs, t.d_state)
    assert_agrees(gradients(t), expected)


@settings(max_examples=60)
@given(spec=torch_peer.specs() | torch_peer.specs("implicit_gru"), seed=st.integers(0, 99), with_state=st.booleans(),
       with_d_state=st.booleans())
def test_gradients_agree_with_a_recurrence_that_takes_each_sequence_alone(torch, spec, seed, with_state, with_d_state):
    t = training(spec, seed, with_state, with_d_state)
    _, expected = torch_peer.plain(torch, t.problem, t.d_outputs, t.d_state)
    assert_agrees(gradients(t), expected)


@settings(max_examples=40)
@given(spec=torch_peer.specs(dropout=0.4), first_row=st.integers(0, 9))
def test_gradients_of_what_was_dropped_are_dropped(torch, spec, first_row):
    t = training(spec)
    masks = [dropout_mask((sum(spec.batch_sizes), spec.output_size), 0.4, seed=KEY[0], call=KEY[1], layer=layer,
                          first=first_row * spec.output_size) for layer in range(spec.layers - 1)]
    _, expected = torch_peer.plain(torch, t.problem, t.d_outputs, t.d_state, masks)
    assert_agrees(gradients(t, (*KEY, first_row)), expected)


def test_gradients_are_float64_and_leave_the_arguments_alone():
    t = training(sized(bidirectional=True, cell="gru"))
    arrays = (*t.problem.weights.values(), t.problem.inputs, *t.problem.state, t.d_outputs, *t.d_state)
    before = [array.copy() for array in arrays]
    found = gradients(t)
    assert list(found) == [*weight_shapes(t.problem.spec), "inputs", "state"]
    assert {name: found[name].shape for name in t.problem.weights} == weight_shapes(t.problem.spec)
    assert all(part.dtype == np.float64 for part in (*found.pop("state"), *found.values()))
    assert all((old == new).all() for old, new in zip(before, arrays, strict=True))


def test_no_gradient_of_the_final_states_means_zeros():
    t = training(sized(), with_d_state=False)
    found, zeros = gradients(t), gradients(t._replace(d_state=tuple(np.zeros(t.problem.spec.state_shape) for _ in range(2))))
    assert all((np.asarray(found[name]) == np.asarray(zeros[name])).all() for name in found)


# By differences: only the forward pass is believed. Five points make the error of a step s one of s⁴.

STEP = 2e-3
SHAPES = {"one direction": {}, "both": {"bidirectional": True}, "packed": {"lengths": (4, 3, 1)},
          "packed, both, dropout": {"bidirectional": True, "lengths": (4, 2, 2), "dropout": 0.3}}


@cache
def differences(cell, shape) -> dict:
    """Derivatives of a loss along a random direction of every array by its name, by differences; and those directions."""
    t = training(sized(cell=cell, **SHAPES[shape]), seed=2)
    p, rng = t.problem, np.random.default_rng(0)
    arrays = {**p.weights, "inputs": p.inputs, **{f"state {k}": part for k, part in enumerate(p.state)}}
    arrays = {name: value.astype(np.float64) for name, value in arrays.items()}

    def loss(name, direction, step):
        at = arrays | {name: arrays[name] + step * direction}
        state = tuple(at[f"state {k}"] for k in range(len(p.state)))
        outputs, final = reference.forward(p.spec, at, at["inputs"], state, key=KEY)
        return (outputs * t.d_outputs).sum() + sum((part * d).sum() for part, d in zip(final, t.d_state, strict=True))

    directions = {name: rng.standard_normal(value.shape) for name, value in arrays.items()}
    directions = {name: value / np.linalg.norm(value) for name, value in directions.items()}
    slopes = {name: sum(factor * loss(name, direction, STEP * k) for k, factor in ((-2, 1), (-1, -8), (1, 8), (2, -1))) / (12 * STEP)
              for name, direction in directions.items()}
    return t, directions, slopes


def largest_error(cell, shape, key=KEY, scale=1.0) -> float:
    """The largest relative error of the derivatives that follow from the gradients."""
    t, directions, slopes = differences(cell, shape)
    found = gradients(t, key)
    found |= {f"state {k}": part for k, part in enumerate(found.pop("state"))}
    assert found.keys() == slopes.keys()
    return max(abs(scale * (found[name] * directions[name]).sum() / slopes[name] - 1) for name in slopes)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("cell", cells.CELLS)
def test_gradients_agree_with_differences(cell, shape):
    assert largest_error(cell, shape) < 1e-7


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("cell", cells.CELLS)
def test_differences_tell_a_millionth(cell, shape):
    """Planted: all gradients too large by it."""
    assert largest_error(cell, shape, scale=1 + 1e-6) > 5e-7


def without_bypass(exact):
    return lambda *arguments: (*exact(*arguments)[:2], tuple(np.zeros_like(part) for part in exact(*arguments)[2]))


def one_gradient_for_both_products(exact):
    return lambda *arguments: (exact(*arguments)[0], *exact(*arguments)[::2])


def other_order_of_gates(exact):
    def step_backward(*arguments):
        hidden = arguments[6][0].shape[1]
        d_input, d_recurrent, d_previous = exact(*arguments)
        return d_input, np.roll(d_recurrent, hidden, axis=1), d_previous
    return step_backward


@pytest.mark.parametrize(("cell", "wrong"), [
    (lstm, without_bypass), (lstm, other_order_of_gates), (gru, without_bypass), (gru, one_gradient_for_both_products),
    (gru, other_order_of_gates), (implicit_gru, without_bypass), (implicit_gru, one_gradient_for_both_products),
], ids=lambda planted: planted.__name__.removeprefix("rnnopt.cells."))
def test_a_wrong_cell_shows(monkeypatch, cell, wrong):
    """Planted: a part that does not go through the recurrent product left out; r left out of the product's; gates mixed up."""
    monkeypatch.setattr(cell, "step_backward", wrong(cell.step_backward))
    assert largest_error(cell.__name__.rpartition(".")[2], "one direction") > 0.01


def test_a_step_of_another_size_shows(monkeypatch):
    """Planted: gradients of the explicit step where the forward one was implicit."""
    monkeypatch.setattr(implicit_gru, "step_backward", gru.step_backward)
    assert largest_error("implicit_gru", "packed") > 0.01


def test_a_mask_left_out_on_the_way_back_shows():
    """Planted: with no mask on either way both would agree; here only the differences have one."""
    assert largest_error("gru", "packed, both, dropout", key=None) > 0.01


def test_a_reverse_direction_that_goes_back_the_wrong_way_shows(monkeypatch):
    """Planted: the steps of both directions from the last to the first."""
    exact = reference._sweep_backward
    monkeypatch.setattr(reference, "_sweep_backward", lambda sweep, *arguments: exact(
        sweep._replace(steps=sorted(sweep.steps, key=lambda rows: rows.start)), *arguments))
    assert largest_error("gru", "one direction") < 1e-7
    assert largest_error("gru", "both") > 0.01
