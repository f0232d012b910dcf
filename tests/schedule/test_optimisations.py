"""Each optimisation changes what it says, and only that."""

from collections import Counter

import pytest
from helpers import SUBSETS, label, sized
from hypothesis import given
from hypothesis import strategies as st

import rnnopt
from rnnopt.operations import Gemm, Launch
from rnnopt.schedule import naive, wavefront

SPEC = sized(layers=3, steps=6)


def gemms(plan):
    return [operation for operation in plan.operations if isinstance(operation, Gemm)]


def kernels(plan):
    return Counter(operation.kernel for operation in plan.operations if isinstance(operation, Launch))


def with_and_without(switch):
    """For every subset of the others: the plan without the switch, the plan with it."""
    return [(rnnopt.schedule(SPEC, rest), rnnopt.schedule(SPEC, rest | {switch})) for rest in SUBSETS if switch not in rest]


def test_combined_gemms_are_a_quarter_as_many_and_four_times_as_wide():
    for before, after in with_and_without("combined_gemms"):
        assert len(gemms(before)) == 4 * len(gemms(after))
        assert {gemm.shape[1] for gemm in gemms(before)} == {7}
        assert {gemm.shape[1] for gemm in gemms(after)} == {28}
        assert sum(gemm.flops for gemm in gemms(before)) == sum(gemm.flops for gemm in gemms(after))
        assert kernels(before) == kernels(after)


def test_streamed_gemms_move_operations_to_other_streams_and_change_nothing_else():
    for before, after in with_and_without("streamed_gemms"):
        assert after.streams == 2 * before.streams
        assert list(map(str, before.operations)) == list(map(str, after.operations))
        assert before.dependencies == after.dependencies


def test_streamed_gemms_put_input_products_beside_the_recurrence():
    plan = rnnopt.schedule(SPEC, {"streamed_gemms", "combined_gemms"})
    of_inputs = {op.stream for op in gemms(plan) if op.out.buffer.name.startswith("input_products")}
    of_recurrence = {op.stream for op in plan.operations if not (isinstance(op, Gemm) and op.stream in of_inputs)}
    assert len(of_inputs) == len(of_recurrence) == 1
    assert of_inputs != of_recurrence


def test_fused_pointwise_is_one_launch_for_twenty_one():
    for before, after in with_and_without("fused_pointwise"):
        turned = kernels(before)["transpose"]
        assert before.launches - turned == 21 * (after.launches - turned) == 21 * before.cells
        assert kernels(after)["lstm_forward"] == after.cells
        assert list(map(str, gemms(before))) == list(map(str, gemms(after)))


def test_pretransposed_weights_are_turned_once_and_no_gemm_transposes():
    for before, after in with_and_without("pretransposed_weights"):
        assert all(gemm.transpose_b for gemm in gemms(before))
        assert not any(gemm.transpose_b for gemm in gemms(after))
        assert kernels(after) - kernels(before) == Counter(transpose=2 * SPEC.layers)
        assert [gemm.shape for gemm in gemms(before)] == [gemm.shape for gemm in gemms(after)]


@pytest.mark.parametrize("group", [1, 2, 3, 4, 5, 6, 9])
def test_batched_inputs_are_one_gemm_per_group_of_steps(group):
    plan = rnnopt.schedule(SPEC, {"batched_inputs", "combined_gemms"}, group)
    rows = [gemm.shape[0] for gemm in gemms(plan) if gemm.out.buffer.name == "input_products_l1"]
    step, last = min(group, 6), 6 % min(group, 6)
    assert rows == [3 * step] * (6 // step) + ([3 * last] if last else [])
    assert sum(gemm.flops for gemm in gemms(plan)) == sum(gemm.flops for gemm in gemms(rnnopt.schedule(SPEC, ())))


def test_wavefront_is_the_same_work_in_another_order_on_streams_per_layer():
    for before, after in with_and_without("wavefront"):
        assert sorted(map(str, before.operations)) == sorted(map(str, after.operations))
        assert after.streams == SPEC.layers * before.streams


def test_wavefront_runs_cells_of_several_layers_at_once():
    """In time steps of one operation each, where a stream runs its operations one after the other."""
    def width(*switches):
        plan = rnnopt.schedule(SPEC, {"fused_pointwise", "combined_gemms", *switches})
        depth, stream = [], {}
        for operation, waits in zip(plan.operations, plan.dependencies, strict=True):
            depth.append(max([*(depth[n] for n in waits), stream.get(operation.stream, 0)]) + 1)
            stream[operation.stream] = depth[-1]
        return max(Counter(d for d, op in zip(depth, plan.operations, strict=True)
                           if getattr(op, "kernel", "") == "lstm_forward").values())
    assert width("wavefront") == SPEC.layers
    assert width() == 1


grids = given(layers=st.integers(1, 7), groups=st.integers(1, 9))


@pytest.mark.parametrize("rule", [naive.order, wavefront.order], ids=["naive", "wavefront"])
@grids
def test_an_order_covers_every_task_once_and_after_what_it_needs(rule, layers, groups):
    order = list(rule(layers, groups))
    assert sorted(order) == [(layer, group) for layer in range(layers) for group in range(groups)]
    place = {task: at for at, task in enumerate(order)}
    for layer, group in order:
        for needed in ((layer - 1, group), (layer, group - 1)):
            assert place.get(needed, -1) < place[layer, group]


@grids
def test_the_wavefront_goes_by_anti_diagonals(layers, groups):
    diagonals = [layer + group for layer, group in wavefront.order(layers, groups)]
    assert diagonals == sorted(diagonals)


def test_the_wavefront_of_three_layers():
    assert list(wavefront.order(3, 3)) == [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (2, 0), (1, 2), (2, 1), (2, 2)]


@pytest.mark.parametrize("switches", SUBSETS, ids=label)
def test_scratch_does_not_grow_with_the_steps_but_for_the_hidden_states(switches):
    """Of the cell states two steps are kept, of the input products two groups."""
    short, long = (rnnopt.schedule(sized(layers=3, steps=steps), switches) for steps in (8, 80))
    grown = {name for name in short.buffers if short.buffers[name] != long.buffers[name]}
    assert grown == {"inputs", "h_l0", "h_l1", "outputs"}
