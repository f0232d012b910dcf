"""The cuda device is there or says in a line what is missing; it leaves contexts, forks and importers alone."""

import multiprocessing
import os
import subprocess
import sys
from types import ModuleType

import fake_cuda
import pytest
from helpers import problem, sized

import rnnopt
from rnnopt.devices import DeviceUnavailable, resolve, status_line
from rnnopt.devices.cuda import nvcc


def refusal():
    with pytest.raises(DeviceUnavailable) as caught:
        resolve("cuda")
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def no_module(monkeypatch):
    """Make the import of a module fail."""
    def remove(name, error=None):
        error = error or ModuleNotFoundError(f"No module named {name!r}", name=name)

        class Finder:
            @staticmethod
            def find_spec(wanted, path=None, target=None):
                if wanted == name:
                    raise error

        for known in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
            monkeypatch.delitem(sys.modules, known)
        monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])

    return remove


def test_without_pycuda_the_extra_is_named(forget, no_module):
    no_module("pycuda")
    assert "no PyCUDA" in refusal()
    assert "extra 'cuda'" in refusal()


def test_without_the_driver_library_the_driver_is_named(forget, no_module, monkeypatch):
    package = ModuleType("pycuda")
    package.__path__ = []
    monkeypatch.setitem(sys.modules, "pycuda", package)
    no_module("pycuda.driver", ImportError("libcuda.so.1: cannot open shared object file"))
    assert "no NVIDIA driver (libcuda.so.1: cannot open shared object file)" in refusal()
    assert "nvidia-smi" in refusal()


def test_a_driver_that_does_not_start_is_quoted(gpu, monkeypatch):
    def fail():
        raise fake_cuda.LogicError("cuInit failed: no CUDA-capable device is detected")

    monkeypatch.setattr(sys.modules["pycuda.driver"], "init", fail)
    assert "no CUDA-capable device is detected" in refusal()


def test_a_driver_without_gpus_points_at_the_variable_that_hides_them(gpu, monkeypatch):
    monkeypatch.setattr(sys.modules["pycuda.driver"].Device, "count", staticmethod(lambda: 0))
    assert "CUDA_VISIBLE_DEVICES" in refusal()


def test_without_nvcc_its_packages_are_named(gpu, monkeypatch):
    def fail():
        raise DeviceUnavailable(f"no nvcc: {nvcc.REMEDY}")

    monkeypatch.setattr(nvcc, "find", fail)
    assert "cuda-nvcc" in refusal()


def test_a_card_older_than_nvcc_knows_is_refused_before_anything_is_compiled(gpu, monkeypatch):
    monkeypatch.setattr(fake_cuda.Device, "compute_capability", lambda device: (7, 0))
    assert "sm_75 and newer, and the card is sm_70" in refusal()


def test_without_the_bindings_of_cublas_their_package_is_named(gpu, no_module):
    no_module("nvmath")
    assert "nvmath-python" in refusal()


def test_without_the_library_of_cublas_its_package_is_named(gpu, monkeypatch):
    def fail(part):
        raise RuntimeError('Failure finding "libcublas.so"\nlong story')

    monkeypatch.setattr(sys.modules["nvmath.bindings.cublas"], "get_property", fail)
    assert "nvidia-cublas" in refusal()


def test_what_is_missing_is_looked_for_again(gpu, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["nvmath.bindings.cublas"], "get_property", lambda part: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            resolve("cuda")
    assert resolve("cuda").name == "cuda"


def test_auto_prefers_the_gpu_and_says_so(gpu):
    assert status_line(resolve("auto")).startswith("device 'cuda': fake (chosen by auto")


def test_the_description_names_card_driver_compiler_and_libraries(gpu):
    assert resolve("cuda:streams").describe() == {
        "device": "cuda", "what": "fake", "compute_capability": "9.0", "memory": 2**30, "driver": "CUDA 13.0",
        "cublas": "13.0.2", "replay": "streams", "compiler": "nvcc of the tests", "flags": "-std=c++17 -lineinfo -cubin -arch=sm_90"}


def test_the_device_makes_no_context_before_one_is_needed(gpu):
    resolve("cuda").describe()
    assert gpu.retained == 0


def test_all_networks_share_one_context(gpu):
    p = problem(sized())
    for _ in range(3):
        rnnopt.compile(p.spec, p.weights, device=resolve("cuda"))(p.inputs)
    assert (gpu.retained, gpu.depth) == (1, 0)


def test_a_context_that_was_current_is_so_afterwards(gpu):
    gpu.depth = 1  # another library's
    p = problem(sized())
    rnnopt.compile(p.spec, p.weights, device="cuda")(p.inputs)
    assert gpu.depth == 1


def test_groups_of_inputs_are_the_paper_s(gpu):
    device = resolve("cuda")
    assert device.input_group(sized(steps=9)) == 2
    assert device.input_group(sized(steps=1)) == 1


def _use_in_child(network, inputs, answers):
    said = []
    for attempt in (lambda: resolve("cuda"), lambda: network(inputs)):
        try:
            attempt()
        except DeviceUnavailable as error:
            said.append(str(error))
    answers.put(said)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_refused_with_a_way_out(gpu):
    p = problem(sized())
    network = rnnopt.compile(p.spec, p.weights, device="cuda")
    network(p.inputs)
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    child = fork.Process(target=_use_in_child, args=(network, p.inputs, answers))
    child.start()
    said = answers.get()
    child.join()
    assert len(said) == 2
    assert all("forked" in message and "'spawn'" in message for message in said)


def test_importing_the_device_imports_neither_pycuda_nor_nvmath():
    code = ("import sys, rnnopt, rnnopt.devices.cuda.executable\n"
            "assert not {'pycuda', 'nvmath'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True)
