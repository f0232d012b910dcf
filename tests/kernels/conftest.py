"""Fixtures of the kernels' tests."""

import pytest

from rnnopt.devices import DeviceUnavailable
from rnnopt.devices.host import compiler
from rnnopt.devices.host.checked import build


@pytest.fixture(params=build.SANITIZERS)
def look_for(request):
    """What a checked build looks for, or a skip that says why it can't be looked for here."""
    try:
        build.runner(request.param)
    except DeviceUnavailable as error:
        pytest.skip(str(error))
    return request.param


@pytest.fixture
def cxx():
    """The C++ compiler, or a skip that says how to get one."""
    try:
        return compiler.find_compiler()
    except DeviceUnavailable as error:
        pytest.skip(str(error))
