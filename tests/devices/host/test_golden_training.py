"""The sums that NVIDIA's cuDNN 5 RNN sample prints for its four modes, forward and backward (`20 2 512 64`), without a GPU.

Its initialisation: every element of a gate's matrix is 1 / (rows × columns) of that matrix; biases (two per gate), inputs,
initial states and the gradients of all results are 1. The sums are of all outputs (i), final states (c, h), gradients of
inputs and initial states (di, dc, dh), and gradients of all weights and biases together (dw).
"""

import numpy as np
import pytest
from helpers import TOLERANCE, host

import rnnopt
from rnnopt import cells
from rnnopt.weights import weight_shapes

PRINTED = {
    "rnn_relu": {"i": 1.315793e6, "h": 1.315212e5, "di": 6.676003e1, "dh": 6.425067e1, "dw": 1.453750e9},
    "rnn_tanh": {"i": 6.319591e5, "h": 6.319605e4, "di": 4.501830, "dh": 4.489546, "dw": 5.012598e7},
    "lstm": {"i": 5.749536e5, "c": 4.365091e5, "h": 5.774818e4, "di": 3.842206e2, "dc": 9.323785e3, "dh": 1.182566e1, "dw": 4.313461e8},
    "gru": {"i": 6.358978e5, "h": 6.281680e4, "di": 6.296622, "dh": 2.289960e5, "dw": 5.397419e7},
}


def sums(cell, stage, scale=1.0):
    spec = rnnopt.NetworkSpec(cell, layers=2, input_size=512, hidden_size=512, batch=64, steps=20)
    weights = {name: np.full(shape, 1.0 if len(shape) == 1 else scale / (512 * 512), np.float32)
               for name, shape in weight_shapes(spec).items()}
    ones, states = np.ones((20, 64, 512), np.float32), (np.ones(spec.state_shape, np.float32),) * len(cells.get(cell).STATES)
    network = rnnopt.compile(spec, weights, stage=stage, device=host(), training=True)
    outputs, state = network(ones, states)
    found = {"i": outputs, **dict(zip(cells.get(cell).STATES, state, strict=True))}
    found = {name: value.sum(dtype=np.float64) for name, value in found.items()}
    gradients = network.backward(ones, states)
    found["di"] = gradients["inputs"].sum(dtype=np.float64)
    found |= {f"d{name}": part.sum(dtype=np.float64) for name, part in zip(cells.get(cell).STATES, gradients["state"], strict=True)}
    return found | {"dw": sum(gradients[name].sum(dtype=np.float64) for name in weights)}


@pytest.mark.parametrize("stage", ["naive", "fused_pointwise", "wavefront"])
@pytest.mark.parametrize("cell", PRINTED)
def test_the_printed_sums_of_all_four_modes(cell, stage):
    found = sums(cell, stage)
    assert found.keys() == PRINTED[cell].keys()
    assert found == pytest.approx(PRINTED[cell], rel=TOLERANCE)


@pytest.mark.parametrize("cell", PRINTED)
def test_another_initialisation_misses_them(cell):
    """Planted: 1 / (rows × columns) of four gates' matrices together. (Not every sum feels it: most of dw comes from the biases.)"""
    found = sums(cell, "wavefront", scale=0.25)
    assert all(abs(found[name] / PRINTED[cell][name] - 1) > 10 * TOLERANCE for name in ("i", "h", "di"))
