"""The native executor: plans of any kind, BLAS's threads, failures and interrupts."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import flat, host, identical, problem, run, sized

import rnnopt
from rnnopt.devices.host import blas, executable, program
from rnnopt.devices.host.executable import HostExecutable
from rnnopt.operations import Buffer, Copy, Gemm, Launch
from rnnopt.plan import Plan
from rnnopt.provenance import core_count


@pytest.fixture(autouse=True)
def _compiler():
    host()


def square(name, role="scratch"):
    return Buffer(name, (3, 3), role)


def replay(operations, arrays, output, **options):
    views = [view for operation in operations for view in (*operation.reads, *operation.writes)]
    executable = HostExecutable(Plan({view.buffer.name: view.buffer for view in views}, tuple(operations), 1), **options)
    executable.load(arrays)
    executable.replay()
    return executable.result(output)


def test_a_plan_of_one_operation_of_each_kind_works():
    x, w, y = square("x", "input"), square("w", "weight"), square("y", "output")
    a, b = np.arange(18, dtype=np.float32).reshape(2, 3, 3)
    arrays = {"x": a, "w": b}
    assert (replay([Gemm(y[:, :], x[:, :], w[:, :])], arrays, "y") == a @ b).all()
    assert (replay([Gemm(y[:, :], x[:, :], w[:, :], transpose_b=True)], arrays, "y") == a @ b.T).all()
    assert (replay([Launch("add", 3, 3, (x[:, :], w[:, :], y[:, :]))], arrays, "y") == a + b).all()
    assert (replay([Copy(y[:, :], x[:, :])], arrays, "y") == a).all()


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("rows", [1, 2])
def test_products_of_parts_of_buffers(rows, transpose_a, transpose_b, accumulate):
    """Also of single rows and columns, where a matrix-vector product is taken."""
    rng = np.random.default_rng(0)
    x, w, y = Buffer("x", (6, 6), "input"), Buffer("w", (6, 6), "weight"), Buffer("y", (6, 7), "output")
    a, b = rng.standard_normal((2, 6, 6), dtype=np.float32)
    for cols in (1, 3):
        for inner in (1, 4):
            of_a, of_b = (slice(1, 1 + rows), slice(1, 1 + inner)), (slice(1, 1 + inner), slice(2, 2 + cols))
            of_a, of_b = of_a[::-1] if transpose_a else of_a, of_b[::-1] if transpose_b else of_b
            fill = Copy(y[:, 0:6], x[:, :])
            gemm = Gemm(y[2:2 + rows, 3:3 + cols], x[of_a], w[of_b], transpose_a, transpose_b, accumulate)
            result = replay([fill, gemm], {"x": a, "w": b}, "y")
            expected = a.copy()
            expected[2:2 + rows, 3:3 + cols] *= accumulate
            expected[2:2 + rows, 3:3 + cols] += (a[of_a].T if transpose_a else a[of_a]) @ (b[of_b].T if transpose_b else b[of_b])
            assert result[:, :6] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_a_chain_across_workers_is_kept():
    """Each operation waits for one of another worker, and overwrites what a third has read."""
    x, y = square("x", "input"), square("y", "output")
    pads = [square(f"p{n}") for n in range(3)]
    operations = [Launch("add", 3, 3, (x[:, :], x[:, :], pads[0][:, :]), 0)]
    for n in range(60):
        operations.append(Launch("add", 3, 3, (pads[n % 3][:, :], x[:, :], pads[(n + 1) % 3][:, :]), (n + 1) % 5))
    operations.append(Copy(y[:, :], pads[0][:, :], 2))
    ones = np.ones((3, 3), np.float32)
    for workers in (1, 2, 3, 5, 2 * core_count() + 3):
        for _ in range(20):
            assert (replay(operations, {"x": ones}, "y", workers=workers) == 62).all()


def test_workers_times_blas_threads_never_exceed_the_cores():
    for stage in rnnopt.LADDER:
        executable = HostExecutable(rnnopt.schedule(sized(layers=4), stage))
        assert executable.workers * executable.blas_threads <= core_count()
        assert executable.workers <= executable.plan.streams
        assert HostExecutable(executable.plan, workers=100).workers == executable.plan.streams


def test_all_cores_are_used_where_operations_are_long():
    spec = rnnopt.NetworkSpec("lstm", layers=4, input_size=512, hidden_size=512, batch=64, steps=8)
    many = HostExecutable(rnnopt.schedule(spec, "wavefront"))  # eight streams
    assert many.workers == min(core_count(), 8)
    one = HostExecutable(rnnopt.schedule(spec, {"combined_gemms", "fused_pointwise"}))  # one stream
    assert (one.workers, one.blas_threads) == (1, core_count())


@pytest.mark.parametrize("stage", ["naive", "wavefront"])
def test_blas_uses_the_threads_it_is_given_and_afterwards_what_it_used_before(monkeypatch, stage):
    if not blas.libraries():
        pytest.skip("the threads of this BLAS can't be set")
    p = problem(sized())
    executable = HostExecutable(rnnopt.schedule(p.spec, stage))
    meanwhile, right = [], executable._program.run
    monkeypatch.setattr(executable._program, "run", lambda bases: (meanwhile.extend(now()), right(bases)))
    for before in (1, 2, 3):
        with fixed(before):
            run(executable, p)
            assert set(now()) == {before}
    assert set(meanwhile) == {executable.blas_threads}


def now():
    return [library.num_threads for library in blas.libraries()]


class fixed:  # noqa: N801
    """BLAS threads set by somebody else, outside of the lock that replays share."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        self.before = now()
        for library in blas.libraries():
            blas._set(library, self.count)

    def __exit__(self, *_):
        for library, count in zip(blas.libraries(), self.before, strict=True):
            blas._set(library, count)


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, MemoryError])
def test_a_failing_replay_restores_blas_and_the_next_one_is_right(monkeypatch, failure):
    p = problem(sized(hidden_size=33))
    executable = HostExecutable(rnnopt.schedule(p.spec, "wavefront"))
    expected, before = run(executable, p), now()

    def fail(bases):
        raise failure
    with monkeypatch.context() as context:
        context.setattr(executable._program, "run", fail)
        with pytest.raises(failure):
            run(executable, p)
    assert now() == before
    assert identical(run(executable, p), expected)


def test_an_interrupt_at_any_moment_leaves_a_network_that_works():
    """Ctrl-C, 60 times, at moments spread over a call."""
    p = problem(sized(layers=3, hidden_size=64, batch=16, steps=12))
    network = rnnopt.compile(p.spec, p.weights, device=host())
    expected = flat(network(p.inputs, p.state))

    def interrupt(*_):
        raise KeyboardInterrupt
    before, interrupted = signal.signal(signal.SIGALRM, interrupt), 0
    try:
        for n in range(60):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 * (1 + n))
                for _ in range(50):
                    network(p.inputs, p.state)
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert identical(flat(network(p.inputs, p.state)), expected)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 30


def test_arrays_start_on_a_cache_line():
    for shape in [(1,), (3, 5), (17, 1, 2), (100, 100)]:
        array = executable.aligned_empty(shape)
        assert array.shape == shape
        assert array.dtype == np.float32
        assert array.flags.c_contiguous
        assert array.ctypes.data % 64 == 0


def test_a_replay_tells_seconds_and_may_be_repeated_without_taking_results():
    p = problem(sized())
    network = rnnopt.compile(p.spec, p.weights, device=host())
    expected = flat(network(p.inputs, p.state))
    seconds = [network.executable.replay() for _ in range(3)]
    assert all(0 < second < 60 for second in seconds)
    assert identical([network.executable.result(name) for name in ("outputs", "final_h", "final_c")], expected)


def test_sources_of_the_executor_are_part_of_the_package():
    assert {"executor.cpp", "host.h", "host_math.h"} <= {path.name for path in Path(program.FOLDER).iterdir()}


def test_threads_of_openblas_do_not_spin_longer_than_a_replay():
    """Unless somebody has chosen how long, or has loaded SciPy's library before."""
    script = ("import os; from rnnopt.devices.host import blas; blas.address('sgemm'); "
              "print(os.environ['OPENBLAS_THREAD_TIMEOUT'])")
    clean = {name: value for name, value in os.environ.items() if name != "OPENBLAS_THREAD_TIMEOUT"}
    for chosen, expected in ((None, blas.SPIN), ("24", "24")):
        environment = clean | ({"OPENBLAS_THREAD_TIMEOUT": chosen} if chosen else {})
        answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
        assert answer.stdout.strip() == expected
