"""Every subset of the optimisations computes what the reference does, for all kinds of sizes."""

import numpy as np
import pytest
from helpers import SUBSETS, TOLERANCE, error, flat, host, label, problem, sized
from hypothesis import given, settings
from hypothesis import strategies as st

import rnnopt
from rnnopt.schedule import operands

HIDDEN, BATCH, STEPS, LAYERS, WORKERS = (1, 7, 32, 100), (1, 2, 3, 64), (1, 2, 17), (1, 2, 4), (None, 1, 2, 3)


@pytest.mark.parametrize("number", range(len(SUBSETS)), ids=lambda number: label(SUBSETS[number]))
@settings(max_examples=8)
@given(drawn=st.tuples(*[st.integers(0, 11)] * 5), input_size=st.one_of(st.just("hidden"), st.integers(1, 130)),
       group=st.integers(1, 5), with_state=st.booleans())
def test_agrees_with_the_float64_reference(number, drawn, input_size, group, with_state):
    # Where Hypothesis draws the same for every subset, adding the subset's number makes other sizes of it.
    hidden, batch, steps, layers, workers = (
        values[(draw + number // stride) % len(values)] for values, draw, stride in
        zip((HIDDEN, BATCH, STEPS, LAYERS, WORKERS), drawn, (1, 4, 1, 3, 7), strict=True))
    spec = rnnopt.NetworkSpec("lstm", layers, hidden if input_size == "hidden" else input_size, hidden, batch, steps)
    p = problem(spec, number, with_state)  # asserts that the gates are spread
    network = rnnopt.compile(spec, p.weights, stage=SUBSETS[number], device=host(workers), input_group=group)
    assert error(flat(network(p.inputs, p.state)), p.solution()) <= TOLERANCE


@pytest.mark.parametrize("stage", rnnopt.LADDER)
@pytest.mark.parametrize("spec", [rnnopt.NetworkSpec("lstm", 4, 33, 100, 64, 17), rnnopt.NetworkSpec("lstm", 2, 300, 257, 5, 9),
                                  rnnopt.NetworkSpec("lstm", 4, 1, 1, 1, 1)], ids=["largest", "long sums", "smallest"])
def test_every_rung_agrees_at_the_extremes(spec, stage):
    p = problem(spec)
    network = rnnopt.compile(spec, p.weights, stage=stage, device=host())
    assert error(flat(network(p.inputs, p.state)), p.solution()) <= TOLERANCE


def results(p, switches, group=2):
    return flat(rnnopt.compile(p.spec, p.weights, stage=switches, device=host(), input_group=group)(p.inputs, p.state))


def test_gates_taken_for_one_another_exceed_the_tolerance(monkeypatch):
    """Planted: as the sample that accompanies the paper does, unnoticed, at batches above one."""
    p = problem(sized(batch=3))
    right = operands.CellOperands.gate
    monkeypatch.setattr(operands.CellOperands, "gate", lambda self, view, k: right(self, view, {1: 2, 2: 1}.get(k, k)))
    assert error(results(p, ()), p.solution()) > 100 * TOLERANCE


@pytest.mark.parametrize("plant", ["bias_hh_l1", "weight_hh_l0"])
def test_one_changed_number_exceeds_the_tolerance(plant):
    p = problem(sized(hidden_size=32))
    wrong = {name: value.copy() for name, value in p.weights.items()}
    wrong[plant].ravel()[11] += 0.01
    assert error(results(p._replace(weights=wrong), rnnopt.SWITCHES), p.solution()) > TOLERANCE


def test_a_forgotten_bias_exceeds_the_tolerance():
    p = problem(sized())
    wrong = p.weights | {"bias_hh_l0": np.zeros_like(p.weights["bias_hh_l0"])}
    assert error(results(p._replace(weights=wrong), ()), p.solution()) > 100 * TOLERANCE
