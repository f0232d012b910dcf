"""The reference is right: by an independent implementation, by hand, and by NVIDIA's published sums."""

import numpy as np
import pytest
from helpers import SUBSETS, error, flat, label, problem, sized
from hypothesis import given, settings
from hypothesis import strategies as st

import rnnopt
from rnnopt import reference

specs = st.builds(sized, layers=st.integers(1, 3), input_size=st.integers(1, 9), hidden_size=st.integers(1, 9),
                  batch=st.integers(1, 4), steps=st.integers(1, 6))


@settings(max_examples=40)
@given(spec=specs, seed=st.integers(0, 99), with_state=st.booleans())
def test_reference_agrees_with_torch_in_float64(torch, spec, seed, with_state):
    p = problem(spec, seed, with_state)
    peer = torch.nn.LSTM(spec.input_size, spec.hidden_size, spec.layers, dtype=torch.float64)
    peer.load_state_dict({name: torch.from_numpy(value.astype(np.float64)) for name, value in p.weights.items()})
    state = None if p.state is None else tuple(torch.from_numpy(part.astype(np.float64)) for part in p.state)
    with torch.no_grad():
        outputs, final = peer(torch.from_numpy(p.inputs.astype(np.float64)), state)
    for got, expected in zip(p.solution(), (outputs, *final), strict=True):
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-12, atol=1e-14)


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
