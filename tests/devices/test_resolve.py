"""Devices by name: what is there, what is missing and how to get it, and what `auto` takes."""

import os
import subprocess
import sys
from textwrap import dedent

import numpy as np
import pytest
from helpers import error, flat, problem, sized

import rnnopt
from rnnopt import devices
from rnnopt.devices import DeviceUnavailable
from rnnopt.devices.host import compiler


@pytest.fixture
def no_compiler(monkeypatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    compiler.find_compiler.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    compiler.find_compiler.cache_clear()


@pytest.fixture
def no_gpu(monkeypatch):
    def missing():
        raise DeviceUnavailable("no GPU; get one")
    monkeypatch.setattr("rnnopt.devices.cuda.open_device", missing)


def test_the_reference_is_always_there():
    device = devices.resolve("reference")
    assert device.name == "reference"
    assert device.reason == "asked for by name"
    assert device.describe()["what"] == "NumPy float64 reference"


def test_auto_takes_the_first_that_is_there_and_says_what_is_missing(no_gpu):
    device = devices.resolve("auto")
    assert device.name in ("host", "reference")
    assert device.reason.startswith("chosen by auto; no GPU; get one")
    assert rnnopt.compile(sized(), rnnopt.init_weights(sized())).device.name == device.name


def test_auto_takes_a_gpu_before_anything_else(monkeypatch):
    gpu = type("Gpu", (), {"name": "cuda"})()
    monkeypatch.setattr("rnnopt.devices.cuda.open_device", lambda: gpu)
    assert devices.resolve("auto") is gpu
    assert gpu.reason == "chosen by auto"


def test_without_gpu_and_compiler_auto_falls_to_the_reference_which_is_right(no_compiler, no_gpu):
    p = problem(sized())
    network = rnnopt.compile(p.spec, p.weights, device="auto")
    assert network.device.name == "reference"
    assert "no GPU; get one" in network.device.reason
    assert "no compiler; the host device needs a C++ compiler: install" in network.device.reason
    assert "\n" not in network.device.reason
    assert error(flat(network(p.inputs, p.state)), p.solution()) < 1e-7


def test_the_host_asked_for_by_name_without_a_compiler_is_an_error_of_one_line_with_its_remedy(no_compiler):
    with pytest.raises(DeviceUnavailable, match="C\\+\\+ compiler: install g\\+\\+") as caught:
        rnnopt.compile(sized(), rnnopt.init_weights(sized()), device="host")
    assert "\n" not in str(caught.value)


def test_a_gpu_asked_for_by_name_where_there_is_none_is_an_error_of_one_line():
    try:
        devices.resolve("cuda")
    except DeviceUnavailable as missing:
        assert "\n" not in str(missing)
        assert len(str(missing)) > 20
    else:
        pytest.skip("there is a GPU")


def test_in_a_process_without_a_compiler_the_package_imports_and_computes(tmp_path):
    """From a fresh interpreter with an empty PATH, as a stranger without a compiler would."""
    script = """
        import numpy as np, rnnopt
        spec = rnnopt.NetworkSpec("lstm", 2, 3, 4, 5, 6)
        network = rnnopt.compile(spec, rnnopt.init_weights(spec))
        outputs, _ = network(np.ones((6, 5, 3), np.float32))
        print(network.device.name, outputs.shape, "no compiler" in network.device.reason)
    """
    environment = {name: value for name, value in os.environ.items() if name != "CXX"} | {"PATH": str(tmp_path)}
    answer = subprocess.run([sys.executable, "-c", dedent(script)], env=environment, capture_output=True, text=True, timeout=60)
    assert (answer.stdout, answer.stderr) == ("reference (6, 5, 4) True\n", "")


@pytest.mark.parametrize("wrong", ["gpu", "HOST ", "referense", "", None, 3])
def test_an_unknown_device_is_refused_with_the_known_ones(wrong):
    known = "'cuda', 'host', 'reference', 'model', 'cuda:streams', 'model:CARD'"
    with pytest.raises(ValueError, match=f"^device must be 'auto' or one of {known}, got ") as caught:
        devices.resolve(wrong)
    assert repr(wrong) in str(caught.value)


@pytest.mark.parametrize(("wrong", "near"), [("HOST", "host"), ("referense", "reference"), ("cude", "cuda"), ("automatic", "auto")])
def test_an_unknown_device_is_refused_with_the_nearest_name(wrong, near):
    with pytest.raises(ValueError, match=f"did you mean '{near}'"):
        devices.resolve(wrong)


@pytest.mark.parametrize("wrong", [0, -1])
def test_a_number_of_workers_below_one_is_refused(wrong):
    from rnnopt.devices.host import HostDevice

    with pytest.raises(ValueError, match=f"^workers must be at least 1, got {wrong}$"):
        HostDevice(wrong)
    with pytest.raises(TypeError, match="^workers must be an integer of at least 1, got 2.0"):
        HostDevice(2.0)
    assert HostDevice(np.int64(2)).workers == 2


def test_the_status_line_says_which_why_and_what_else():
    device = devices.resolve("reference")
    assert devices.status_line(device) == ("device 'reference': NumPy float64 reference (asked for by name; "
                                           "choose with device='cuda' | 'host' | 'reference' | 'model')")


def test_status_line_is_one_short_line_however_a_device_was_opened():
    from rnnopt.devices.host import HostDevice

    for device in (HostDevice(1), devices.resolve("host"), devices.resolve("auto")):
        line = devices.status_line(device)
        assert line.startswith(f"device {device.name!r}: ")
        assert "\n" not in line
        assert len(line) < 250
