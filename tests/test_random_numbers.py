"""Random numbers are those of Random123; what is dropped is a function of position, seed, call and layer only."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnopt.random_numbers import dropout_mask, dropout_threshold, philox

#: The lines "philox4x32 10" of Random123's tests/kat_vectors: counter, key, output.
KNOWN = [line.split() for line in """\
00000000 00000000 00000000 00000000 00000000 00000000 6627e8d5 e169c58d bc57ac4c 9b00dbd8
ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff 408f276d 41c83b0e a20bc7c6 6d5451fd
243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 d16cfe09 94fdcceb 5001e420 24126ea1
""".splitlines()]


def mask(shape=(4, 3, 50), probability=0.5, seed=1, call=0, layer=0, first=0):
    return dropout_mask(shape, probability, seed=seed, call=call, layer=layer, first=first)


def test_philox_gives_the_known_answers_of_random123():
    words = np.array([[int(word, 16) for word in line] for line in KNOWN], np.uint32).T
    found = philox(words[:4], words[4:6])
    assert all(word.dtype == np.uint32 for word in found)
    assert (np.array(found) == words[6:]).all()
    for *given_, low, high, a, b, c, d in words.T.tolist():
        assert [int(word) for word in philox(given_, (low, high))] == [a, b, c, d]


def test_words_of_a_counter_are_broadcast():
    many = philox((np.arange(6).reshape(2, 3), 7, 8, 0), (9, 10))
    assert all(word.shape == (2, 3) for word in many)
    assert [word[1, 2] for word in many] == [word[()] for word in philox((5, 7, 8, 0), (9, 10))]


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_an_element_is_kept_where_the_first_word_of_its_counter_reaches_the_threshold(probability):
    shape, seed = (3, 2, 5), 2**40 + 17
    kept = [[int(philox((first + k, 6, 4, 0), (17, 256))[0]) >= round(probability * 2**32) for k in range(30)] for first in (0, 2**20)]
    for first, expected in zip((0, 2**20), kept, strict=True):
        found = mask(shape, probability, seed, call=4, layer=6, first=first)
        assert found.shape == shape
        assert (found.ravel() == np.array(expected) / (1 - probability)).all()


@given(cut=st.integers(0, 24), call=st.integers(0, 2**32 - 1), seed=st.integers(0, 2**64 - 1))
def test_a_part_of_a_sequence_drops_what_the_whole_drops_there(cut, call, seed):
    whole = mask((24, 7), call=call, seed=seed)
    assert (mask((24 - cut, 7), call=call, seed=seed, first=cut * 7) == whole[cut:]).all()
    assert (mask((4, 6, 7), call=call, seed=seed) == whole.reshape(4, 6, 7)).all()


def test_element_indices_go_on_from_0_after_32_bits():
    assert (mask((8,), first=2**32 - 4)[4:] == mask((4,))).all()


@pytest.mark.parametrize("other", [{"seed": 2}, {"seed": 1 + 2**32}, {"call": 1}, {"layer": 1}, {"first": 600}])
def test_masks_of_other_seeds_calls_layers_and_places_are_unrelated(other):
    same = (mask() == mask(**other)).mean()
    assert abs(same - 0.5) < 5 * 0.5 / np.sqrt(600)


@pytest.mark.parametrize("probability", [0.01, 0.2, 0.5, 0.8])
def test_the_share_that_is_dropped_is_the_probability(probability):
    dropped = mask((100_000,), probability) == 0
    assert abs(dropped.mean() - probability) < 5 * np.sqrt(probability * (1 - probability) / dropped.size)
    neighbours = (dropped[1:] & dropped[:-1]).mean()
    assert abs(neighbours - probability**2) < 5 * np.sqrt(probability**2 / dropped.size)


def test_nothing_is_dropped_with_probability_0_and_all_but_nothing_near_1():
    assert (mask(probability=0) == 1).all()
    assert (mask(probability=1e-12) == 1 / (1 - 1e-12)).all()
    assert dropout_threshold(1 - 2**-53) == 2**32 - 1  # and not 2**32, which is 0 in 32 bits and keeps all
    assert not mask(probability=1 - 2**-53).any()


def test_an_empty_sequence_has_an_empty_mask():
    assert mask((0, 3)).shape == (0, 3)


@pytest.mark.parametrize(("wrong", "message"), [
    ({"probability": 1}, "probability must be at least 0 and less than 1, got 1"),
    ({"probability": -0.1}, "probability must be at least 0 and less than 1, got -0.1"),
    ({"probability": float("nan")}, "probability must be at least 0 and less than 1, got nan"),
    ({"seed": 2**64}, r"seed must be an integer of at least 0 and less than 2\*\*64, got 18446744073709551616"),
    ({"seed": -1}, r"seed must be an integer of at least 0"),
    ({"call": 2**32}, r"call must be an integer of at least 0 and less than 2\*\*32, got 4294967296"),
    ({"layer": -1}, r"layer must be an integer of at least 0"),
])
def test_what_is_out_of_range_is_refused_by_name(wrong, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        mask(**wrong)
