"""The cuda device issues what the plan says, in a way that is right however the streams run, and leaves nothing behind."""

import gc
import threading

import numpy as np
import pytest
from fake_cuda import LogicError
from helpers import (
    SUBSETS,
    TOLERANCE,
    error,
    flat,
    gradient_errors,
    identical,
    label,
    problem,
    random_order,
    run,
    scattered,
    sized,
    training,
)

import rnnopt
from rnnopt import cells
from rnnopt.devices import resolve
from rnnopt.devices.cuda import context
from rnnopt.devices.cuda.executable import CudaExecutable
from rnnopt.devices.cuda.memory import OutOfDeviceMemory
from rnnopt.schedule import schedule

SPEC = sized(layers=2, input_size=5, hidden_size=7, batch=3, steps=5)


def executable_of(plan, order=None):
    return CudaExecutable(plan, context.of(context.gpu()), order)


def plan_of(stage="wavefront"):
    return schedule(SPEC, stage)


@pytest.mark.parametrize("switches", SUBSETS, ids=label)
def test_every_subset_agrees_with_the_reference_however_the_streams_run(gpu, switches):
    p = problem(SPEC)
    network = rnnopt.compile(p.spec, p.weights, stage=switches, device="cuda")
    for _ in range(2):
        assert error(flat(network(p.inputs, p.state)), p.solution()) <= TOLERANCE


@pytest.mark.parametrize("spec", [sized(1, 1, 1, 1, 1), sized(3, 33, 40, 2, 3), sized(1, 9, 300, 1, 2)], ids=str)
@pytest.mark.parametrize("stage", ["naive", "wavefront"])
def test_sizes_from_one_to_more_than_a_block_agree_with_the_reference(gpu, spec, stage):
    p = problem(spec)
    network = rnnopt.compile(spec, p.weights, stage=stage, device="cuda")
    assert error(flat(network(p.inputs, p.state)), p.solution()) <= TOLERANCE


def test_same_bits_in_any_legal_order_and_on_any_streams(gpu):
    p = problem(SPEC)
    expected = run(executable_of(plan_of()), p)
    for seed in range(5):
        plan = scattered(plan_of(), 4, seed)
        assert identical(run(executable_of(plan, random_order(plan, seed)), p), expected)


def test_a_replay_is_timed_by_the_gpu_in_seconds(gpu):
    assert executable_of(plan_of()).replay() == 1.5


def test_results_are_arrays_of_their_own(gpu):
    p = problem(SPEC)
    network = rnnopt.compile(SPEC, p.weights, device="cuda")
    first = flat(network(p.inputs, p.state))
    kept = [part.copy() for part in first]
    network(np.flip(p.inputs, axis=0).copy(), p.state)
    assert identical(first, kept)


def test_memory_is_free_after_close_and_the_executable_refuses_to_run(gpu):
    executable = executable_of(plan_of())
    assert gpu.used == executable.plan.memory()
    executable.close()
    executable.close()
    assert gpu.used == 0
    with pytest.raises(RuntimeError, match="closed"):
        executable.replay()


def test_memory_is_free_when_nobody_holds_the_network_even_in_another_thread(gpu):
    p = problem(SPEC)
    held = [rnnopt.compile(SPEC, p.weights, device="cuda")]
    held[0](p.inputs)
    assert gpu.used

    def drop():
        held.clear()
        gc.collect()

    thread = threading.Thread(target=drop)
    thread.start()
    thread.join()
    assert gpu.used == 0


def test_too_little_memory_says_how_much_is_needed_and_free_and_keeps_nothing(gpu):
    plan = plan_of()
    gpu.capacity = plan.memory() - 1
    with pytest.raises(OutOfDeviceMemory, match=rf"needs {plan.memory():,} bytes.*{gpu.capacity:,} of {gpu.capacity:,} are free"):
        executable_of(plan)
    assert gpu.used == 0
    assert gpu.depth == 0


def test_an_error_while_preparing_keeps_no_memory(gpu, monkeypatch):
    def refuse(file, capability):
        raise RuntimeError("refused")

    monkeypatch.setattr("rnnopt.devices.cuda.modules.load", refuse)
    with pytest.raises(RuntimeError, match="refused"):
        executable_of(plan_of())
    assert gpu.used == 0
    assert gpu.depth == 0


def test_after_an_error_in_a_run_the_context_is_not_current_and_the_next_run_is_right(gpu):
    p = problem(SPEC)
    network = rnnopt.compile(SPEC, p.weights, stage="wavefront", device="cuda")
    network(p.inputs)
    gpu.log.clear()
    gpu.fail_at = 4
    with pytest.raises(LogicError, match="launch failure"):
        network(p.inputs, p.state)
    assert gpu.depth == 0
    assert not any(stream.queue for stream in gpu.streams)
    gpu.fail_at = None
    assert error(flat(network(p.inputs, p.state)), p.solution()) <= TOLERANCE


def test_after_an_error_that_ends_the_context_the_process_is_said_to_be_lost(gpu, monkeypatch):
    def fail():
        raise LogicError("cuCtxSynchronize failed: an illegal memory access was encountered")

    executable = executable_of(plan_of())
    monkeypatch.setattr(context.driver().Context, "synchronize", fail)
    gpu.fail_at = 0
    with pytest.raises(LogicError, match="launch failure") as caught:
        executable.replay()
    assert "restart" in caught.value.__notes__[0]
    assert gpu.depth == 0


def test_two_networks_in_several_threads_don_t_disturb_each_other(gpu):
    problems = [problem(SPEC, seed) for seed in range(2)]
    networks = [rnnopt.compile(SPEC, p.weights, device="cuda") for p in problems]
    errors = []

    def work(number):
        p = problems[number % 2]
        errors.extend(error(flat(networks[number % 2](p.inputs, p.state)), p.solution()) for _ in range(3))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 12
    assert max(errors) <= TOLERANCE


def test_streams_and_handles_are_shared_and_each_stream_has_its_own_handle(gpu):
    for _ in range(3):
        executable_of(plan_of())
    assert len(gpu.streams) == len(gpu.handles) == plan_of().streams
    assert {handle["stream"] for handle in gpu.handles.values()} == {stream.handle for stream in gpu.streams}
    assert all(handle["math"] == 0 for handle in gpu.handles.values())  # float32, no TF32
    assert all(stream.flags == 1 for stream in gpu.streams)  # not ordered with the default stream


@pytest.mark.parametrize("wrong", [np.zeros((3, 5), np.float32), np.zeros((5, 3, 5)), np.zeros((5, 5, 3), np.float32).T])
def test_an_array_that_is_not_the_buffer_s_is_refused_before_it_is_copied(gpu, wrong):
    with pytest.raises(ValueError, match=r"inputs must be a C-contiguous float32 array of shape \(5, 3, 5\)"):
        executable_of(plan_of()).load({"inputs": wrong})
    assert gpu.depth == 0


def test_at_exit_handles_go_before_the_context_and_the_context_is_released(gpu):
    network = rnnopt.compile(SPEC, problem(SPEC).weights, device=resolve("cuda"))
    network(problem(SPEC).inputs)
    assert (gpu.retained, len(gpu.at_exit)) == (1, 1)
    gpu.at_exit[0]()
    assert (gpu.retained, gpu.depth, gpu.handles) == (0, 0, {})
    del network
    gc.collect()  # its memory went with the context; nothing is called any more


def test_flushing_the_cache_keeps_no_memory(gpu):
    resolve("cuda").flush_cache()
    assert (gpu.used, gpu.depth) == (0, 0)


@pytest.mark.parametrize("cell", cells.CELLS)
@pytest.mark.parametrize("stage", ["naive", "wavefront"])
def test_gradients_agree_with_the_reference_however_the_streams_run(gpu, cell, stage):
    drawn = training(sized(cell=cell, bidirectional=True, dropout=0.3))
    assert max(gradient_errors(drawn.run("cuda", stage), drawn.solution()).values()) <= TOLERANCE


def test_the_backward_pass_shares_the_memory_of_the_forward_pass_and_ends_with_it(gpu):
    drawn = training(SPEC)
    network = rnnopt.compile(SPEC, drawn.problem.weights, device="cuda", training=True)
    network(drawn.problem.inputs)
    network.backward(drawn.d_outputs)
    both = network.plan.buffers | network.backward_plan.buffers
    assert gpu.used == sum(buffer.nbytes for buffer in both.values())
    network.executable.close()
    with pytest.raises(RuntimeError, match="closed"):
        network.backward_executable.replay()
    network.backward_executable.close()
    assert gpu.used == 0
