"""Every subset of the optimisations, of every cell, has the gradients of the reference, for all kinds of sizes."""

import numpy as np
import pytest
from helpers import TOLERANCE, TRAINING_SUBSETS, error, flat, gradient_errors, host, label, sized, training
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import rnnopt
from rnnopt import cells, reference
from rnnopt.schedule import backward, operands

HIDDEN, BATCH, STEPS, LAYERS, WORKERS = (1, 7, 32, 65), (1, 2, 3, 16), (1, 2, 9), (1, 2, 4), (None, 1, 2, 3)


def worst(drawn, *arguments, **options):
    return max(gradient_errors(drawn.run(*arguments, **options), drawn.solution()).values())


def kinks(drawn):
    """Whether a ReLU is so near its kink that rounding decides on which side it is."""
    p = drawn.problem
    if p.spec.cell != "rnn_relu":
        return False
    outputs, _ = reference.forward(p.spec, p.weights, p.inputs, p.state)
    return bool((np.abs(outputs[outputs != 0]) < 1e-5).any())


@pytest.mark.parametrize("number", range(len(TRAINING_SUBSETS)), ids=lambda number: label(TRAINING_SUBSETS[number]))
@settings(max_examples=6)
@given(drawn=st.tuples(*[st.integers(0, 11)] * 6), input_size=st.integers(1, 70), group=st.integers(1, 5),
       bidirectional=st.booleans(), dropout=st.sampled_from([0.0, 0.0, 0.4]), packed=st.booleans(),
       with_state=st.booleans(), with_d_state=st.booleans())
def test_gradients_agree_with_the_float64_reference(number, drawn, input_size, group, bidirectional, dropout, packed, with_state,
                                                    with_d_state):
    # Where Hypothesis draws the same for every subset, adding the subset's number makes other sizes of it.
    hidden, batch, steps, layers, workers, cell = (
        values[(draw + number // stride) % len(values)] for values, draw, stride in
        zip((HIDDEN, BATCH, STEPS, LAYERS, WORKERS, cells.CELLS), drawn, (1, 4, 1, 3, 7, 1), strict=True))
    lengths = sorted((1 + (number + 5 * k) % steps for k in range(batch - 1)), reverse=True) if packed else None
    spec = rnnopt.NetworkSpec(cell, layers, input_size, hidden, batch, steps, bidirectional, dropout,
                              (steps, *lengths) if packed else None)
    drawn = training(spec, number, with_state, with_d_state)  # asserts that the gates are spread
    assume(not kinks(drawn))
    # A single unit may saturate, and 1 - h² then has few digits of float32 left, whoever computes it.
    assert worst(drawn, host(workers), TRAINING_SUBSETS[number], group) <= (TOLERANCE if hidden > 1 else 1e-3)


@pytest.mark.parametrize("cell", cells.CELLS)
@pytest.mark.parametrize("stage", rnnopt.TRAINING_LADDER)
def test_every_rung_of_every_cell_agrees_at_a_larger_size(cell, stage):
    drawn = training(rnnopt.NetworkSpec(cell, 3, 33, 100, 20, 17))
    assert worst(drawn, host(), stage) <= TOLERANCE


@pytest.mark.parametrize("cell", cells.CELLS)
@pytest.mark.parametrize("stage", ["naive", "wavefront"])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"lengths": (4, 4, 2, 1)}, {"dropout": 0.3},
                                     {"bidirectional": True, "lengths": (4, 2, 2, 2)}], ids=str)
def test_every_cell_in_every_form_agrees(cell, stage, options):
    drawn = training(sized(3, batch=4, cell=cell, **options))
    assert worst(drawn, host(), stage) <= TOLERANCE


@pytest.mark.parametrize("cell", cells.CELLS)
@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"lengths": (4, 2, 1)}, {"bidirectional": True, "lengths": (4, 2, 2)}],
                         ids=str)
@pytest.mark.parametrize("stage", ["naive", "wavefront"])
def test_inference_of_every_cell_in_every_form_agrees(cell, stage, options):
    p = training(sized(3, cell=cell, **options)).problem
    network = rnnopt.compile(p.spec, p.weights, stage=stage, device=host())
    assert error(flat(network(p.inputs, p.state)), p.solution()) <= TOLERANCE


def test_training_without_dropout_has_the_results_of_inference_to_the_bit():
    for cell in cells.CELLS:
        p = training(sized(3, cell=cell)).problem
        results = [flat(rnnopt.compile(p.spec, p.weights, device=host(), training=mode)(p.inputs, p.state)) for mode in (False, True)]
        for inference, trained in zip(*results, strict=True):
            assert_array_equal(inference, trained)


def test_inference_drops_nothing():
    p = training(sized(3)).problem
    dropping = p._replace(spec=sized(3, dropout=0.5))
    results = [flat(rnnopt.compile(q.spec, q.weights, device=host())(q.inputs, q.state)) for q in (p, dropping)]
    assert all((plain == same).all() for plain, same in zip(*results, strict=True))


def test_the_reference_device_trains_too():
    drawn = training(sized(dropout=0.3, bidirectional=True))
    assert worst(drawn, "reference") <= TOLERANCE


class TestPlantedBugs:
    """Each would go unnoticed if the check could not fail."""

    def test_gates_taken_for_one_another(self, monkeypatch):
        drawn = training(sized())
        right = operands.BackwardOperands.gate
        monkeypatch.setattr(operands.BackwardOperands, "gate", lambda self, view, k: right(self, view, {1: 2, 2: 1}.get(k, k)))
        assert worst(drawn, host(), "naive") > 100 * TOLERANCE

    def test_the_first_step_left_out_of_the_recurrent_weights_gradient(self, monkeypatch):
        drawn = training(sized())
        right = backward._Backward._recurrences
        monkeypatch.setattr(backward._Backward, "_recurrences", lambda self, start, stop: list(right(self, start, stop))[:1])
        errors = gradient_errors(drawn.run(host()), drawn.solution())
        assert errors["weight_hh_l0"] > 100 * TOLERANCE
        assert errors["weight_ih_l0"] <= TOLERANCE

    def test_a_bypass_that_is_overwritten(self, monkeypatch):
        drawn = training(sized(cell="gru"))
        monkeypatch.setattr(cells.get("gru"), "BYPASS", False)
        assert worst(drawn, host()) > 100 * TOLERANCE

    def test_another_call_s_dropout(self):
        drawn = training(sized(dropout=0.3))
        assert worst(drawn, host()) <= TOLERANCE
        assert max(gradient_errors(drawn.run(host()), drawn._replace(seed=1).solution()).values()) > 100 * TOLERANCE
