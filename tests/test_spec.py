"""A NetworkSpec is a network that can be computed, or an error that says why not."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rnnopt
from rnnopt.spec import MAX_ELEMENTS, NetworkSpec

SIZES = ("layers", "input_size", "hidden_size", "batch", "steps")
GOOD = dict(cell="lstm", layers=2, input_size=3, hidden_size=4, batch=5, steps=6)


def test_spec_is_a_frozen_value():
    spec = NetworkSpec(**GOOD)
    assert spec == NetworkSpec(**GOOD)
    assert hash(spec) == hash(NetworkSpec(**GOOD))
    assert spec != NetworkSpec(**GOOD | {"steps": 7})
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.steps = 7


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("wrong", [0, -1, -2**40])
def test_sizes_below_one_are_refused_by_name(size, wrong):
    with pytest.raises(ValueError, match=f"^{size} must be at least 1, got {wrong}$"):
        NetworkSpec(**GOOD | {size: wrong})


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("wrong", [1.0, "3", None, True, False, np.float32(3), np.True_, [3], float("nan")])
def test_sizes_that_are_no_integers_are_refused_by_name(size, wrong):
    with pytest.raises(TypeError, match=f"^{size} must be an integer of at least 1, got ") as caught:
        NetworkSpec(**GOOD | {size: wrong})
    assert repr(wrong) in str(caught.value)
    assert type(wrong).__name__ in str(caught.value)


def test_numpy_integers_are_taken_as_python_integers():
    spec = NetworkSpec(**GOOD | {"batch": np.int64(5), "steps": np.uint8(6)})
    assert spec == NetworkSpec(**GOOD)
    assert {type(getattr(spec, size)) for size in SIZES} == {int}


@pytest.mark.parametrize("wrong", ["LSTM", "lstmm", "gru2", "", None, 3, ["lstm"]])
def test_unknown_cell_is_refused_with_the_known_ones(wrong):
    with pytest.raises(ValueError, match="^cell must be one of 'lstm'") as caught:
        NetworkSpec(**GOOD | {"cell": wrong})
    assert repr(wrong) in str(caught.value)


@pytest.mark.parametrize("near", ["LSTM", "lstmm", "ltsm"])
def test_unknown_cell_is_refused_with_the_nearest_name(near):
    with pytest.raises(ValueError, match="did you mean 'lstm'"):
        NetworkSpec(**GOOD | {"cell": near})


@pytest.mark.parametrize(("sizes", "named"), [
    (dict(steps=2**16, batch=2**10, input_size=32), "steps × batch × features"),
    (dict(steps=2**16, batch=2**10, hidden_size=32, input_size=1), "steps × batch × features"),
    (dict(hidden_size=2**15, batch=1, steps=1), "gates × hidden_size × features"),
    (dict(hidden_size=2**10, input_size=2**20, batch=1, steps=1), "gates × hidden_size × features"),
    (dict(layers=2**20, hidden_size=2**11, batch=1, steps=1), "layers × batch × hidden_size"),
    (dict(hidden_size=2**12, batch=2**17, steps=1, layers=1), "batch × gates × hidden_size"),
])
def test_sizes_whose_index_overflows_are_refused_and_named(sizes, named):
    with pytest.raises(ValueError, match="32-bit") as caught:
        NetworkSpec(**GOOD | sizes)
    message = str(caught.value)
    assert named in message
    assert f"{MAX_ELEMENTS:,}" in message
    assert all(str(value) in message.replace(",", "") for name, value in sizes.items() if value > 64)


@given(bits=st.tuples(*[st.integers(0, 17)] * 3), odd=st.tuples(*[st.integers(0, 2)] * 3), layers=st.integers(1, 3),
       steps=st.integers(1, 3), group=st.integers(1, 2), switches=st.sets(st.sampled_from(rnnopt.SWITCHES)))
def test_whatever_spec_is_accepted_has_only_buffers_that_an_int_can_index(bits, odd, layers, steps, group, switches):
    """Also what no user names: gates, products, transposed weights."""
    hidden, features, batch = (2**b + o for b, o in zip(bits, odd, strict=True))
    try:
        spec = NetworkSpec("lstm", layers, features, hidden, batch, steps)
    except ValueError:
        return
    try:
        plan = rnnopt.schedule(spec, switches, group)
    except ValueError:  # only the sizes of a larger group are not known to the spec
        assert group > 1
        return
    assert all(np.prod(buffer.shape, dtype=object) <= MAX_ELEMENTS for buffer in plan.buffers.values())


def test_input_group_whose_products_overflow_is_refused_and_named():
    spec = NetworkSpec("lstm", 1, 1, 2**9, 2**12, 2**9)
    with pytest.raises(ValueError, match=r"input_products_l0 .* 32-bit integers"):
        rnnopt.schedule(spec, {"batched_inputs"}, 2**9)


def test_layers_above_the_first_read_hidden_states():
    spec = NetworkSpec(**GOOD)
    assert [spec.layer_input_size(layer) for layer in range(2)] == [3, 4]


def test_paper_flops_are_the_authors_rule():
    spec = NetworkSpec("lstm", layers=4, input_size=512, hidden_size=512, batch=64, steps=100)
    assert spec.paper_flops == 107_583_897_600
    assert NetworkSpec("lstm", 1, 9, 1, 1, 1).paper_flops == 8 * 2 * 1 * 1 * 2  # the input size plays no part


@pytest.mark.parametrize(("wrong", "error", "said"), [
    (dict(bidirectional=1), TypeError, "bidirectional must be True or False, got 1"),
    (dict(dropout=True), TypeError, "dropout must be a number of at least 0 and less than 1, got True"),
    (dict(dropout="0.5"), TypeError, "dropout must be a number"),
    (dict(dropout=1.0), ValueError, "dropout must be at least 0 and less than 1, got 1.0"),
    (dict(dropout=-0.1), ValueError, "dropout must be at least 0"),
    (dict(dropout=float("nan")), ValueError, "dropout must be at least 0 and less than 1, got nan"),
    (dict(lengths=7), TypeError, "lengths must be a sequence of integers, got 7"),
    (dict(lengths=[6, 5, 4, 3, 0]), ValueError, r"lengths\[4\] must be at least 1, got 0"),
    (dict(lengths=[6, 5, 4, 3, 2.0]), TypeError, r"lengths\[4\] must be an integer"),
    (dict(lengths=[6, 5]), ValueError, "each of the 5 sequences of the batch, got 2"),
    (dict(lengths=[5, 6, 4, 3, 1]), ValueError, "decreasing order, got .*rnnopt.pack sorts a batch"),
    (dict(lengths=[5, 5, 4, 3, 1]), ValueError, "the longest of lengths must have all 6 steps, got 5"),
])
def test_wrong_options_are_refused_by_name(wrong, error, said):
    with pytest.raises(error, match=said):
        NetworkSpec(**GOOD | wrong)


def test_batch_sizes_are_how_many_sequences_go_on():
    spec = NetworkSpec(**GOOD, lengths=np.array([6, 3, 3, 1, 1]))
    assert spec.lengths == (6, 3, 3, 1, 1)
    assert spec.batch_sizes == (5, 3, 3, 1, 1, 1)
    assert spec.rows == (14,)
    assert hash(spec) == hash(NetworkSpec(**GOOD, lengths=(6, 3, 3, 1, 1)))
    assert NetworkSpec(**GOOD).batch_sizes == (5,) * 6
    assert NetworkSpec(**GOOD).rows == (6, 5)


def test_a_bidirectional_layer_has_two_states_and_twice_the_outputs():
    spec = NetworkSpec(**GOOD, bidirectional=True)
    assert (spec.directions, spec.output_size, spec.state_shape) == (2, 8, (4, 5, 4))
    assert [spec.layer_input_size(layer) for layer in range(2)] == [3, 8]


def test_options_at_their_defaults_are_left_out_so_that_records_stay_as_they_are():
    assert NetworkSpec(**GOOD).as_dict() == GOOD
    assert NetworkSpec(**GOOD, dropout=0.5, lengths=(6, 6, 6, 6, 6)).as_dict() == GOOD | {"dropout": 0.5, "lengths": [6] * 5}


def test_flops_of_the_cudnn_sample():
    """LSTM, 20 steps, 2 layers, hidden 512, batch 64: 2635 GFLOP/s were 4.07 ms."""
    spec = NetworkSpec("lstm", 2, 512, 512, 64, 20)
    assert spec.cudnn_flops == 8 * 2 * 512**2 * 20 * 64 * 2
    assert spec.cudnn_flops / 2635e9 == pytest.approx(4.07e-3, rel=2e-3)
