"""The forward sums that NVIDIA's cuDNN 5 RNN sample prints (LSTM, `20 2 512 64`), without a GPU.

Its initialisation: every element of a gate's matrix is 1 / (rows × columns) of
that matrix, every bias (two per gate) is 1, as are inputs and initial states.
The sums are of all outputs, of the final cell states, of the final hidden states.
"""

import numpy as np
import pytest
from helpers import SUBSETS, TOLERANCE, flat, host, label

import rnnopt
from rnnopt import reference
from rnnopt.weights import weight_shapes

SPEC = rnnopt.NetworkSpec("lstm", layers=2, input_size=512, hidden_size=512, batch=64, steps=20)
PRINTED = {"i": "5.749536E+05", "c": "4.365091E+05", "h": "5.774818E+04"}


@pytest.fixture(scope="module")
def data():
    weights = {name: np.full(shape, 1.0 if len(shape) == 1 else 1 / (SPEC.hidden_size * shape[1]), np.float32)
               for name, shape in weight_shapes(SPEC).items()}
    state = np.ones((SPEC.layers, SPEC.batch, SPEC.hidden_size), np.float32)
    return weights, np.ones((SPEC.steps, SPEC.batch, SPEC.input_size), np.float32), (state, state)


def sums(outputs, h, c):
    return {"i": outputs.sum(dtype=np.float64), "c": c.sum(dtype=np.float64), "h": h.sum(dtype=np.float64)}


def test_reference_reproduces_the_printed_digits(data):
    found = sums(*flat(reference.forward(SPEC, *data)))
    assert {name: f"{value:.6E}" for name, value in found.items()} == PRINTED


@pytest.mark.parametrize("switches", [SUBSETS[0], rnnopt.LADDER["fused_pointwise"], SUBSETS[-1]], ids=label)
def test_host_reproduces_the_printed_sums(data, switches):
    weights, inputs, state = data
    found = sums(*flat(rnnopt.compile(SPEC, weights, stage=switches, device=host())(inputs, state)))
    assert found == pytest.approx({name: float(text) for name, text in PRINTED.items()}, rel=TOLERANCE)


def test_another_initialisation_misses_them(data):
    """Planted: 1 / (rows × columns) of all four gates' matrices together."""
    weights, inputs, state = data
    fourth = {name: value / np.float32(4) if value.ndim == 2 else value for name, value in weights.items()}
    found = sums(*flat(reference.forward(SPEC, fourth, inputs, state)))
    assert all(abs(found[name] / float(text) - 1) > 10 * TOLERANCE for name, text in PRINTED.items())
