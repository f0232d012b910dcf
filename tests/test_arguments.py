"""Wrong arguments of `compile` and of a network are refused: named, with what came and what was expected."""

import re

import numpy as np
import pytest
from helpers import compiled, flat, identical, sized

import rnnopt

SPEC = sized()


def test_a_spec_that_is_none_is_refused():
    with pytest.raises(TypeError, match="^spec must be a NetworkSpec, got dict$"):
        rnnopt.compile(vars(SPEC), rnnopt.init_weights(SPEC))


@pytest.mark.parametrize("wrong", [3, None, dict, np.zeros(1)])
def test_a_device_that_is_none_is_refused(wrong):
    with pytest.raises(TypeError, match="^device must be a name or what rnnopt.devices.resolve returned, got "):
        rnnopt.compile(SPEC, rnnopt.init_weights(SPEC), device=wrong)


@pytest.mark.parametrize(("wrong", "near"), [("cpu", None), ("Host", "host"), ("cudaa", "cuda"), ("autp", "auto"), ("", None)])
def test_an_unknown_device_is_refused_with_the_nearest_name(wrong, near):
    names = "'cuda', 'host', 'reference', 'model', 'cuda:streams', 'model:CARD'"
    with pytest.raises(ValueError, match=f"^device must be 'auto' or one of {names}, got {wrong!r}") as caught:
        rnnopt.compile(SPEC, rnnopt.init_weights(SPEC), device=wrong)
    assert str(caught.value).endswith(f"(did you mean {near!r}?)" if near else repr(wrong))


def test_inputs_of_a_wrong_shape_are_refused(drawn, device):
    network, (T, B, F) = compiled(drawn, device), drawn.inputs.shape
    for shape in [(T + 1, B, F), (T - 1, B, F), (T, B + 1, F), (B, T, F), (T, B, F + 1), (T, B), (T, B, F, 1), (T * B * F,),
                  (0, B, F), (T, 0, F), (0,), ()]:
        with pytest.raises(ValueError, match=re.escape(f"inputs must have shape {(T, B, F)}, got {shape}")):
            network(np.zeros(shape, np.float32))


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "uint8", "bool", "complex128", "object", "S4"])
def test_inputs_of_a_wrong_dtype_are_refused(drawn, device, dtype):
    wrong = np.ones(drawn.inputs.shape, dtype)
    with pytest.raises(TypeError, match=f"^inputs must be float32, got {re.escape(str(wrong.dtype))}: convert it"):
        compiled(drawn, device)(wrong)


@pytest.mark.parametrize("wrong", [None, 1.0, "inputs", [[[1.0]]]])
def test_inputs_that_are_no_array_are_refused(drawn, device, wrong):
    with pytest.raises(TypeError, match=f"^inputs must be a NumPy array of float32, got {type(wrong).__name__}$"):
        compiled(drawn, device)(wrong)


def test_torch_tensors_that_require_gradients_are_refused(drawn, device, torch):
    with pytest.raises(TypeError, match=r"^inputs requires gradients, which can't follow it here: give inputs\.detach\(\)$"):
        compiled(drawn, device)(torch.zeros(drawn.inputs.shape, requires_grad=True))


def test_a_wrong_state_is_refused_and_said_which_part(drawn, device):
    network, (h, c) = compiled(drawn, device), drawn.state
    for wrong, got in [((h,), "1 of them"), ((h, c, h), "3 of them"), ((), "0 of them"), (h, "ndarray"), (np.stack([h, c]), "ndarray"),
                       ({"h": h, "c": c}, "dict"), (0, "int")]:
        with pytest.raises(TypeError, match=re.escape(f"state must be a tuple of 2 arrays (h, c), got {got}")):
            network(drawn.inputs, wrong)
    with pytest.raises(ValueError, match=re.escape(f"state[1] (c) must have shape {c.shape}, got {c[0].shape}")):
        network(drawn.inputs, (h, c[0]))
    with pytest.raises(TypeError, match=re.escape("state[0] (h) must be float32, got float64")):
        network(drawn.inputs, (h.astype(float), c))
    with pytest.raises(TypeError, match=re.escape("state[0] (h) must be a NumPy array of float32, got NoneType")):
        network(drawn.inputs, (None, c))


def test_a_refused_call_leaves_the_network_as_it_was(drawn, device):
    network = compiled(drawn, device)
    before = flat(network(drawn.inputs, drawn.state))
    with pytest.raises(ValueError, match="inputs"):
        network(drawn.inputs[:1], drawn.state)
    with pytest.raises(TypeError, match="state"):
        network(2 * drawn.inputs, (drawn.state[0],))
    assert identical(flat(network(drawn.inputs, drawn.state)), before)
