"""Each optimisation changes of the backward pass what it says, and only that."""

from collections import Counter

import pytest
from helpers import TRAINING_SUBSETS, label, sized

import rnnopt
from rnnopt.operations import Gemm, Launch

SPEC = sized(layers=3, steps=6)


def plan(switches, group=2, spec=SPEC):
    return rnnopt.schedule_backward(spec, switches, group)


def gemms(plan, buffer=""):
    return [operation for operation in plan.operations if isinstance(operation, Gemm) and operation.out.buffer.name.startswith(buffer)]


def kernels(plan):
    return Counter(operation.kernel for operation in plan.operations if isinstance(operation, Launch))


def with_and_without(switch):
    return [(plan(rest), plan(rest | {switch})) for rest in TRAINING_SUBSETS if switch not in rest]


def flops(plan):
    return sum(gemm.flops for gemm in gemms(plan))


def test_the_ladder_of_training_has_a_rung_for_the_weights_gradients():
    assert [rung for rung in rnnopt.TRAINING_LADDER if rung not in rnnopt.LADDER] == ["batched_weight_gradients"]
    assert [len(switches) for switches in rnnopt.TRAINING_LADDER.values()] == list(range(8))


def test_a_rung_of_training_is_refused_elsewhere_and_told_why():
    with pytest.raises(ValueError, match="'batched_weight_gradients'.*it changes the backward pass alone: give training=True"):
        rnnopt.schedule(SPEC, "batched_weight_gradients")
    with pytest.raises(ValueError, match="give training=True"):
        rnnopt.schedule(SPEC, {"batched_weight_gradients"})


def test_twice_the_flops_of_the_forward_pass_in_every_subset():
    for switches in TRAINING_SUBSETS:
        forward = rnnopt.schedule(SPEC, switches, training=True)
        assert flops(plan(switches)) == 2 * flops(forward)


def test_the_naive_backward_pass_has_a_gemm_for_each_gate_and_operand():
    naive = plan("naive")
    assert len(gemms(naive)) == 16 * naive.cells
    assert len(gemms(naive, "d_weight")) == 8 * naive.cells
    assert {gemm.stream for gemm in naive.operations} == {0}


def test_combined_gemms_are_a_quarter_as_many():
    for before, after in with_and_without("combined_gemms"):
        assert len(gemms(before)) == 4 * len(gemms(after))
        assert flops(before) == flops(after)
        assert kernels(before) == kernels(after)


def test_fused_pointwise_is_one_launch_per_cell():
    for before, after in with_and_without("fused_pointwise"):
        assert kernels(after)["lstm_backward"] == after.cells
        others = {"lstm_backward", "column_sum", "column_sum_add"}
        assert set(kernels(after)) <= others
        assert sum(kernels(before)[name] for name in set(kernels(before)) - others) == 14 * before.cells
        assert list(map(str, gemms(before))) == list(map(str, gemms(after)))


def test_pretransposed_weights_change_nothing_since_the_backward_pass_multiplies_by_them_as_they_are():
    for before, after in with_and_without("pretransposed_weights"):
        assert before.fingerprint == after.fingerprint
        assert not any(gemm.transpose_b for gemm in gemms(before))


@pytest.mark.parametrize("group", [1, 2, 3, 4, 6])
def test_batched_inputs_make_their_gradients_for_several_steps_at_once(group):
    of_inputs = gemms(plan({"batched_inputs", "combined_gemms"}, group), "d_inputs")
    assert [gemm.shape[0] for gemm in of_inputs] == ([3 * (6 % group)] if 6 % group else []) + [3 * group] * (6 // group)


def test_batched_weight_gradients_are_one_gemm_over_all_steps():
    for before, after in with_and_without("batched_weight_gradients"):
        per_gemm = len(gemms(before, "d_weight")) // (2 * before.cells)
        assert per_gemm in (1, 4)
        # The steps after the first, and the first, whose hidden state is the initial one.
        assert len(gemms(after, "d_weight_hh")) == 2 * per_gemm * SPEC.layers
        assert len(gemms(after, "d_weight_ih")) == per_gemm * SPEC.layers
        assert flops(before) == flops(after)
        assert kernels(after)["column_sum"] == SPEC.layers
        assert kernels(after)["column_sum_add"] == 0


def test_streamed_gemms_put_all_but_the_recurrence_aside():
    for before, after in with_and_without("streamed_gemms"):
        assert after.streams == 4 * before.streams
        assert list(map(str, before.operations)) == list(map(str, after.operations))


def test_wavefront_is_the_same_work_in_another_order_on_streams_per_layer():
    for before, after in with_and_without("wavefront"):
        assert sorted(map(str, before.operations)) == sorted(map(str, after.operations))
        assert after.streams == SPEC.layers * before.streams


def test_the_backward_wavefront_begins_with_the_last_steps_of_the_top_layer():
    walk = [(int(name[-1]), view.box[0][0]) for operation in plan("wavefront").operations if isinstance(operation, Launch)
            for view in operation.writes if (name := view.buffer.name).startswith("recurrent_products")]
    assert walk == [(2, 5), (2, 4), (2, 3), (2, 2), (1, 5), (1, 4), (2, 1), (2, 0), (1, 3), (1, 2), (0, 5), (0, 4),
                    (1, 1), (1, 0), (0, 3), (0, 2), (0, 1), (0, 0)]


@pytest.mark.parametrize("switches", TRAINING_SUBSETS[::9], ids=label)
def test_both_plans_name_what_they_share_alike(switches):
    """Whatever their stages: the backward pass of any follows the forward pass of any."""
    forward = rnnopt.schedule(SPEC, "naive", training=True)
    saved = {name: buffer.shape for name, buffer in plan(switches).buffers.items() if buffer.role == "saved"}
    assert saved
    assert all(forward.buffers[name].shape == shape for name, shape in saved.items())


def test_packed_sequences_cost_what_they_hold():
    short = sized(layers=3, steps=6, lengths=(6, 3, 1))
    for switches in TRAINING_SUBSETS[::9]:
        assert 18 * flops(plan(switches, spec=short)) == 10 * flops(plan(switches))
        assert 18 * flops(rnnopt.schedule(short, switches - {"batched_weight_gradients"})) == 10 * flops(
            rnnopt.schedule(SPEC, switches - {"batched_weight_gradients"}))
