"""What all tests share: how Hypothesis draws, what is skipped where there is no GPU, and the peer to compare with."""

import os
from functools import cache

import helpers
import hypothesis
import pytest
from helpers import host, problem, sized

from rnnopt.devices import DeviceUnavailable, resolve
from rnnopt.devices.reference import open_device as open_reference

# No deadline: a first example may compile a kernel. CI draws the same examples every time, so that a red run can be
# repeated.
hypothesis.settings.register_profile("rnnopt", deadline=None, derandomize="CI" in os.environ, print_blob=True)
hypothesis.settings.load_profile("rnnopt")


def pytest_addoption(parser):
    parser.addoption("--on", choices=["host", "standin", "gpu"], default="host",
                     help="what the tests that compile kernels run on: this CPU, PyCUDA over the stand-in driver, or a GPU")


def pytest_configure(config):
    helpers.ON = config.getoption("--on")
    if helpers.ON != "host":
        os.environ["RNNOPT_CUDA_DRIVER"] = "real" if helpers.ON == "gpu" else "standin"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked ``gpu``, with the reason, where no GPU can be used."""
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    if gpu_items and (reason := why_no_gpu()):
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason=reason))


@cache
def why_no_gpu() -> str | None:
    """Say in one line what is missing, or return None where the tests run on CUDA, a GPU's or the stand-in's."""
    if helpers.ON == "host":
        return "needs a GPU, or the stand-in driver: pytest --on gpu, or --on standin"
    try:
        resolve("cuda")
    except DeviceUnavailable as error:
        return str(error)
    return None


@pytest.fixture(scope="session")
def torch():
    """PyTorch, or a skip that says how to get it."""
    return pytest.importorskip("torch", reason="needs PyTorch, the extra 'peers': make test PEERS=1 installs it")


@pytest.fixture(params=["reference", "host"])
def device(request):
    """Each device that needs no GPU."""
    return host() if request.param == "host" else open_reference()


@pytest.fixture
def drawn():
    """A small network and what it is applied to."""
    return problem(sized())
