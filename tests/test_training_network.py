"""A training network, called and gone back through: what comes out, and what a caller may rely on."""

import numpy as np
import pytest
from helpers import TOLERANCE, error, flat, gradient_errors, host, identical, sized, training

import rnnopt
from rnnopt import cells
from rnnopt.weights import weight_shapes


@pytest.fixture
def drawn():
    return training(sized(dropout=0.3))


def compiled(drawn, device, **options):
    return rnnopt.compile(drawn.problem.spec, drawn.problem.weights, device=device, training=True, **options)


def everything(gradients):
    return [*(value for name, value in gradients.items() if name != "state"), *gradients["state"]]


def test_gradients_have_the_names_and_shapes_of_what_they_belong_to(drawn, device):
    p = drawn.problem
    network = compiled(drawn, device)
    network(p.inputs, p.state)
    gradients = network.backward(drawn.d_outputs, drawn.d_state)
    shapes = {name: value.shape for name, value in gradients.items() if name != "state"}
    assert shapes == weight_shapes(p.spec) | {"inputs": p.inputs.shape}
    assert [part.shape for part in gradients["state"]] == [p.spec.state_shape] * 2
    assert {part.dtype for part in everything(gradients)} == {np.dtype(np.float32)}


def test_packed_sequences_go_in_and_come_out_packed(device):
    drawn = training(sized(lengths=(4, 3, 1), bidirectional=True))
    network = compiled(drawn, device)
    outputs, _ = network(drawn.problem.inputs)
    assert outputs.shape == (8, 14)
    assert network.backward(drawn.d_outputs)["inputs"].shape == (8, 5)


def test_no_gradient_of_the_state_means_zeros(drawn, device):
    network = compiled(drawn, device)
    results = []
    for d_state in (None, tuple(np.zeros_like(part) for part in drawn.d_state)):
        network.calls = 0
        network(drawn.problem.inputs)
        results.append(everything(network.backward(drawn.d_outputs, d_state)))
    assert identical(*results)


@pytest.mark.parametrize("used", [False, True], ids=["never called", "gone back already"])
def test_a_backward_pass_needs_a_call_of_its_own(drawn, device, used):
    network = compiled(drawn, device)
    if used:
        network(drawn.problem.inputs)
        network.backward(drawn.d_outputs)
    with pytest.raises(RuntimeError, match="call the network first; each call can be followed by one backward pass"):
        network.backward(drawn.d_outputs)


def test_inference_has_no_way_back_and_says_how_to_get_one(drawn, device):
    with pytest.raises(RuntimeError, match="compile it with training=True"):
        rnnopt.compile(drawn.problem.spec, drawn.problem.weights, device=device).backward(drawn.d_outputs)


def test_nan_passes_through_to_all_that_depends_on_it(drawn, device):
    network = compiled(drawn, device)
    network(drawn.problem.inputs)
    wrong = drawn.d_outputs.copy()
    wrong[1, 2, 3] = np.nan
    gradients = network.backward(wrong)
    assert np.isnan(gradients["weight_hh_l0"]).any()
    assert np.isfinite(gradients["inputs"][:, :2]).all()  # the other sequences of the mini-batch


def test_a_wrong_gradient_is_refused_and_the_call_is_not_lost(drawn, device):
    network = compiled(drawn, device)
    network(drawn.problem.inputs, drawn.problem.state)
    with pytest.raises(ValueError, match=r"d_outputs must have shape \(4, 3, 7\), got \(3, 7\)"):
        network.backward(drawn.d_outputs[0])
    with pytest.raises(TypeError, match="d_outputs must be float32, got float64"):
        network.backward(drawn.d_outputs.astype(np.float64))
    with pytest.raises(TypeError, match=r"d_state must be a tuple of 2 arrays \(h, c\), got 1 of them"):
        network.backward(drawn.d_outputs, drawn.d_state[:1])
    with pytest.raises(ValueError, match=r"d_state\[1\] \(c\) must have shape"):
        network.backward(drawn.d_outputs, (drawn.d_state[0], drawn.d_state[1][:1]))
    assert max(gradient_errors(network.backward(drawn.d_outputs, drawn.d_state), drawn.solution()).values()) <= TOLERANCE


def test_outputs_that_the_backward_pass_still_needs_cannot_be_written(drawn):
    network = compiled(drawn, host())
    outputs, _ = network(drawn.problem.inputs)
    with pytest.raises(ValueError, match="read-only"):
        outputs[0] = 0
    network.backward(drawn.d_outputs)
    outputs[0] = 0


def test_gradients_of_earlier_calls_stay_as_they_were(drawn, device):
    network, kept = compiled(drawn, device), []
    for _ in range(3):
        network(drawn.problem.inputs)
        gradients = network.backward(drawn.d_outputs)
        kept.append((everything(gradients), [part.copy() for part in everything(gradients)]))
    assert all(identical(now, then) for now, then in kept)
    assert not identical(kept[0][1], kept[1][1])  # another call drops others


def test_weights_changed_in_place_are_seen_by_the_next_call(drawn, device):
    p = drawn.problem
    weights = {name: value.copy() for name, value in p.weights.items()}
    network = rnnopt.compile(p.spec, weights, device=device, training=True)
    before = flat(network(p.inputs))
    for value in weights.values():
        value *= np.float32(0.5)
    network.load_weights()
    network.calls = 0
    assert not identical(flat(network(p.inputs)), before)
    changed = drawn._replace(problem=p._replace(weights=weights))
    network.calls = 0
    network(p.inputs, p.state)
    assert max(gradient_errors(network.backward(drawn.d_outputs, drawn.d_state), changed.solution()).values()) <= TOLERANCE


class TestDropout:
    def test_the_seed_and_the_number_of_the_call_decide(self, drawn, device):
        networks = [compiled(drawn, device, seed=seed) for seed in (5, 5, 6)]
        first, same, other = [[flat(network(drawn.problem.inputs)) for _ in range(3)] for network in networks]
        assert all(map(identical, first, same))
        assert not any(map(identical, first, other))
        assert not identical(first[0], first[1])

    def test_a_run_goes_on_where_it_was(self, drawn, device):
        network, later = compiled(drawn, device), compiled(drawn, device)
        results = [flat(network(drawn.problem.inputs)) for _ in range(4)]
        later.calls = 2
        assert identical(flat(later(drawn.problem.inputs)), results[2])
        assert later.calls == 3

    def test_every_device_drops_the_same(self, drawn):
        seed = 2**63 + 12345
        results = [flat(compiled(drawn, device, seed=seed)(drawn.problem.inputs, drawn.problem.state)) for device in (host(), "reference")]
        assert error(*results) <= TOLERANCE

    @pytest.mark.parametrize("wrong", [-1, 2**64, 1.0, True, "0"])
    def test_a_seed_that_is_none_is_refused(self, drawn, wrong):
        with pytest.raises(ValueError, match=r"seed must be an integer of at least 0 and less than 2\*\*64, got"):
            compiled(drawn, "reference", seed=wrong)


class TestCheckpoints:
    @pytest.mark.parametrize("cell", cells.CELLS)
    @pytest.mark.parametrize("every", [1, 2, 3, 4, 7, 9])
    def test_the_same_gradients(self, cell, every):
        drawn = training(sized(3, steps=7, cell=cell, dropout=0.3))
        network = compiled(drawn, host(), checkpoint_every=every)
        results = network(drawn.problem.inputs, drawn.problem.state)
        whole = compiled(drawn, host())(drawn.problem.inputs, drawn.problem.state)
        assert error(flat(results), flat(whole)) <= TOLERANCE
        gradients = network.backward(drawn.d_outputs, drawn.d_state)
        assert max(gradient_errors(gradients, drawn.solution()).values()) <= TOLERANCE

    def test_memory_is_that_of_a_segment(self):
        drawn = training(sized(steps=40))
        whole, parts = compiled(drawn, host()), compiled(drawn, host(), checkpoint_every=5)
        kept = {name for name, buffer in whole.plan.buffers.items() if buffer.role == "scratch" and buffer.shape[0] == 40}
        assert kept
        assert all(parts._networks[0].plan.buffers[name].shape[0] == 5 for name in kept)
        assert parts._networks[0] is parts._networks[-1]

    def test_they_are_for_training_only(self, drawn):
        with pytest.raises(ValueError, match="checkpoint_every is for training"):
            rnnopt.compile(drawn.problem.spec, drawn.problem.weights, device="reference", checkpoint_every=2)

    @pytest.mark.parametrize("options", [{"bidirectional": True}, {"lengths": (4, 2, 1)}])
    def test_what_needs_the_whole_sequence_is_refused(self, options):
        drawn = training(sized(**options))
        with pytest.raises(ValueError, match=f"checkpoint_every can't be used with {next(iter(options))}"):
            compiled(drawn, "reference", checkpoint_every=2)

    def test_a_backward_pass_needs_a_call_of_its_own(self, drawn):
        network = compiled(drawn, host(), checkpoint_every=3)
        with pytest.raises(RuntimeError, match="call the network first"):
            network.backward(drawn.d_outputs)

    @pytest.mark.parametrize("wrong", [0, -2, 1.5, True])
    def test_a_number_of_steps_that_is_none_is_refused(self, drawn, wrong):
        with pytest.raises((TypeError, ValueError), match="checkpoint_every must be"):
            compiled(drawn, "reference", checkpoint_every=wrong)
