"""Arrays of other libraries come in, and ours go out, without a copy."""

import numpy as np
import pytest
from helpers import host, problem, sized, training

import rnnopt
from rnnopt.arrays import as_numpy


def test_a_numpy_array_is_taken_as_it_is():
    array = np.zeros(3, np.float32)
    assert as_numpy("x", array) is array


def test_a_tensor_shares_its_memory(torch):
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    array = as_numpy("x", tensor)
    assert array.ctypes.data == tensor.data_ptr()
    tensor[0, 0] = 7
    assert array[0, 0] == 7


@pytest.mark.parametrize("wrong", [[1.0, 2.0], None, 3.0, "abc"])
def test_what_is_no_array_is_refused(wrong):
    with pytest.raises(TypeError, match=f"x must be a NumPy array of float32, got {type(wrong).__name__}"):
        as_numpy("x", wrong)


def test_a_masked_array_is_refused_since_its_mask_would_be_lost():
    with pytest.raises(TypeError, match="x is a masked array"):
        as_numpy("x", np.ma.masked_array(np.zeros(3, np.float32), mask=[0, 1, 0]))


def test_a_tensor_that_requires_gradients_is_refused_with_the_remedy(torch):
    with pytest.raises(TypeError, match=r"give x\.detach\(\)"):
        as_numpy("x", torch.zeros(3, requires_grad=True))


@pytest.mark.parametrize(("lazy", "remedy"), [
    (lambda torch: torch.tensor([1 + 2j, 3 - 4j]).conj().imag, "resolve_neg"),
    (lambda torch: torch.tensor([1 + 2j]).conj(), "resolve_conj"),
], ids=["negated", "conjugated"])
def test_a_tensor_that_is_yet_to_be_negated_or_conjugated_is_refused_with_the_remedy(torch, lazy, remedy):
    tensor = lazy(torch)
    with pytest.raises(TypeError, match=rf"which its memory doesn't show: give x\.{remedy}\(\)"):
        as_numpy("x", tensor)
    assert as_numpy("x", getattr(tensor, remedy)()).tolist() == tensor.tolist()


def test_networks_take_tensors_and_return_what_tensors_share(torch):
    p = problem(sized())
    tensors = {name: torch.from_numpy(value) for name, value in p.weights.items()}
    network = rnnopt.compile(p.spec, tensors, device=host())
    assert all(network.weights[name].ctypes.data == tensor.data_ptr() for name, tensor in tensors.items())
    outputs, _ = network(torch.from_numpy(p.inputs), tuple(map(torch.from_numpy, p.state)))
    assert torch.from_dlpack(outputs).data_ptr() == outputs.ctypes.data
    np.testing.assert_allclose(outputs, p.solution()[0], rtol=1e-4, atol=1e-6)


def test_a_training_network_takes_tensors_too(torch):
    drawn = training(sized())
    network = rnnopt.compile(drawn.problem.spec, drawn.problem.weights, device=host(), training=True)
    outputs, _ = network(torch.from_numpy(drawn.problem.inputs))
    assert torch.from_dlpack(outputs).shape == outputs.shape
    gradients = network.backward(torch.from_numpy(drawn.d_outputs))
    assert torch.from_dlpack(gradients["inputs"]).data_ptr() == gradients["inputs"].ctypes.data
