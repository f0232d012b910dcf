"""Weights come under torch's names and in torch's layouts; what differs is refused and said."""

import re

import numpy as np
import pytest
import torch_peer
from helpers import assert_spread, pre_activations, problem, sized

import rnnopt
from rnnopt.weights import checked_array, checked_weights, init_weights, weight_shapes

SPEC = sized()


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", torch_peer.PEERS)
def test_names_shapes_and_their_order_are_those_of_torch(torch, cell, bidirectional):
    spec = sized(layers=3, cell=cell, bidirectional=bidirectional)
    peer = torch_peer.module(torch, spec).state_dict()
    assert list(weight_shapes(spec).items()) == [(name, tuple(value.shape)) for name, value in peer.items()]


def test_an_implicit_gru_has_the_weights_of_a_gru():
    assert weight_shapes(sized(cell="implicit_gru", bidirectional=True)) == weight_shapes(sized(cell="gru", bidirectional=True))


def test_a_torch_state_dict_loads_as_it_is(torch):
    peer = torch.nn.LSTM(SPEC.input_size, SPEC.hidden_size, SPEC.layers)
    weights = {name: value.numpy() for name, value in peer.state_dict().items()}
    inputs = np.random.default_rng(0).standard_normal((SPEC.steps, SPEC.batch, SPEC.input_size)).astype(np.float32)
    outputs, _ = rnnopt.compile(SPEC, weights, device="reference")(inputs)
    with torch.no_grad():
        expected, _ = peer(torch.from_numpy(inputs))
    np.testing.assert_allclose(outputs, expected.numpy(), rtol=1e-5, atol=1e-6)


def test_initial_weights_are_float32_contiguous_and_follow_the_seed():
    first, again, other = init_weights(SPEC, 1), init_weights(SPEC, 1), init_weights(SPEC, 2)
    assert {name: value.shape for name, value in first.items()} == weight_shapes(SPEC)
    assert all(value.dtype == np.float32 and value.flags.c_contiguous for value in first.values())
    assert all((first[name] == again[name]).all() for name in first)
    assert all((first[name] != other[name]).any() for name in first)
    assert not np.array_equal(first["weight_hh_l0"], first["weight_hh_l1"])


def test_initial_weights_of_a_seed_stay_what_they_are():
    """So that what was measured and drawn with them can be measured and drawn again."""
    drawn = init_weights(SPEC, 1)
    assert {name: float(value.flat[0]) for name, value in drawn.items()} == pytest.approx({
        "weight_ih_l0": 0.1545500, "weight_hh_l0": -0.4130752, "bias_ih_l0": 0.1211671, "bias_hh_l0": 0.009738657,
        "weight_ih_l1": -0.04219812, "weight_hh_l1": -0.4006260, "bias_ih_l1": -0.1692692, "bias_hh_l1": -0.1220459}, rel=1e-6)


@pytest.mark.parametrize("sizes", [{}, {"input_size": 1}, {"hidden_size": 100, "batch": 64, "layers": 4, "steps": 17}])
def test_initial_weights_leave_the_gates_spread(sizes):
    problem(sized(**sizes))  # asserts it


def test_weights_of_the_papers_sample_are_caught_as_saturating():
    """Planted: U(0, 1), from which every gate saturates and no sum checks anything."""
    drawn = problem(sized(hidden_size=64))
    rng = np.random.default_rng(0)
    uniform = {name: rng.uniform(size=value.shape) for name, value in drawn.weights.items()}
    with pytest.raises(AssertionError, match="not saturated"):
        assert_spread(pre_activations(drawn._replace(weights=uniform)))


def test_weights_that_leave_all_gates_closed_to_change_are_caught():
    drawn = problem(sized(hidden_size=64))
    nothing = {name: 0 * value for name, value in drawn.weights.items()}
    with pytest.raises(AssertionError, match="standard deviation"):
        assert_spread(pre_activations(drawn._replace(weights=nothing)))


def test_missing_and_unknown_names_are_both_said():
    weights = init_weights(SPEC)
    weights["weight_ih_l2"] = weights.pop("weight_ih_l1")
    with pytest.raises(ValueError, match=r"lacks weight_ih_l1 and has unknown weight_ih_l2; a 2-layer lstm has weight_ih_l0, "):
        checked_weights(SPEC, weights)
    with pytest.raises(ValueError, match="^weights lacks bias_hh_l0, "):
        checked_weights(SPEC, {})
    both = sized(cell="gru", bidirectional=True)
    with pytest.raises(ValueError, match=r"^weights lacks .*bias_hh_l0_reverse, .*; a 2-layer bidirectional gru has weight_ih_l0, "):
        checked_weights(both, init_weights(sized(cell="gru")))
    with pytest.raises(ValueError, match="has unknown 7, weight_ho_l0"):
        checked_weights(SPEC, init_weights(SPEC) | {"weight_ho_l0": 0, 7: 0})


@pytest.mark.parametrize("wrong", [None, [], [("weight_ih_l0", 1)], 3, "weights", np.zeros(3)])
def test_weights_that_are_no_mapping_are_refused(wrong):
    with pytest.raises(TypeError, match=f"^weights must be a mapping from names to arrays, got {type(wrong).__name__}$"):
        checked_weights(SPEC, wrong)


@pytest.mark.parametrize("name", weight_shapes(SPEC))
def test_a_wrong_shape_is_refused_by_name(name):
    weights = init_weights(SPEC)
    shape = weights[name].shape
    for wrong in (weights[name].T.copy()[..., :2], weights[name][None], weights[name][:-1], np.empty(0, np.float32),
                  np.float32(1) * np.ones(())):
        wrong = np.asarray(wrong, np.float32)
        with pytest.raises(ValueError, match=re.escape(f"weights[{name!r}] must have shape {shape}, got {wrong.shape}")):
            checked_weights(SPEC, weights | {name: wrong})


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "bool", "complex64", "object", ">f4" if np.little_endian else "<f4"])
def test_a_wrong_dtype_is_refused_by_name_and_never_rounded(dtype):
    weights = init_weights(SPEC)
    wrong = weights["bias_ih_l1"].astype(dtype)
    with pytest.raises(TypeError, match=rf"^weights\['bias_ih_l1'\] must be float32, got {re.escape(str(wrong.dtype))}: convert it"):
        checked_weights(SPEC, weights | {"bias_ih_l1": wrong})


@pytest.mark.parametrize("wrong", [None, [1.0], 1.0, "w", memoryview(b"1234")])
def test_what_is_no_array_is_refused_by_name(wrong):
    with pytest.raises(TypeError, match=rf"^weights\['bias_ih_l1'\] must be a NumPy array of float32, got {type(wrong).__name__}$"):
        checked_weights(SPEC, init_weights(SPEC) | {"bias_ih_l1": wrong})


def test_a_torch_tensor_shares_its_memory_and_one_that_requires_gradients_is_refused_by_name(torch):
    tensor = torch.zeros(28)
    assert checked_weights(SPEC, init_weights(SPEC) | {"bias_ih_l1": tensor})["bias_ih_l1"].ctypes.data == tensor.data_ptr()
    with pytest.raises(TypeError, match=r"^weights\['bias_ih_l1'\] requires gradients, which can't follow it here: give "):
        checked_weights(SPEC, init_weights(SPEC) | {"bias_ih_l1": tensor.requires_grad_()})


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused_where_that_is_asked_for(wrong):
    weights = init_weights(SPEC)
    weights["weight_hh_l1"][3, 2] = wrong
    with pytest.raises(ValueError, match=rf"^weights\['weight_hh_l1'\] must be finite, but holds {wrong} at index \(3, 2\)$"):
        rnnopt.compile(SPEC, weights, device="reference", check_finite=True)
    rnnopt.compile(SPEC, weights, device="reference")


def test_arrays_in_other_orders_are_copied_and_others_are_not():
    good = np.ones((4, 6), np.float32)
    assert checked_array("x", good, (4, 6)) is good
    for other in (np.asfortranarray(good), np.ones((8, 6), np.float32)[::2], np.ones((4, 12), np.float32)[:, ::-2]):
        made = checked_array("x", other, (4, 6))
        assert made.flags.c_contiguous
        assert (made == good).all()
