"""Sequences of different lengths are packed as torch packs them, and come back where they were."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnopt.packing import pack, unpack

batches = st.lists(st.integers(1, 6), min_size=1, max_size=6)


def padded(lengths, features=3, more=0):
    return np.random.default_rng(0).standard_normal((max(lengths) + more, len(lengths), features))


@given(lengths=batches, more=st.integers(0, 2))
def test_packed_data_are_those_of_torch(torch, lengths, more):
    batch = padded(lengths, more=more)
    peer = torch.nn.utils.rnn.pack_padded_sequence(torch.from_numpy(batch), torch.tensor(lengths), enforce_sorted=False)
    data, order = pack(batch, lengths)
    assert (np.array(lengths)[order] == np.array(lengths)[peer.sorted_indices]).all()
    assert data.shape == peer.data.shape
    if len(set(lengths)) == len(lengths):  # else torch may order the equally long ones otherwise
        assert (order == peer.sorted_indices.numpy()).all()
        assert (data == peer.data.numpy()).all()
    back, _ = torch.nn.utils.rnn.pad_packed_sequence(peer)
    assert (unpack(data, lengths, order=order) == back.numpy()).all()


@given(lengths=batches, more=st.integers(0, 2))
def test_unpacking_gives_back_what_was_packed_and_zeros(lengths, more):
    batch = padded(lengths, more=more)
    data, order = pack(batch, lengths)
    for back in (unpack(data, lengths, order=order), unpack(data, lengths)):
        assert back.shape == (max(lengths), *batch.shape[1:])
        for k, length in enumerate(lengths):
            assert (back[:length, k] == batch[:length, k]).all()
            assert not back[length:, k].any()


def test_a_batch_by_hand():
    names = np.array([["b0", "a0", "c0"], ["b1", "a1", "-"], ["-", "a2", "-"]])
    data, order = pack(names, [2, 3, 1])
    assert data.tolist() == ["a0", "b0", "c0", "a1", "b1", "a2"]
    assert order.tolist() == [1, 0, 2]


def test_equally_long_sequences_stay_in_their_order():
    assert pack(np.zeros((2, 5)), [1, 2, 1, 2, 1])[1].tolist() == [1, 3, 0, 2, 4]


@pytest.mark.parametrize("lengths", [(2, 3), np.array([2, 3]), np.array([2, 3], np.uint8), [np.int32(2), np.int64(3)]])
def test_lengths_can_be_any_integers(lengths):
    batch = padded([2, 3]).astype(np.float32)
    data, order = pack(batch, lengths)
    assert data.dtype == unpack(data, lengths, order=order).dtype == np.float32
    assert (data == pack(batch, [2, 3])[0]).all()


def test_lengths_can_be_a_torch_tensor(torch):
    assert len(pack(padded([2, 3]), torch.tensor([2, 3]))[0]) == 5


def test_what_lies_after_a_sequence_is_not_looked_at():
    batch = padded([2, 3])
    batch[2, 0] = np.nan
    assert np.isfinite(pack(batch, [2, 3])[0]).all()


@pytest.mark.parametrize(("shape", "lengths", "error", "message"), [
    ((3, 2), [3, 0], ValueError, "lengths[1] is 0, but every sequence must have at least 1 step: leave it out of the batch"),
    ((3, 2), [-1, 2], ValueError, "lengths[0] is -1, but every sequence must have at least 1 step"),
    ((3, 2), [1, 4], ValueError, "lengths[1] is 4, but padded has only 3 steps: cut the length, or pad to as many steps"),
    ((3, 0), [], ValueError, "lengths is empty: a batch must have at least one sequence"),
    ((0, 2), [1, 1], ValueError, "lengths[0] is 1, but padded has only 0 steps"),
    ((3, 2), [1], ValueError, "lengths must say the steps of each of the 2 sequences of padded, whose shape is (3, 2): got 1 of them"),
    ((3,), [3], ValueError, "padded must have the shape (steps, batch, ...), got (3,)"),
    ((3, 2), [1.0, 2], TypeError, "lengths must be integers, but lengths[0] is 1.0"),
    ((3, 2), [1, True], TypeError, "lengths must be integers, but lengths[1] is True"),
    ((3, 2), [1, None], TypeError, "lengths must be integers, but lengths[1] is None"),
])
def test_what_cannot_be_packed_is_refused(shape, lengths, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        pack(np.zeros(shape), lengths)


@pytest.mark.parametrize(("rows", "lengths", "order", "error", "message"), [
    (5, [2, 2], None, ValueError, "data must have 4 rows, the sum of lengths, got the shape (5, 3)"),
    (0, [], None, ValueError, "lengths is empty"),
    (2, [2, 0], None, ValueError, "lengths[1] is 0"),
    (5, [2, 3], [1], ValueError, "order must hold each of the numbers 0 to 1 once, as pack returns it, got [1]"),
    (5, [2, 3], [1, 1], ValueError, "order must hold each of the numbers 0 to 1 once"),
    (5, [3, 2], [1, 0], ValueError, "order must take the longest sequence first, but takes lengths of [2, 3]: "
                                    "give lengths as pack was given them, not sorted"),
])
def test_what_cannot_be_unpacked_is_refused(rows, lengths, order, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        unpack(np.zeros((rows, 3)), lengths, order=order)
