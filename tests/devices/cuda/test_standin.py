"""The stand-in driver is strict: each fault that is planted here is caught, and told with the operations and the bytes.

A fault ends the context, as on a GPU, so each is made in a process of its own; those that are refused before anything
runs share one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from textwrap import dedent

import helpers
import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif("helpers.ON != 'standin'", reason="is about the stand-in driver: pytest --on standin"),
]
assert helpers  # used by the condition above

START = """
import numpy as np
from rnnopt.devices.cuda import context, standin
assert standin.load_driver()
cuda = context.driver()
primary = context.of(context.gpu())

def arrays(*shapes):
    return [cuda.mem_alloc(4 * int(np.prod(shape))) for shape in shapes]

def sigmoid(stream, y, x, rows=4, cols=8):
    kernel = primary.function("elementwise.cu", "sigmoid").prepare("iiPiPi")
    kernel.prepared_async_call((1, rows), (32, 1, 1), stream, rows, cols, int(x), cols, int(y), cols)
"""


def outcome(script: str, **environment) -> str:
    """What a process says that runs `script` after :data:`START`, with the context current: "no fault", or how it ended."""
    body = START + "with primary.current():\n" + "\n".join("    " + line for line in dedent(script).strip().splitlines())
    body += "\n    print('no fault')"
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, timeout=120,
                          env=os.environ | {"RNNOPT_CUDA_DRIVER": "standin"} | environment)
    return (done.stdout + done.stderr).strip()


def test_what_is_right_has_no_fault():
    assert outcome("""
        x, y = arrays((4, 8), (4, 8))
        stream = cuda.Stream(1)
        cuda.memcpy_htod_async(x, np.ones((4, 8), np.float32), stream)
        sigmoid(stream, y, x)
        out = np.empty((4, 8), np.float32)
        cuda.memcpy_dtoh_async(out, y, stream)
        stream.synchronize()
        assert np.allclose(out, 1 / (1 + np.exp(-1)))
    """) == "no fault"


def test_memory_is_not_a_number_before_it_is_written():
    assert outcome("""
        (x,) = arrays((4, 8))
        out = np.zeros((4, 8), np.float32)
        cuda.memcpy_dtoh(out, x)
        assert np.isnan(out).all()
    """) == "no fault"


@pytest.mark.parametrize(("fault", "message"), [
    ("x.free(); sigmoid(stream, y, x_address)", "kernel sigmoid reads memory that was freed"),
    ("sigmoid(stream, y, x, cols=9)", "kernel sigmoid reads 16 bytes beyond the end of an allocation of 128"),
    ("sigmoid(stream, y, x, rows=3000)", "reads"),
    ("cuda.memcpy_htod_async(x, np.ones(33, np.float32), stream)", "a copy to the device writes to 4 bytes beyond the end"),
    ("cuda.memset_d32(x, 0, 40)", "a memset writes to 32 bytes beyond the end"),
], ids=["freed", "beyond", "far beyond", "copy", "memset"])
def test_memory_that_is_not_there_is_an_illegal_address(fault, message):
    said = outcome(f"""
        x, y = arrays((4, 8), (4, 8))
        x_address = int(x)
        stream = cuda.Stream(1)
        cuda.memset_d32(x, 0, 32)
        {fault}
        stream.synchronize()
    """)
    assert "ILLEGAL_ADDRESS" in said
    assert message in said


def test_after_a_fault_nothing_goes_on():
    said = outcome("""
        x, y = arrays((4, 8), (4, 8))
        stream = cuda.Stream(1)
        sigmoid(stream, y, x, cols=9)
        try:
            stream.synchronize()
        except cuda.Error:
            pass
        cuda.mem_alloc(4)
    """)
    assert "ILLEGAL_ADDRESS" in said


RACE = """
    x, y, z = arrays((4, 8), (4, 8), (4, 8))
    cuda.memset_d32(x, 0, 32)
    one, two = cuda.Stream(1), cuda.Stream(1)
    done = cuda.Event(cuda.event_flags.DISABLE_TIMING)
    sigmoid(one, y, x)
    done.record(one)
    {wait}
    {second}
    one.synchronize(); two.synchronize()
"""


@pytest.mark.parametrize("second", ["sigmoid(two, z, y)", "sigmoid(two, y, x)", "sigmoid(two, x, z)"],
                         ids=["read after write", "write after write", "write after read"])
@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_streams_that_touch_one_place_need_an_event_between(second, seed):
    cuda_memset = "cuda.memset_d32(z, 0, 32)\n    "
    with_event = RACE.format(wait=cuda_memset + "two.wait_for_event(done)", second=second)
    without = RACE.format(wait=cuda_memset, second=second)
    assert outcome(with_event, RNNOPT_STANDIN_SEED=seed) == "no fault"
    said = outcome(without, RNNOPT_STANDIN_SEED=seed)
    assert "LAUNCH_FAILED" in said
    assert "nothing orders the two" in said
    assert said.count("kernel sigmoid on stream") == 2


def test_reading_the_same_on_two_streams_is_no_race():
    assert outcome(RACE.format(wait="", second="sigmoid(two, z, x)")) == "no fault"


def test_an_event_recorded_too_early_orders_nothing():
    said = outcome(RACE.format(wait="", second="sigmoid(one, z, x); two.wait_for_event(done); sigmoid(two, z, y)"))
    assert "nothing orders the two" in said


def test_product_takes_part_in_the_order():
    said = outcome("""
        from rnnopt.devices.cuda import cublas
        from rnnopt.operations import Buffer, Gemm
        a, b, c = Buffer("a", (4, 8), "input"), Buffer("b", (8, 4), "input"), Buffer("c", (4, 4), "output")
        x, y, z, w = arrays((4, 8), (8, 4), (4, 4), (4, 4))
        one, two = primary.lanes(2)
        cuda.memset_d32(x, 0, 32); cuda.memset_d32(y, 0, 32)
        cublas.gemm(one.cublas, Gemm(c[:, :], a[:, :], b[:, :]), int(z), int(x), int(y))()
        sigmoid(two.stream, w, z, cols=4)
        two.stream.synchronize(); one.stream.synchronize()
    """)
    assert "nothing orders the two" in said
    assert "a GEMM on stream" in said


def test_calls_that_are_refused_say_why_and_harm_nothing():
    """Each of these is caught when it is made; afterwards all is as before."""
    script = START + dedent("""
        import json
        told = {}

        def attempt(name, call):
            try:
                call()
                told[name] = "no fault"
            except Exception as error:
                told[name] = f"{type(error).__name__}: {error}"

        attempt("no context", lambda: cuda.mem_alloc(4))
        with primary.current():
            x, y = arrays((4, 8), (4, 8))
            kernel = primary.function("elementwise.cu", "sigmoid")
            stream = cuda.Stream(1)
            few, many = (4, 8, int(x), 8), (4, 8, int(x), 8, int(y), 8, 0)
            for name, form, values in [("too few bytes", "iiPi", few), ("too many bytes", "iiPiPii", many)]:
                attempt(name, lambda: kernel.prepare(form).prepared_async_call((1, 4), (32, 1, 1), stream, *values))
            attempt("a host's address", lambda: kernel.prepare("iiPiPi").prepared_async_call(
                (1, 4), (32, 1, 1), stream, 4, 8, np.ones(32, np.float32).ctypes.data, 8, int(y), 8))
            attempt("too large a block", lambda: kernel.prepare("iiPiPi").prepared_async_call(
                (1, 4), (2048, 1, 1), stream, 4, 8, int(x), 8, int(y), 8))
            attempt("no such kernel", lambda: primary.function("elementwise.cu", "sigmoyd"))
            attempt("an event without a time", lambda: cuda.Event().time_till(cuda.Event()))
            attempt("too much memory", lambda: cuda.mem_alloc(2**33))
            attempt("no module", lambda: cuda.module_from_buffer(b"x" * 4096))
            theirs = context.gpu().make_context()
            attempt("another context's stream", lambda: stream.synchronize())
            theirs.pop()
            x.free()
            attempt("freed twice", lambda: __import__("ctypes").CDLL("libcuda.so.1").cuMemFree_v2(1) and 1 / 0)
            stream.synchronize()
        print(json.dumps(told))
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120,
                          env=os.environ | {"RNNOPT_CUDA_DRIVER": "standin"})
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    expected = {
        "no context": "INVALID_CONTEXT: no context is current", "too few bytes": "has 20 bytes of arguments, and its signature 36",
        "too many bytes": "has 40 bytes of arguments", "a host's address": "an argument of sigmoid is no address of device memory",
        "too large a block": "grid or block", "no such kernel": "no kernel sigmoyd", "an event without a time": "have no time",
        "too much memory": "MemoryError", "no module": "INVALID_IMAGE", "another context's stream": "context that is not current",
        "freed twice": "ZeroDivisionError"}
    assert {name: text for name, text in expected.items() if text not in told[name]} == {}, told


CAPTURE = """
    from rnnopt.devices.cuda.graph import Graph, GraphError
    x, y, z = arrays((4, 8), (4, 8), (4, 8))
    one, two = cuda.Stream(1), cuda.Stream(1)
    cuda.memset_d32(x, 0, 32)
    cuda.Context.synchronize()
    fork, join = (cuda.Event(cuda.event_flags.DISABLE_TIMING) for _ in range(2))
    calls = [lambda: sigmoid(one, y, x), lambda: fork.record(one), lambda: two.wait_for_event(fork), lambda: sigmoid(two, z, {read})]
    try:
        graph = Graph(one, calls + [{last}])
    except (GraphError, cuda.Error) as error:
        raise SystemExit(f"refused: {{error}}")
    for _ in range(3):
        graph.launch(one)
    one.synchronize()
    graph.free()
"""


@pytest.mark.parametrize(("read", "last", "said"), [
    ("y", "lambda: join.record(two), lambda: one.wait_for_event(join)", "no fault"),
    ("y", "lambda: join.record(two)", "refused: cuStreamEndCapture failed: stream capture unjoined"),
    ("y", "lambda: one.synchronize()", "STREAM_CAPTURE_UNSUPPORTED"),
    ("y", "lambda: cuda.mem_alloc(4)", "STREAM_CAPTURE_IMPLICIT"),
    ("y", "lambda: cuda.memcpy_htod(x, np.ones(8, np.float32))", "STREAM_CAPTURE_IMPLICIT"),
], ids=["joined", "unjoined", "synchronise", "allocate", "default stream"])
def test_capture_forbids_what_a_gpu_forbids(read, last, said):
    assert said in outcome(CAPTURE.format(read=read, last=last))


def test_race_inside_of_a_graph_is_found_at_its_launch():
    script = CAPTURE.format(read="y", last="lambda: join.record(two), lambda: one.wait_for_event(join)")
    ordered, racing = ", ".join(calls := ["lambda: sigmoid(one, y, x)", "lambda: fork.record(one)"]), ", ".join(reversed(calls))
    assert ordered in script
    script = script.replace(ordered, racing)
    assert "nothing orders the two" in outcome(script)


def test_graph_does_not_run_beside_what_reads_its_results():
    script = CAPTURE.format(read="y", last="lambda: join.record(two), lambda: one.wait_for_event(join)")
    beside = "    sigmoid(two, x, z)\n    two.synchronize(); one.synchronize()"
    said = outcome(script.replace("    one.synchronize()\n    graph.free()", beside))
    assert "nothing orders the two" in said


DROPPED = """
    import sys
    sys.path.insert(0, {tests!r})
    from helpers import problem, random_order, scattered, sized
    from rnnopt.devices.cuda import wiring
    from rnnopt.devices.cuda.executable import CudaExecutable
    from rnnopt.schedule import schedule

    first, last, caught = {first}, {last}, []
    right = wiring.waits
    for seed in range(first, last):
        p = problem(sized(2, 5, 7, 3, 4), seed)
        plan = scattered(schedule(p.spec, ["wavefront", "naive", "batched_inputs", "fused_pointwise"][seed % 4]), 3, seed)
        order = random_order(plan, seed)
        edges = [(number, producer) for number, waits in right(plan, order) for producer in waits]
        drop = edges[np.random.default_rng(seed).integers(len(edges))]
        wiring.waits = lambda plan, order: [(number, tuple(producer for producer in waits if (number, producer) != drop))
                                            for number, waits in right(plan, order)]
        caught.append(drop)
        executable = CudaExecutable(plan, primary, order, replay={replay!r})
        executable.load({{**p.weights, "inputs": p.inputs, "initial_h": p.state[0], "initial_c": p.state[1]}})
        executable.replay()
        executable.replay()
        raise SystemExit(f"not caught: {{drop}} of seed {{seed}}")
"""


@pytest.mark.parametrize("replay", ["streams", "graph"])
@pytest.mark.parametrize("seed", range(50))
def test_plan_without_one_of_its_dependencies_is_caught(seed, replay):
    """An edge that the wiring waits for is one that nothing else implies; dropped, whichever it is, it is found."""
    tests = os.path.dirname(helpers.__file__)
    first = 2 * seed + (replay == "graph")
    said = outcome(DROPPED.format(tests=tests, first=first, last=first + 1, replay=replay))
    assert "nothing orders the two" in said


def test_the_whole_plan_has_no_race_on_any_streams_and_orders():
    tests = os.path.dirname(helpers.__file__)
    script = DROPPED.format(tests=tests, first=0, last=20, replay="graph")
    script = script.replace("if (number, producer) != drop", "if True")
    script = script.replace('raise SystemExit(f"not caught: {drop} of seed {seed}")', "executable.close()")
    assert outcome(script) == "no fault"


def test_auto_takes_the_host_and_the_stand_in_says_what_it_is():
    said = outcome("""
        from rnnopt import devices
        assert devices.resolve("auto").name == "host"
        assert "stand-in driver on CPU" in devices.status_line(devices.resolve("cuda"))
        raise SystemExit(devices.resolve("auto").reason)
    """)
    assert "no GPU: the stand-in driver is there for who asks" in said


def test_fork_after_cuda_was_used_is_refused_in_a_sentence():
    said = outcome("""
        import os
        child = os.fork()
        if not child:
            try:
                context.driver()
            except Exception as error:
                os._exit(7 if "CUDA does not survive a fork" in str(error) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    """)
    assert said == "no fault"


NETWORK = """
    import sys
    import rnnopt
    sys.path.insert(0, {tests!r})
    from helpers import error, flat, problem, sized
    p = problem(sized(2, 5, 7, 3, 4))
    network = rnnopt.compile(p.spec, p.weights, device="cuda")

    def run():
        assert error(flat(network(p.inputs, p.state)), p.solution()) < 1e-5

    run()
"""


def network(then="") -> str:
    return dedent(NETWORK).format(tests=os.path.dirname(helpers.__file__)) + dedent(then)


def test_exception_in_a_cell_leaves_the_next_cell_a_network_that_works():
    then = """
        current = cuda.Context.get_current()
        replay, network.executable.replay = network.executable.replay, lambda: 1 / 0
        try:
            network(p.inputs, p.state)
        except ZeroDivisionError:
            assert cuda.Context.get_current() == current
        network.executable.replay = replay
        run()
        try:
            network(p.inputs[:, :, :-1], p.state)
        except ValueError:
            run()
    """
    assert outcome(network(then)) == "no fault"


def test_two_notebooks_at_once_and_a_killed_kernel_disturb_nobody():
    """Each kernel of JupyterLab is a process; here one is killed while it computes, and one that goes on is right, as is a new one."""
    busy = START + "with primary.current():\n" + "\n".join(
        "    " + line for line in network("print('ready', flush=True)\nwhile True: run()").splitlines())
    kernel = subprocess.Popen([sys.executable, "-c", busy], stdout=subprocess.PIPE, text=True,
                              env=os.environ | {"RNNOPT_CUDA_DRIVER": "standin"})
    try:
        assert kernel.stdout.readline() == "ready\n"
        assert outcome(network()) == "no fault"
        assert kernel.poll() is None
    finally:
        kernel.kill()
        kernel.communicate()
    assert outcome(network("run()")) == "no fault"
