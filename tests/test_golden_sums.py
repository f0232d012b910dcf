"""The sums that NVIDIA's cuDNN 5 RNN sample prints for its four modes, forward and backward, from the float64 reference.

`RNN 20 2 512 64`: every element of a gate's matrix is 1 / (rows × columns) of that matrix; biases (two per gate), inputs,
initial states and the gradients of all results are 1. The sums are of all outputs (i), the final states (h, c), the
gradients of the inputs (di) and initial states (dh, dc), and those of all parameters together (dw). The sample computed in
float32 on a Tesla M40, so that what it prints is that far from the exact sums: ten of the 22 not at all, the others up to
9e-6. In these data all gates and all units have the same weights: which is which, only other tests see.
"""

from functools import cache

import numpy as np
import pytest

import rnnopt
from rnnopt import cells, reference
from rnnopt.cells import gru, lstm
from rnnopt.weights import weight_shapes

PRINTED = {
    "rnn_relu": {"i": "1.315793E+06", "h": "1.315212E+05", "di": "6.676003E+01", "dh": "6.425067E+01", "dw": "1.453750E+09"},
    "rnn_tanh": {"i": "6.319591E+05", "h": "6.319605E+04", "di": "4.501830E+00", "dh": "4.489546E+00", "dw": "5.012598E+07"},
    "lstm": {"i": "5.749536E+05", "h": "5.774818E+04", "c": "4.365091E+05", "di": "3.842206E+02", "dh": "1.182566E+01",
             "dc": "9.323785E+03", "dw": "4.313461E+08"},
    "gru": {"i": "6.358978E+05", "h": "6.281680E+04", "di": "6.296622E+00", "dh": "2.289960E+05", "dw": "5.397419E+07"},
}


def sums(cell, scale=1.0) -> dict:
    spec = rnnopt.NetworkSpec(cell, layers=2, input_size=512, hidden_size=512, batch=64, steps=20)
    weights = {name: np.full(shape, 1.0 if len(shape) == 1 else scale / 512**2) for name, shape in weight_shapes(spec).items()}
    ones, states = np.ones((20, 64, 512)), (np.ones(spec.state_shape),) * len(cells.get(cell).STATES)
    outputs, final = reference.forward(spec, weights, ones, states)
    gradients = reference.backward(spec, weights, ones, ones, states, states)
    names = cells.get(cell).STATES
    return {"i": outputs.sum(), **{name: part.sum() for name, part in zip(names, final, strict=True)}, "di": gradients["inputs"].sum(),
            **{f"d{name}": part.sum() for name, part in zip(names, gradients["state"], strict=True)},
            "dw": sum(gradients[name].sum() for name in weights)}


@cache
def exact(cell) -> dict:
    return sums(cell)


def distances(cell, found) -> dict:
    assert found.keys() == PRINTED[cell].keys()
    return {name: abs(found[name] / float(text) - 1) for name, text in PRINTED[cell].items()}


@pytest.mark.parametrize("cell", PRINTED)
def test_all_printed_sums_are_reproduced(cell):
    assert max(distances(cell, exact(cell)).values()) < 1e-5  # the farthest is dw of the ReLU: 8.8e-6


@pytest.mark.parametrize(("cell", "names"), [("rnn_relu", {"i"}), ("rnn_tanh", {"i", "h"}), ("lstm", {"i", "h", "c", "dh"}),
                                             ("gru", {"i", "h", "dh"})])
def test_ten_of_the_22_are_reproduced_to_all_digits(cell, names):
    assert {name for name, text in PRINTED[cell].items() if f"{exact(cell)[name]:.6E}" == text} == names


@pytest.mark.parametrize("cell", PRINTED)
def test_another_initialisation_misses_them(cell):
    """Planted: matrices larger by a thousandth."""
    assert distances(cell, sums(cell, scale=1.001))["di"] > 1e-4


@pytest.mark.parametrize("cell", [lstm, gru], ids=["lstm", "gru"])
def test_a_gradient_without_the_bypass_misses_them(monkeypatch, cell):
    """Planted: what does not go through the recurrent product left out."""
    right = cell.step_backward
    monkeypatch.setattr(cell, "step_backward", lambda *arguments: (*right(*arguments)[:2], [0 * part for part in right(*arguments)[2]]))
    name = cell.__name__.rpartition(".")[2]
    missed = {sum_ for sum_, distance in distances(name, sums(name)).items() if distance > 1e-3}
    assert missed == {sum_ for sum_ in PRINTED[name] if sum_.startswith("d")}
