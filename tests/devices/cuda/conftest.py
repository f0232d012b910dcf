"""Fixtures of the cuda device's tests."""

import sys
from types import ModuleType, SimpleNamespace

import fake_cublas
import fake_cuda
import pytest

from rnnopt.devices import DeviceUnavailable
from rnnopt.devices.cuda import context, cublas, modules, nvcc, standin
from rnnopt.devices.host import compiler


@pytest.fixture
def forget(monkeypatch):
    """Nothing is known of PyCUDA, nvcc and cuBLAS before a test, and nothing after it."""
    known = context._initialise, nvcc.find, cublas.load
    monkeypatch.setattr(context, "_contexts", {})
    for found in known:
        found.cache_clear()
    yield
    for found in known:
        found.cache_clear()


@pytest.fixture
def gpu(monkeypatch, forget):
    """A fake GPU, on which the device runs its own code (see fake_cuda)."""
    try:
        compiler.find_compiler()
    except DeviceUnavailable as error:
        pytest.skip(str(error))
    # Not the stand-in's, which an environment without a GPU may have.
    monkeypatch.setattr(standin, "load_driver", lambda: False)
    monkeypatch.setattr(standin, "chosen", lambda: False)
    gpu = fake_cuda.Gpu()
    driver, bindings = fake_cuda.pycuda_driver(gpu), fake_cublas.nvmath_cublas(gpu)
    for package, name, module in [("pycuda", "driver", driver), ("nvmath.bindings", "cublas", bindings)]:
        parent = ModuleType(package)
        setattr(parent, name, module)
        monkeypatch.setitem(sys.modules, package, parent)
        monkeypatch.setitem(sys.modules, f"{package}.{name}", module)
    monkeypatch.setitem(sys.modules, "nvmath", ModuleType("nvmath"))
    monkeypatch.setattr(context, "atexit", SimpleNamespace(register=gpu.at_exit.append))
    found = nvcc.Compiler(("nvcc",), "nvcc of the tests", (75, 80, 90))
    monkeypatch.setattr(nvcc, "find", lambda: found)
    monkeypatch.setattr(modules, "image", lambda file, target: file.encode())
    yield gpu
    for close in gpu.at_exit:
        close()


@pytest.fixture
def real_nvcc(forget):
    """nvcc, or a skip that says how to get it."""
    try:
        return nvcc.find()
    except DeviceUnavailable as error:
        pytest.skip(str(error))
