"""What all tests share: how Hypothesis draws, what is skipped where there is no GPU, and the peer to compare with."""

import os
from functools import cache

import hypothesis
import pytest
from helpers import host, problem, sized

from rnnopt.devices.reference import open_device as open_reference

# No deadline: a first example may compile a kernel. CI draws the same examples every time, so that a red run can be
# repeated.
hypothesis.settings.register_profile("rnnopt", deadline=None, derandomize="CI" in os.environ, print_blob=True)
hypothesis.settings.load_profile("rnnopt")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked ``gpu``, with the reason, where no GPU can be used."""
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    if gpu_items and (reason := why_no_gpu()):
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason=reason))


@cache
def why_no_gpu() -> str | None:
    """Say in one line what is missing, or return None when PyCUDA sees a GPU."""
    try:
        import pycuda.driver as driver
    except ImportError as error:
        return f"needs PyCUDA, the extra 'cuda': {error}"
    try:
        driver.init()
    except driver.Error as error:
        return f"needs a working NVIDIA driver: {error}"
    return None if driver.Device.count() else "needs an NVIDIA GPU, and the driver lists none"


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
