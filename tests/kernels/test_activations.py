"""exp, tanh and the logistic function as the host device computes them, against NumPy in float64."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from rnnopt import kernels
from rnnopt.devices import DeviceUnavailable
from rnnopt.devices.host import compiler

MAPS = """
#include "host.h"
#include "common.cuh"
#define MAP(name, of)                                                                                            \\
    extern "C" __global__ void name(int rows, int cols, const float* x, int x_ld, float* y, int y_ld)             \\
    {                                                                                                            \\
        FOR_EACH_ROW(r, rows)                                                                                    \\
            FOR_EACH_COLUMN(j, cols)                                                                             \\
                y[r * y_ld + j] = of(x[r * x_ld + j]);                                                           \\
    }                                                                                                            \\
    ENTRY(name)
MAP(exponential, exp_of)
MAP(hyperbolic_tangent, tanh_of)
MAP(logistic, sigmoid_of)
"""


def logistic(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


FUNCTIONS = {"exponential": np.exp, "hyperbolic_tangent": np.tanh, "logistic": logistic}

TINY = np.finfo(np.float32).tiny  # smallest normal number


@pytest.fixture(scope="module")
def apply():
    """Apply one of FUNCTIONS as a kernel does, to a float32 array."""
    host = Path(compiler.__file__).parent
    headers = kernels.sources("common.cuh") | {name: (host / name).read_text(encoding="utf-8")
                                               for name in ("host.h", "host_math.h")}
    try:
        library = ctypes.CDLL(str(compiler.build("activations", MAPS, headers)))
    except DeviceUnavailable as error:
        pytest.skip(str(error))

    def call(name, x):
        y = np.empty_like(x)
        values = [ctypes.c_int(1), ctypes.c_int(x.size)]
        for array in (x, y):
            values += [ctypes.c_void_p(array.ctypes.data), ctypes.c_int(x.size)]
        getattr(library, f"{name}__entry")((ctypes.c_void_p * 6)(*map(ctypes.addressof, values)), 0, 1)
        return y

    return call


def everywhere():
    """Arguments of every magnitude and sign, dense where a function changes and where exp enters or leaves float's range."""
    small = np.geomspace(1e-45, 3e38, 200_000)
    return np.concatenate([np.linspace(-110, 110, 500_001), np.linspace(-1, 1, 200_001), np.linspace(-105, -86, 100_001),
                           np.linspace(88, 89.5, 100_001), small, -small]).astype(np.float32)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_is_a_few_roundings_at_every_magnitude(apply, name):
    x = everywhere()
    with np.errstate(over="ignore", under="ignore"):
        right = FUNCTIONS[name](x.astype(np.float64))
        rounded = right.astype(np.float32)
    y = apply(name, x)
    normal = (np.abs(right) >= TINY) & np.isfinite(rounded)
    assert normal.sum() > 500_000
    error = np.abs(y[normal] - right[normal]) / np.abs(right[normal])
    assert error.max() <= 4e-7, f"{name}({x[normal][error.argmax()]})"
    assert np.array_equal(np.isinf(y), np.isinf(rounded))
    below = np.abs(right) < TINY
    assert np.abs(y[below] - right[below]).max(initial=0) < TINY


@pytest.mark.parametrize(("name", "limits"), [
    ("exponential", {np.inf: np.inf, -np.inf: 0, 0.0: 1, 1e-45: 1, -1e-45: 1}),
    ("hyperbolic_tangent", {np.inf: 1, -np.inf: -1, 10: 1, -10: -1, 0.0: 0, 1e-45: 1e-45, -1e-45: -1e-45, 1e-40: 1e-40}),
    ("logistic", {np.inf: 1, -np.inf: 0, 0.0: 0.5, 1e-45: 0.5, 3e38: 1, -3e38: 0}),
])
def test_limits_are_exact(apply, name, limits):
    x = np.repeat(np.float32(list(limits)), 3)  # more than a vector register holds
    np.testing.assert_array_equal(apply(name, x), np.repeat(np.float32(list(limits.values())), 3))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan_stays_nan_and_spoils_no_neighbour(apply, name):
    x = np.linspace(-3, 3, 41, dtype=np.float32)
    for at in (0, 7, 8, 40):
        spoilt = x.copy()
        spoilt[at] = np.nan
        assert list(np.flatnonzero(np.isnan(apply(name, spoilt)))) == [at]


def test_tanh_keeps_the_sign_of_zero_and_is_odd(apply):
    x = np.geomspace(1e-45, 100, 1001).astype(np.float32)
    assert np.array_equal(apply("hyperbolic_tangent", -x), -apply("hyperbolic_tangent", x))
    assert list(np.signbit(apply("hyperbolic_tangent", np.float32([0.0, -0.0] * 8)))) == [False, True] * 8
