"""SciPy's BLAS from native code, and how many threads it may use."""

import ctypes
import threading

import numpy as np
import pytest

from rnnopt.devices.host import blas


def counts():
    return [library.num_threads for library in blas.libraries()]


@pytest.fixture
def adjustable():
    if not blas.libraries():
        pytest.skip("the threads of this BLAS can't be set")


def test_addresses_are_of_the_routines():
    """Row-major y = A x, as Fortran sees it: column-major, transposed."""
    pointer, integer = ctypes.c_void_p, lambda value: ctypes.byref(ctypes.c_int(value))
    sgemv = ctypes.CFUNCTYPE(None, *[pointer] * 11)(blas.address("sgemv"))
    a, x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(3, np.float32), np.full(2, np.nan, np.float32)
    real = [ctypes.byref(ctypes.c_float(value)) for value in (1, 0)]
    sgemv(ctypes.c_char_p(b"T"), integer(3), integer(2), real[0], a.ctypes.data, integer(3), x.ctypes.data, integer(1), real[1],
          y.ctypes.data, integer(1))
    assert y.tolist() == [3, 12]
    assert blas.address("sgemm") != blas.address("sgemv")
    with pytest.raises(KeyError):
        blas.address("sgemmm")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_threads_are_set_and_restored(adjustable, count):
    before = counts()
    with blas.threads(count):
        assert set(counts()) == {count}
    assert counts() == before


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_threads_are_restored_after_an_exception(adjustable, failure):
    before = counts()
    with pytest.raises(failure), blas.threads(3):
        raise failure
    assert counts() == before


def test_threads_are_restored_when_setting_them_is_interrupted(adjustable, monkeypatch):
    before, right = counts(), blas._set

    def interrupted(library, count):
        right(library, count)
        monkeypatch.setattr(blas, "_set", right)
        raise KeyboardInterrupt
    monkeypatch.setattr(blas, "_set", interrupted)
    with pytest.raises(KeyboardInterrupt), blas.threads(max(before) + 1):
        pytest.fail("not to be reached")
    assert counts() == before


def test_any_python_thread_may_set_them_after_another_has(adjustable):
    """threadpoolctl lets the first thread that sets OpenBLAS keep the others from it."""
    before, seen = counts(), []

    def other():
        with blas.threads(1):
            seen.extend(counts())
    with blas.threads(2):
        pass
    for library in blas.libraries():
        library.set_num_threads(max(before))  # what keeps the other thread out
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert set(seen) == {1}
    assert counts() == before


def test_two_that_want_different_numbers_wait_for_each_other(adjustable):
    before, seen, gate = counts(), [], threading.Barrier(2)

    def want(count):
        gate.wait()
        for _ in range(200):
            with blas.threads(count):
                seen.append((count, *counts()))
    threads = [threading.Thread(target=want, args=(count,)) for count in (1, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {len(set(row)) for row in seen} == {1}
    assert {row[0] for row in seen} == {1, 3}
    assert counts() == before


def test_the_library_is_named():
    assert blas.describe()
    assert all(library.internal_api in blas.describe() for library in blas.libraries())
