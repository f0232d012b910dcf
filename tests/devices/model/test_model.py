"""The model of a card: its descriptions, its simulation, and what it says of published times."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from helpers import problem, sized

import rnnopt
from rnnopt.devices import resolve, status_line
from rnnopt.devices.model import card, costs, simulation, timeline, validation
from rnnopt.operations import Buffer, Copy, Gemm
from rnnopt.plan import Plan
from rnnopt.schedule import LADDER, schedule, schedule_backward

M40 = card.load("m40")


def network(**sizes):
    return rnnopt.NetworkSpec(**{"cell": "lstm", "layers": 2, "input_size": 64, "hidden_size": 64, "batch": 8, "steps": 5, **sizes})


def gemm_plan(rows, cols, inner, count=1, streams=1):
    """`count` independent products, dealt out over streams."""
    buffers, operations = {}, []
    for number in range(count):
        shapes = {"a": (rows, inner), "b": (inner, cols), "out": (rows, cols)}
        a, b, out = (Buffer(f"{name}{number}", shape, "scratch") for name, shape in shapes.items())
        buffers |= {buffer.name: buffer for buffer in (a, b, out)}
        operations.append(Gemm(out[:, :], a[:, :], b[:, :], stream=number % streams))
    return Plan(buffers, tuple(operations), cells=1)


# Cards

@pytest.mark.parametrize("name", card.names())
def test_every_card_has_the_peak_that_its_figures_give_and_says_where_they_are_from(name):
    described = card.load(name)
    assert described.peak == pytest.approx(2 * described.sms * described.lanes * described.clock * 1e9)
    assert described.source.startswith("NVIDIA")
    assert described.tiles_source


@pytest.mark.parametrize(("name", "teraflops"), [("v100", 15.7), ("a100", 19.5), ("h100", 66.9), ("h200", 66.9)])
def test_peaks_are_those_of_the_data_sheets(name, teraflops):
    assert card.load(name).peak / 1e12 == pytest.approx(teraflops, abs=0.05)


def test_unknown_card_names_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'h200'"):
        card.load("h20")


@pytest.mark.parametrize(("change", "message"), [
    (("sms = 24", ""), "says nothing of sms"), (("sms = 24", "sms = 0"), "sms of .* must be an integer above 0, got 0"),
    (("clock = 0.948", "clock = nan"), "clock of .* must be a number above 0"), (("l2 = 3.0", "l2 = 3.0\nl3 = 1"), "unknown entry 'l3'"),
    (("[[128, 64, 1], [64, 64, 1]]", "[]"), "tiles of .* must be a list"), (("name =", "name"), "is no TOML file")])
def test_description_that_is_amiss_says_what(tmp_path, change, message):
    path = tmp_path / "mine.toml"
    path.write_text((card.FOLDER / "m40.toml").read_text(encoding="utf-8").replace(*change), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        card.load(str(path))


def test_card_of_ones_own_is_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text((card.FOLDER / "m40.toml").read_text(encoding="utf-8").replace("sms = 24", "sms = 48"), encoding="utf-8")
    assert resolve(f"model:{path}").card == replace(M40, sms=48)


# Costs

def test_product_that_no_load_delays_takes_its_arithmetic():
    free = replace(costs.CONSTANTS, load=0, prologue=0, saturated=1)
    (work,) = costs.works(gemm_plan(64, 128, 100), replace(M40, bandwidth=1e9), free)
    assert (work.blocks, work.bound) == (2, "arithmetic")  # no tile fills a quarter of the SMs: the smallest, 64 × 64, it is
    assert work.seconds == pytest.approx(100 * 64 * 64 / M40.lanes / (1e9 * M40.clock))


def test_tile_is_the_largest_that_gives_enough_sms_a_block():
    assert costs.grid(64, 2048, 512, M40).tile == (128, 64)  # 16 blocks on 24 SMs: the paper's combined GEMM
    assert costs.grid(64, 512, 512, M40).tile == (64, 64)    # 4 blocks would leave 20 SMs idle


def test_deep_product_is_split_and_a_flat_one_is_not():
    assert costs.grid(64, 512, 2048, M40).parts == 4
    assert costs.grid(64, 2048, 512, M40).parts == 1
    assert costs.grid(4096, 4096, 16384, M40).parts == 1  # its tiles fill the card


def test_what_was_touched_just_now_is_in_l2():
    a, b = Buffer("a", (64, 64), "input"), Buffer("b", (64, 64), "output")
    plan = Plan({"a": a, "b": b}, (Copy(b[:, :], a[:, :]), Copy(b[:, :], a[:, :])), cells=1)
    first, second = costs.works(plan, M40)
    assert second.bytes == pytest.approx(first.bytes / costs.CONSTANTS.l2)
    small = replace(M40, l2=1e-3)
    assert [work.bytes for work in costs.works(plan, small)] == [first.bytes] * 2


# Simulation

@pytest.mark.parametrize("stage", LADDER)
@pytest.mark.parametrize("replay", simulation.REPLAYS)
def test_nothing_starts_before_what_it_depends_on_has_ended(stage, replay):
    plan = schedule(network(), stage)
    line = simulation.simulate(plan, M40, replay)
    assert (line.end >= line.start).all()
    assert (line.start > 0).all()
    for number, waits in enumerate(plan.dependencies):
        assert all(line.start[number] >= line.end[earlier] + line.latency * 0.999 for earlier in waits)


@pytest.mark.parametrize("stage", ["naive", "streamed_gemms", "wavefront"])
def test_operations_of_a_stream_follow_one_another(stage):
    plan = schedule(network(), stage)
    line = simulation.simulate(plan, M40)
    for stream in range(plan.streams):
        numbers = [number for number, operation in enumerate(plan.operations) if operation.stream == stream]
        assert all(line.end[earlier] <= line.start[later] for earlier, later in pairwise(numbers))


def test_simulation_repeats_itself():
    plan = schedule(network(), "wavefront")
    one, two = simulation.simulate(plan, M40), simulation.simulate(plan, M40)
    assert one.start.tobytes() == two.start.tobytes()
    assert one.busy == two.busy


def test_two_products_that_leave_sms_idle_overlap_and_two_that_fill_them_share():
    small, large = [gemm_plan(64, 512, 512), gemm_plan(64, 512, 512, 2, 2)], [gemm_plan(512, 4096, 512), gemm_plan(512, 4096, 512, 2, 2)]
    alone, both = (simulation.simulate(plan, M40).seconds for plan in small)
    assert both < 1.1 * alone
    alone, both = (simulation.simulate(plan, M40).seconds for plan in large)
    assert both > 1.8 * alone


def test_on_one_stream_even_independent_products_take_turns():
    alone, both = (simulation.simulate(plan, M40).seconds for plan in (gemm_plan(64, 512, 512), gemm_plan(64, 512, 512, 2, 1)))
    assert both > 1.8 * alone


def test_copies_share_the_memorys_bandwidth():
    buffers = [Buffer(name, (2048, 2048), "scratch") for name in "abcd"]
    plan = Plan({buffer.name: buffer for buffer in buffers}, tuple(
        Copy(out[:, :], source[:, :], stream) for stream, (out, source) in enumerate([buffers[:2], buffers[2:]])), cells=1)
    seconds = 4 * 2048 * 2048 * 4 / (1e9 * M40.bandwidth * costs.CONSTANTS.memory)
    assert simulation.simulate(plan, M40).seconds == pytest.approx(seconds, rel=0.1)


def test_one_kernel_at_a_time_is_slower_where_only_one_may_be_resident():
    plan = gemm_plan(64, 512, 512, 4, 4)
    assert simulation.simulate(plan, replace(M40, concurrent_kernels=1)).seconds > 3 * simulation.simulate(plan, M40).seconds


def test_host_that_launches_slowly_is_what_bounds_and_a_graph_is_not_bound_by_it():
    plan, slow = schedule(network(), "naive"), replace(costs.CONSTANTS, launch=100)
    streams, graph = (simulation.simulate(plan, M40, replay, slow) for replay in simulation.REPLAYS)
    assert streams.seconds > 100e-6 * len(plan.operations) > 5 * graph.seconds
    assert streams.bounds()["launch"] > 0.7 * streams.seconds


def test_unknown_way_of_replay_is_refused():
    with pytest.raises(ValueError, match="'streams', 'graph', got 'cuda'"):
        simulation.simulate(gemm_plan(8, 8, 8), M40, "cuda")


# Timelines

def test_critical_path_has_no_pause_but_latencies_and_its_bounds_add_up():
    line = simulation.simulate(schedule(network(steps=8), "fused_pointwise"), M40)
    for earlier, later in pairwise(line.critical_path):
        assert line.start[later] == pytest.approx(line.end[earlier] + line.latency)
    assert line.end[line.critical_path[-1]] == line.seconds
    assert sum(line.bounds().values()) == pytest.approx(line.seconds)


def test_occupancy_is_the_share_of_sms_that_blocks_are_on():
    line = simulation.simulate(gemm_plan(64, 512, 512), M40)  # 8 blocks of 64 × 64
    took = (line.end - line.start)[0]
    assert line.occupancy == pytest.approx(8 / 24 * took / line.seconds)


def test_every_kind_of_operation_has_its_name():
    plan = schedule(network(), "pretransposed_weights")
    kinds = {timeline.kind_of(operation) for operation in plan.operations}
    assert kinds == {"gemm", "transpose", "pointwise", "copy"}


# The device

def test_model_computes_by_the_reference_and_predicts_the_time():
    p = problem(sized(), seed=1)
    predicted, exact = (rnnopt.compile(p.spec, p.weights, device=name) for name in ("model:v100", "reference"))
    for one, other in zip(predicted(p.inputs), exact(p.inputs), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    assert predicted.executable.replay() == simulation.simulate(predicted.plan, card.load("v100")).seconds


def test_model_trains_by_the_reference():
    p = problem(sized(), seed=2)
    networks = [rnnopt.compile(p.spec, p.weights, device=name, training=True) for name in ("model", "reference")]
    gradients = []
    for net in networks:
        outputs, _ = net(p.inputs)
        gradients.append(net.backward(np.ones_like(outputs)))
    np.testing.assert_array_equal(gradients[0]["weight_hh_l0"], gradients[1]["weight_hh_l0"])


def test_model_says_that_it_predicts_and_auto_never_takes_it():
    assert "times predicted, not measured" in status_line(resolve("model:h200"))
    assert resolve("auto").name != "model"


@pytest.mark.parametrize("name", ["model:", "host:m40", "modl:m40"])
def test_name_that_is_no_device_is_refused(name):
    with pytest.raises(ValueError, match="'model:CARD'"):
        resolve(name)


# Published times

def test_rungs_come_in_the_published_order_each_within_15_percent():
    ladder = validation.ladder()
    assert ladder.predicted.is_monotonic_increasing
    assert (ladder.error.abs() <= 0.15).all(), ladder
    assert validation.full_ladder_milliseconds().error.abs().max() <= 0.15


@pytest.mark.parametrize("name", ["p100", "v100"])
def test_half_of_deepbenchs_lstm_rows_on_cards_not_fitted_are_within_25_percent(name):
    rows = validation.deepbench(name, passes=("forward",))
    assert len(rows) == 22
    assert rows.error.abs().median() <= 0.25


def test_deepbench_plans_leave_the_input_product_out():
    spec = network(layers=1, hidden_size=32, input_size=32, steps=3)
    forward = validation._recurrent_plan(spec, "forward")
    assert forward.gemms == 3
    weights = validation._recurrent_plan(spec, "weights")
    assert {view.buffer.name for operation in weights.operations for view in operation.writes} == {"d_weight_hh_l0"}
    assert sum(op.flops for op in weights.operations) == 2 * 4 * 32 * 32 * 8 * 3


def test_a_worse_constant_fits_worse():
    from rnnopt.devices.model import fit

    best = fit.misfit(costs.CONSTANTS)
    assert fit.misfit(replace(costs.CONSTANTS, load=2 * costs.CONSTANTS.load)) > 1.5 * best


def test_backward_pass_is_predicted_too():
    plan = schedule_backward(network(), "wavefront")
    assert simulation.simulate(plan, M40).seconds > 0
