"""Every dependency between streams has its event, none has one too many, and a replay is fenced at both ends."""

from itertools import pairwise

import pytest
from helpers import TOLERANCE, error, flat, problem, random_order, scattered, sized

import rnnopt
from rnnopt.devices.cuda import context, wiring
from rnnopt.devices.cuda.executable import CudaExecutable
from rnnopt.schedule import schedule

SPEC = sized(layers=2, input_size=5, hidden_size=7, batch=3, steps=5)


def plan_of(stage="wavefront"):
    return schedule(SPEC, stage)


def executable_of(plan):
    return CudaExecutable(plan, context.of(context.gpu()))


def happens_before(log, work):
    """For each piece of work of `work`, the pieces that are done before it begins, told from the log alone."""
    of_stream, of_event, result = {}, {}, []
    for kind, stream, *rest in log:
        known = of_stream.setdefault(stream, set())
        if kind == "wait":
            known |= of_event.get(rest[0], set())
        elif kind == "record":
            of_event[rest[0]] = set(known)
        elif kind in work:
            result.append(set(known))
            known.add(len(result) - 1)
    return result


def missing(gpu, plan):
    """Dependencies of the plan that a replay left to chance."""
    executable = executable_of(plan)
    gpu.log.clear()
    with context.of(context.gpu()).current():
        for call in executable._calls:
            call()
    before = happens_before(gpu.log, ("launch", "gemm", "copy"))
    assert len(before) == len(plan.operations)
    return [(number, producer) for number, producers in enumerate(plan.dependencies)
            for producer in producers if producer not in before[number]]


@pytest.mark.parametrize("stage", ["streamed_gemms", "wavefront"])
def test_every_dependency_between_streams_has_its_event(gpu, stage):
    assert plan_of(stage).streams > 1
    assert not missing(gpu, plan_of(stage))
    assert not missing(gpu, scattered(plan_of(stage), 5, seed=1))


def test_no_wait_is_superfluous_and_the_loss_of_any_one_is_seen(gpu, monkeypatch):
    plan = plan_of()
    steps = wiring.waits(plan)
    lost = [(number, producer) for number, waited in steps for producer in waited]
    assert len(lost) > 10
    for number, producer in lost:
        broken = [(n, tuple(w for w in waited if (n, w) != (number, producer))) for n, waited in steps]
        monkeypatch.setattr(wiring, "waits", lambda plan, order, broken=broken: broken)
        assert (number, producer) in missing(gpu, plan)


def test_numbers_go_wrong_without_events(gpu, monkeypatch):
    p = problem(sized(layers=3, steps=8))
    monkeypatch.setattr(wiring, "waits", lambda plan, order: [(n, ()) for n in range(len(plan.operations))])
    network = rnnopt.compile(p.spec, p.weights, stage="wavefront", device="cuda")
    assert not error(flat(network(p.inputs, p.state)), p.solution()) <= TOLERANCE


def test_an_event_is_recorded_once_per_replay_and_keeps_no_time(gpu):
    executable = executable_of(plan_of())
    gpu.log.clear()
    with context.of(context.gpu()).current():
        for call in executable._calls:
            call()
    recorded = [entry[2] for entry in gpu.log if entry[0] == "record"]
    assert len(recorded) == len(set(map(id, recorded)))
    assert all(event.flags == 2 for event in recorded)


def test_one_stream_needs_no_events(gpu):
    executable = executable_of(plan_of("naive"))
    gpu.log.clear()
    executable.replay()
    assert [kind for kind, *_ in gpu.log if kind in ("wait", "record")] == ["record", "record"]  # the clock's


def test_the_time_of_a_replay_covers_all_streams(gpu):
    executable = executable_of(plan_of())
    gpu.log.clear()
    executable.replay()
    (first, begins, _), *issued, (last, ends, _) = gpu.log
    assert (first, last) == ("record", "record")
    # Work beside the two records comes before all others, and after all others.
    before = happens_before([("launch", begins), *issued, ("launch", ends)], ("launch", "gemm", "copy"))
    assert all(0 in known for known in before[1:])
    assert before[-1] == set(range(len(executable.plan.operations) + 1))


def test_an_order_that_is_not_legal_is_refused():
    plan = plan_of()
    with pytest.raises(ValueError, match="which it depends on"):
        wiring.waits(plan, reversed(range(len(plan.operations))))
    with pytest.raises(ValueError, match="each of the"):
        wiring.waits(plan, range(len(plan.operations) - 1))


def test_waits_shrink_to_what_is_not_already_known():
    plan = plan_of()
    between = sum(plan.operations[producer].stream != operation.stream
                  for operation, producers in zip(plan.operations, plan.dependencies, strict=True) for producer in producers)
    assert 0 < sum(len(waited) for _, waited in wiring.waits(plan)) < between


def test_waits_keep_the_order_of_issue():
    plan = plan_of()
    assert [number for number, _ in wiring.waits(plan)] == list(range(len(plan.operations)))
    order = random_order(plan, 3)
    assert [number for number, _ in wiring.waits(plan, order)] == order
    assert any(a > b for a, b in pairwise(order))
