"""The reference is right: by independent implementations, by hand, and by what must be the same."""

import numpy as np
import pytest
import torch_peer
from helpers import SUBSETS, error, flat, identical, label, problem, sized
from hypothesis import given, settings
from hypothesis import strategies as st

import rnnopt
from rnnopt import cells, reference
from rnnopt.random_numbers import dropout_mask


def assert_agrees(results, expected):
    for got, true in zip(results, expected, strict=True):
        np.testing.assert_allclose(got, true, rtol=1e-12, atol=1e-14)


@settings(max_examples=100)
@given(data=st.data(), cell=st.sampled_from(list(torch_peer.PEERS)), seed=st.integers(0, 99), with_state=st.booleans())
def test_reference_agrees_with_torch_in_float64(torch, data, cell, seed, with_state):
    p = problem(data.draw(torch_peer.specs(cell)), seed, with_state)
    assert_agrees(p.solution(), torch_peer.solution(torch, p))


@settings(max_examples=50)
@given(spec=torch_peer.specs(), seed=st.integers(0, 99), with_state=st.booleans())
def test_reference_agrees_with_a_recurrence_that_takes_each_sequence_alone(torch, spec, seed, with_state):
    p = problem(spec, seed, with_state)
    assert_agrees(p.solution(), torch_peer.plain(torch, p))


@settings(max_examples=50)
@given(spec=torch_peer.specs(dropout=0.4), seed=st.integers(0, 2**64 - 1), call=st.integers(0, 2**32 - 1), first_row=st.integers(0, 9))
def test_training_drops_outputs_on_their_way_up_and_nothing_else(torch, spec, seed, call, first_row):
    p = problem(spec)
    masks = [dropout_mask((sum(spec.batch_sizes), spec.output_size), 0.4, seed=seed, call=call, layer=layer,
                          first=first_row * spec.output_size) for layer in range(spec.layers - 1)]
    outputs, state = reference.forward(spec, p.weights, p.inputs, p.state, key=(seed, call, first_row))
    assert_agrees((outputs, *state), torch_peer.plain(torch, p, masks=masks))
    if not first_row:
        for part, same in zip(state, reference.forward(spec, p.weights, p.inputs, p.state, key=(seed, call))[1], strict=True):
            assert (part == same).all()


def test_nothing_is_dropped_without_a_key():
    p, without = (problem(sized(layers=3, dropout=dropout)) for dropout in (0.5, 0.0))
    assert identical(p.solution(), without.solution())
    outputs, state = reference.forward(p.spec, p.weights, p.inputs, p.state, key=(0, 0))
    assert error((outputs, *state), p.solution()) > 0.01


@pytest.mark.parametrize("cell", cells.CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_packed_sequences_of_one_length_are_an_ordinary_batch(cell, bidirectional):
    p = problem(sized(cell=cell, bidirectional=bidirectional))
    packed = p._replace(spec=sized(cell=cell, bidirectional=bidirectional, lengths=(4, 4, 4)), inputs=p.inputs.reshape(12, -1))
    (outputs, *state), (tokens, *final) = p.solution(), packed.solution()
    assert identical((outputs.reshape(12, -1), *state), (tokens, *final))


def test_one_cell_by_hand():
    """All weights 1, biases 0: every gate has the pre-activation x + h."""
    spec = sized(layers=1, input_size=1, hidden_size=1, batch=1, steps=1)
    weights = {name: np.full(value.shape, float("weight" in name), np.float32)
               for name, value in rnnopt.init_weights(spec).items()}
    x, h, c = 0.5, -0.25, 2.0
    s, t = 1 / (1 + np.exp(-(x + h))), np.tanh(x + h)
    new_c = s * c + s * t
    outputs, (final_h, final_c) = reference.forward(spec, weights, np.full((1, 1, 1), x), (np.full((1, 1, 1), h), np.full((1, 1, 1), c)))
    assert final_c.item() == pytest.approx(new_c, rel=1e-15)
    assert outputs.item() == final_h.item() == pytest.approx(s * np.tanh(new_c), rel=1e-15)


def test_reference_is_float64_and_leaves_its_arguments_alone():
    p = problem(sized())
    before = [array.copy() for array in (p.inputs, *p.state, *p.weights.values())]
    results = p.solution()
    assert all(part.dtype == np.float64 for part in results)
    assert all((old == new).all() for old, new in zip(before, (p.inputs, *p.state, *p.weights.values()), strict=True))
    assert results[0][-1] == pytest.approx(results[1][-1], abs=0)


def test_no_state_means_zeros():
    p = problem(sized(), with_state=False)
    zeros = np.zeros((p.spec.layers, p.spec.batch, p.spec.hidden_size))
    for got, expected in zip(p.solution(), p._replace(state=(zeros, zeros)).solution(), strict=True):
        assert (got == expected).all()


def test_a_long_sequence_is_two_shorter_ones():
    p = problem(sized(steps=6))
    first, second = (p._replace(spec=sized(steps=3), inputs=part) for part in (p.inputs[:3], p.inputs[3:]))
    outputs, *state = first.solution()
    more, *final = second._replace(state=tuple(state)).solution()
    for got, expected in zip((np.concatenate([outputs, more]), *final), p.solution(), strict=True):
        assert (got == expected).all()


@pytest.mark.parametrize("huge", [1e3, -1e3, 1e30, -1e30])
def test_saturated_gates_do_not_overflow(huge):
    p = problem(sized(layers=1))
    results = p._replace(inputs=np.full_like(p.inputs, huge)).solution()  # a warning would be an error
    assert all(np.isfinite(part).all() for part in results)


@pytest.mark.parametrize("gate", range(4))
def test_a_gate_taken_for_another_shows(gate):
    """Planted: with saturated data it would not."""
    p = problem(sized(layers=1, hidden_size=16))
    other = (gate + 1) % 4
    order = list(range(4))
    order[gate], order[other] = other, gate
    swapped = {name: value.reshape(4, -1)[order].reshape(value.shape) for name, value in p.weights.items()}
    assert error(p._replace(weights=swapped).solution(), p.solution()) > 0.05


def test_relative_error_is_the_ratio_of_norms_and_infinite_for_what_is_not_finite():
    assert reference.relative_error([3.0, 4.0], [3.0, 4.0]) == 0
    assert reference.relative_error([3.0, 4.5], [3.0, 4.0]) == pytest.approx(0.1)
    assert reference.relative_error([0.5], [0.0]) == 0.5
    for wrong in (np.nan, np.inf):
        assert reference.relative_error([wrong, 1.0], [1.0, 1.0]) == float("inf")


def test_the_reference_as_a_device_gives_its_numbers_rounded():
    p = problem(sized())
    for switches in SUBSETS[::21]:
        results = flat(rnnopt.compile(p.spec, p.weights, stage=switches, device="reference")(p.inputs, p.state))
        for got, expected in zip(results, p.solution(), strict=True):
            assert got.dtype == np.float32, label(switches)
            assert (got == expected.astype(np.float32)).all()
