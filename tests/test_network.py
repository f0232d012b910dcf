"""A network, called: what comes out, and what a caller may rely on."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent

import numpy as np
import pytest
from helpers import TOLERANCE, compiled, error, flat, host, identical, problem, sized

import rnnopt
from rnnopt.devices.host.executable import HostExecutable

SPEC = sized()


def test_shapes_dtypes_and_names_of_results(drawn, device):
    outputs, state = compiled(drawn, device)(drawn.inputs, drawn.state)
    assert outputs.shape == (SPEC.steps, SPEC.batch, SPEC.hidden_size)
    assert [part.shape for part in state] == [(SPEC.layers, SPEC.batch, SPEC.hidden_size)] * 2
    assert {part.dtype for part in (outputs, *state)} == {np.dtype(np.float32)}
    assert isinstance(state, tuple)
    assert (outputs[-1] == state[0][-1]).all()


def test_the_shortest_program_of_the_readme_works():
    spec = rnnopt.NetworkSpec(cell="lstm", layers=2, input_size=8, hidden_size=16, batch=4, steps=10)
    network = rnnopt.compile(spec, rnnopt.init_weights(spec), stage="wavefront", device=host())
    outputs, (h, c) = network(np.zeros((10, 4, 8), np.float32))
    assert outputs.shape == (10, 4, 16)
    assert h.shape == c.shape == (2, 4, 16)
    assert "operations" in network.plan.summary()


def test_no_state_means_zeros(drawn, device):
    network = compiled(drawn, device)
    zeros = np.zeros_like(drawn.state[0])
    assert identical(flat(network(drawn.inputs)), flat(network(drawn.inputs, (zeros, zeros))))
    assert identical(flat(network(drawn.inputs, None)), flat(network(drawn.inputs, [zeros, zeros])))


def test_results_feed_the_next_call(drawn, device):
    """A sequence in two halves, the state handed on, is the whole sequence."""
    p = problem(sized(steps=8))
    half = rnnopt.compile(sized(steps=4), p.weights, device=device)
    first, state = half(p.inputs[:4], p.state)
    second, state = half(p.inputs[4:], state)
    assert error((np.concatenate([first, second]), *state), p.solution()) <= TOLERANCE


def test_outputs_of_earlier_calls_stay_as_they_were(drawn, device):
    network = compiled(drawn, device)
    first = flat(network(drawn.inputs, drawn.state))
    kept = [part.copy() for part in first]
    for scale in (2, 3):
        later = flat(network(np.float32(scale) * drawn.inputs, drawn.state))
        assert not identical(later, kept)
    assert identical(first, kept)


def test_results_may_be_written_to_without_consequence(drawn, device):
    network = compiled(drawn, device)
    first = flat(network(drawn.inputs, drawn.state))
    kept = [part.copy() for part in first]
    for part in first:
        part[...] = np.nan
    assert identical(flat(network(drawn.inputs, drawn.state)), kept)


def test_arguments_are_not_changed(drawn, device):
    arrays = [drawn.inputs, *drawn.state, *drawn.weights.values()]
    before = [array.copy() for array in arrays]
    compiled(drawn, device)(drawn.inputs, drawn.state)
    assert identical(arrays, before)


def test_read_only_arguments_work(drawn, device):
    for array in (drawn.inputs, *drawn.state, *drawn.weights.values()):
        array.setflags(write=False)
    assert error(flat(compiled(drawn, device)(drawn.inputs, drawn.state)), drawn.solution()) <= TOLERANCE


@pytest.mark.parametrize("arrange", [np.asfortranarray, lambda a: np.repeat(a, 2, axis=0)[::2],
                                     lambda a: np.ascontiguousarray(a[::-1])[::-1],
                                     lambda a: np.stack([a, a], axis=-1)[..., 0]],
                         ids=["Fortran", "strided", "backwards", "interleaved"])
def test_arrays_in_any_arrangement_work(drawn, device, arrange):
    other = drawn._replace(weights={name: arrange(value) for name, value in drawn.weights.items()},
                           inputs=arrange(drawn.inputs), state=tuple(map(arrange, drawn.state)))
    assert not other.inputs.flags.c_contiguous
    assert error(flat(compiled(other, device)(other.inputs, other.state)), drawn.solution()) <= TOLERANCE


@pytest.mark.parametrize("offset", [1, 2, 4, 7])
def test_arrays_that_start_at_any_address_work(drawn, device, offset):
    """`offset` bytes after a cache line: a float need not even start where floats do."""
    def moved(array):
        raw = np.zeros(array.nbytes + 128, np.uint8)
        start = -raw.ctypes.data % 64 + offset
        result = raw[start:start + array.nbytes].view(np.float32).reshape(array.shape)
        result[...] = array
        return result
    other = drawn._replace(weights={name: moved(value) for name, value in drawn.weights.items()},
                           inputs=moved(drawn.inputs), state=tuple(map(moved, drawn.state)))
    for stage in ("naive", "wavefront"):
        assert error(flat(compiled(other, device, stage)(other.inputs, other.state)), drawn.solution()) <= TOLERANCE


def test_weights_are_not_copied(drawn, device):
    if device.name == "cuda":
        pytest.skip("a GPU has copies of the weights: that is what load_weights is for")
    network = compiled(drawn, device)
    network(drawn.inputs, drawn.state)
    drawn.weights["weight_ih_l0"] *= 2
    changed = problem(SPEC)
    changed.weights["weight_ih_l0"] *= 2
    assert error(flat(network(drawn.inputs, drawn.state)), changed.solution()) <= TOLERANCE


def test_what_is_not_a_number_stays_in_its_own_row(drawn, device):
    drawn.inputs[1, 2, 0] = np.nan
    for stage in ("naive", "wavefront"):
        outputs, state = compiled(drawn, device, stage)(drawn.inputs, drawn.state)
        where = np.isnan(outputs)
        assert where[1:, 2].all()
        assert not where[0].any()
        assert not where[:, :2].any()
        assert not np.isnan(state[1][:, :2]).any()


@pytest.mark.parametrize("huge", [100, 1e4, 1e30, np.inf])
def test_saturated_gates_give_finite_results(drawn, device, huge):
    drawn.inputs[1] *= np.float32(huge)
    drawn.inputs[1][drawn.inputs[1] == 0] = 1
    if huge == np.inf:
        drawn.weights["weight_ih_l0"] = np.abs(drawn.weights["weight_ih_l0"])
        drawn.inputs[1] = np.inf
    for stage in ("naive", "wavefront"):
        results = flat(compiled(drawn, device, stage)(drawn.inputs, drawn.state))
        assert error(results, drawn.solution()) <= TOLERANCE


def test_two_networks_do_not_disturb_each_other(device):
    problems = [problem(sized(hidden_size=size), seed=size) for size in (7, 32)]
    networks = [compiled(p, device) for p in problems]
    alone = [flat(network(p.inputs, p.state)) for network, p in zip(networks, problems, strict=True)]
    for _ in range(3):
        for network, p, expected in zip(networks, problems, alone, strict=True):
            assert identical(flat(network(p.inputs, p.state)), expected)


def test_one_network_may_be_called_from_several_threads(drawn, device):
    network = compiled(drawn, device)
    scaled = [np.float32(k / 8) * drawn.inputs for k in range(16)]
    alone = [flat(network(inputs, drawn.state)) for inputs in scaled]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda inputs: flat(network(inputs, drawn.state)), scaled * 3))
    assert all(identical(a, b) for a, b in zip(together, alone * 3, strict=True))


def test_networks_called_from_several_threads_give_the_same_bits():
    """Also where one wants one thread of BLAS and the other wants all: the number is the whole process's."""
    p = problem(sized(hidden_size=100, batch=64, steps=3))
    networks = [compiled(p, host(), stage) for stage in ("naive", "wavefront", "fused_pointwise")]
    for network, workers, blas_threads in zip(networks, (1, 2, 2), (2, 1, 1), strict=True):
        network.executable = HostExecutable(network.plan, workers, blas_threads=blas_threads)
        network.executable.load(network.weights)
    alone = [flat(network(p.inputs, p.state)) for network in networks]
    with ThreadPoolExecutor(3) as threads:
        for _ in range(5):
            together = list(threads.map(lambda network: flat(network(p.inputs, p.state)), networks))
            assert all(identical(a, b) for a, b in zip(together, alone, strict=True))


@pytest.mark.parametrize("busy", [False, True], ids=["quiet", "while another thread calls it"])
def test_a_forked_child_computes_the_same(busy):
    """In a process of its own, since forking is no business of pytest's threads."""
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    host()
    script = f"""
        import os, threading, time, warnings, numpy as np, rnnopt
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's own, of forking beside other threads
        spec = rnnopt.NetworkSpec("lstm", 2, 64, 64, 16, 6)
        network = rnnopt.compile(spec, rnnopt.init_weights(spec), device="host")
        inputs = np.random.default_rng(0).standard_normal((6, 16, 64)).astype(np.float32)
        before = network(inputs)[0].tobytes()
        children, stop = [], threading.Event()
        def keep_calling():
            while not stop.is_set():
                network(inputs)
        thread = threading.Thread(target=keep_calling)
        if {busy}:
            thread.start()
            time.sleep(0.1)
        for _ in range(3):
            child = os.fork()
            if not child:
                fresh = rnnopt.compile(spec, network.weights, device="host")
                os._exit(0 if network(inputs)[0].tobytes() == before == fresh(inputs)[0].tobytes() else 1)
            children.append(child)
        stop.set()
        print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children], network(inputs)[0].tobytes() == before)
    """
    answer = subprocess.run([sys.executable, "-c", dedent(script)], capture_output=True, text=True, timeout=120)
    assert (answer.stdout, answer.stderr) == ("[0, 0, 0] True\n", "")
