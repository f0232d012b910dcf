"""Memory and cores that a network takes, each measured in a process of its own."""

import json
import subprocess
import sys
from textwrap import dedent

import pytest
from helpers import host

import rnnopt
from rnnopt.weights import weight_shapes

#: The network of the paper's table.
TABLE1 = rnnopt.NetworkSpec("lstm", layers=4, input_size=512, hidden_size=512, batch=64, steps=100)

PRELUDE = """
    import gc, json, os, resource, sys, threading, time
    import numpy as np
    import rnnopt

    def now():  # bytes resident
        if sys.platform == "linux":
            return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return peak()

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1024 if sys.platform == "linux" else 1)

    def drawn(layers, size, batch, steps):
        spec = rnnopt.NetworkSpec("lstm", layers, size, size, batch, steps)
        return spec, rnnopt.init_weights(spec), np.random.default_rng(0).standard_normal((steps, batch, size), dtype=np.float32)

    spec, weights, inputs = drawn(2, 64, 8, 4)  # so that libraries and kernels are loaded before anything is counted
    rnnopt.compile(spec, weights, device="host")(inputs)
"""


@pytest.fixture(autouse=True)
def _compiler():
    host()


def measured(script):
    answer = subprocess.run([sys.executable, "-c", dedent(PRELUDE) + dedent(script)], capture_output=True, text=True, timeout=250)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def needed(spec, gates):
    """Bytes of weights, inputs and outputs, and of the gates that training would save."""
    weights = sum(shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in weight_shapes(spec).values())
    saved = spec.steps * spec.layers * spec.batch * 4 * spec.hidden_size if gates else 0
    return 4 * (weights + spec.steps * spec.batch * (spec.input_size + spec.hidden_size) + saved)


@pytest.mark.parametrize("stage", rnnopt.LADDER)
def test_memory_planned_at_the_papers_size(stage):
    plan = rnnopt.schedule(TABLE1, stage, host().input_group(TABLE1))
    assert plan.memory() <= 1.5 * needed(TABLE1, gates=True)


def test_memory_taken_at_the_papers_size():
    """Weights and inputs among it."""
    taken = measured("""
        before = now()
        spec, weights, inputs = drawn(4, 512, 64, 100)
        network = rnnopt.compile(spec, weights, stage="wavefront", device="host")
        results = network(inputs)
        print(json.dumps({"bytes": peak() - before}))
    """)["bytes"]
    assert 0 < taken <= 1.5 * needed(TABLE1, gates=True)


def test_two_hundred_networks_leave_nothing_behind():
    grown = measured("""
        def cycle():
            spec, weights, inputs = drawn(2, 64, 8, 4)
            rnnopt.compile(spec, weights, device="host")(inputs)
        for _ in range(20):
            cycle()
        gc.collect()
        before = now()
        for _ in range(200):
            cycle()
        gc.collect()
        print(json.dumps({"grown": now() - before, "threads": threading.active_count()}))
    """)
    assert grown["threads"] == 1
    assert grown["grown"] < 200 * 20_000  # a cycle has 0.5 MB of arrays


def test_two_hundred_calls_leave_nothing_behind():
    grown = measured("""
        spec, weights, inputs = drawn(2, 128, 8, 16)
        network = rnnopt.compile(spec, weights, device="host")
        for _ in range(20):
            network(inputs)
        before = now()
        for _ in range(200):
            network(inputs)
        print(json.dumps(now() - before))
    """)
    assert grown < 200 * 10_000  # outputs of a call have 64 kB


@pytest.mark.skipif(sys.platform != "linux", reason="counts running threads in /proc")
@pytest.mark.parametrize("stage", ["naive", "wavefront"])
def test_no_more_threads_run_than_there_are_cores(stage):
    """Sampled during replays. The sampling thread itself is left out; BLAS's idle threads sleep before it starts."""
    found = measured(f"""
        from rnnopt.provenance import core_count
        spec, weights, inputs = drawn(2, 256, 64, 20)
        network = rnnopt.compile(spec, weights, stage={stage!r}, device="host")
        network(inputs)
        time.sleep(0.5)
        samples, stop = [], threading.Event()

        def sample():
            me = threading.get_native_id()
            while not stop.wait(0.002):
                running = 0
                for task in os.listdir("/proc/self/task"):
                    try:
                        state = open(f"/proc/self/task/{{task}}/stat").read().rpartition(")")[2].split()[0]
                    except OSError:
                        continue
                    running += state == "R" and int(task) != me
                samples.append(running)

        sampler = threading.Thread(target=sample)
        sampler.start()
        while len(samples) < 30:
            network(inputs)
        stop.set()
        sampler.join()
        print(json.dumps({{"samples": samples, "cores": core_count(), "workers": network.executable.workers}}))
    """)
    assert max(found["samples"]) <= found["cores"]
    assert found["workers"] <= found["cores"]


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space, which macOS does not")
def test_where_the_system_gives_no_thread_it_is_said_and_the_network_still_works_afterwards():
    said = measured("""
        from rnnopt.devices.host.executable import HostExecutable
        spec, weights, inputs = drawn(4, 32, 4, 6)
        network = rnnopt.compile(spec, weights, device="host")
        expected = network(inputs)[0].tobytes()  # on one worker, so that no thread's stack is there to be used again
        network.executable = HostExecutable(network.plan, workers=8, blas_threads=1)
        network.executable.load(weights)
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + 3 * 2**20, hard))  # less than one thread's stack
        said = ""
        try:
            network(inputs)
        except RuntimeError as error:
            said = str(error)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        print(json.dumps([said, network(inputs)[0].tobytes() == expected]))
    """)
    assert said == ["the system gave no thread for a worker; open the host device with workers=1", True]
