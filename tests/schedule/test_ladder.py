"""Stages by name, sets of switches, and what is said of wrong ones."""

import numpy as np
import pytest
from helpers import SUBSETS, label, sized

import rnnopt
from rnnopt.schedule import PAPER_INPUT_GROUP, switches_of


def test_the_ladder_adds_one_switch_per_rung_in_the_papers_order():
    assert tuple(rnnopt.LADDER) == ("naive", "combined_gemms", "streamed_gemms", "fused_pointwise", "pretransposed_weights",
                                    "batched_inputs", "wavefront")
    assert [len(switches) for switches in rnnopt.LADDER.values()] == list(range(7))
    rungs = list(rnnopt.LADDER.values())
    assert all(low < high for low, high in zip(rungs, rungs[1:], strict=False))
    with pytest.raises(TypeError):
        rnnopt.LADDER["naive"] = frozenset(rnnopt.SWITCHES)


def test_there_are_as_many_plans_as_subsets():
    assert len(SUBSETS) == 64
    assert len({rnnopt.schedule(sized(), switches).fingerprint for switches in SUBSETS}) == 64


@pytest.mark.parametrize("collect", [list, tuple, set, frozenset, iter, np.array, dict.fromkeys])
def test_any_iterable_of_switches_is_a_stage(collect):
    names = ["wavefront", "fused_pointwise"]
    assert switches_of(collect(names)) == frozenset(names)


def test_no_switches_are_the_naive_stage():
    assert switches_of(()) == switches_of("naive") == frozenset()


@pytest.mark.parametrize(("wrong", "near"), [("wavefrnt", "wavefront"), ("Naive", "naive"), ("fused", None), ("", None)])
def test_unknown_stage_is_refused_with_the_nearest_name(wrong, near):
    with pytest.raises(ValueError, match=f"^stage must be one of naive, combined_gemms, .*wavefront, got {wrong!r}") as caught:
        rnnopt.schedule(sized(), wrong)
    assert ("did you mean" in str(caught.value)) == (near is not None)
    assert near is None or f"(did you mean {near!r}?)" in str(caught.value)


def test_unknown_switch_is_refused_with_the_nearest_name():
    with pytest.raises(ValueError, match=r"^a switch of stage must be one of combined_gemms, .*, got 'fused_pontwise' "
                                         r"\(did you mean 'fused_pointwise'\?\)$"):
        rnnopt.schedule(sized(), {"wavefront", "fused_pontwise"})
    with pytest.raises(ValueError, match="got 'naive'$"):  # a rung, but no switch
        rnnopt.schedule(sized(), ["naive"])


@pytest.mark.parametrize("wrong", [[3], [["wavefront"]], [None], b"naive"])
def test_switches_that_are_no_names_are_refused(wrong):
    with pytest.raises(ValueError, match="a switch of stage must be one of"):
        rnnopt.schedule(sized(), wrong)


@pytest.mark.parametrize("wrong", [None, 3, 2.5, True])
def test_a_stage_that_is_neither_name_nor_set_is_refused(wrong):
    with pytest.raises(TypeError, match=f"^stage must be the name of a rung or a set of switches, got {wrong!r}$"):
        rnnopt.schedule(sized(), wrong)


@pytest.mark.parametrize("wrong", [2.0, "2", None, True, [2]])
def test_an_input_group_that_is_no_integer_is_refused(wrong):
    with pytest.raises(TypeError, match="^input_group must be an integer of at least 1, got "):
        rnnopt.schedule(sized(), "wavefront", wrong)


@pytest.mark.parametrize("wrong", [0, -3])
def test_an_input_group_below_one_is_refused(wrong):
    with pytest.raises(ValueError, match=f"^input_group must be at least 1, got {wrong}$"):
        rnnopt.compile(sized(), rnnopt.init_weights(sized()), device="reference", input_group=wrong)


def test_a_group_of_all_steps_or_more_is_all_steps():
    spec = sized(steps=4)
    prints = {rnnopt.schedule(spec, "wavefront", group).fingerprint for group in (4, 5, 1000, np.int64(4))}
    assert len(prints) == 1


def test_the_papers_group_is_the_default():
    assert PAPER_INPUT_GROUP == 2
    assert rnnopt.schedule(sized(), "wavefront").fingerprint == rnnopt.schedule(sized(), "wavefront", 2).fingerprint


@pytest.mark.parametrize("switches", SUBSETS, ids=label)
def test_planning_is_deterministic(switches):
    again = [rnnopt.schedule(sized(), order, 3).fingerprint for order in (sorted(switches), sorted(switches)[::-1])]
    assert again[0] == again[1]
