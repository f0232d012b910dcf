"""Made sequences are the same every time, and their classes are told by what the task says, and by nothing else."""

import numpy as np
import pytest

from rnnopt.datasets import long_memory, split_by_subject

TASKS = ("first", "adding", "har_like")


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a.inputs, b.inputs, strict=True)) and a.labels.tolist() == b.labels.tolist()


@pytest.mark.parametrize("task", TASKS)
def test_sequences_follow_from_seed_and_number_alone(task):
    made = long_memory(20, 12, 3, task)
    assert same(made, long_memory(20, 12, 3, task))
    assert same(made.subset(range(5)), long_memory(20, 5, 3, task))
    other = long_memory(20, 12, 4, task)
    assert not any(np.array_equal(x, y) for x, y in zip(made.inputs, other.inputs, strict=True))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("steps", [2, 3, 500])
def test_sequences_have_the_steps_that_are_asked_for(task, steps):
    made = long_memory(steps, 7, task=task)
    assert {x.shape for x in made.inputs} == {(steps, len(made.channels))}
    assert {x.dtype for x in made.inputs} == {np.dtype(np.float32)}
    assert made.source == f"made here: {task}, {steps} steps, seed 0"


@pytest.mark.parametrize("classes", [2, 4, 5])
def test_the_marked_value_among_the_first_steps_tells_the_class_and_the_rest_is_small_noise(classes):
    made = long_memory(200, 40, 1, "first", classes=classes, noise=0.3)
    for sequence, label in zip(made.inputs, made.labels, strict=True):
        (place,) = np.flatnonzero(sequence[:, 1])
        assert place < 8
        assert sequence[place].tolist() == [np.float32(2 * label / (classes - 1) - 1), 1]
        assert np.abs(np.delete(sequence[:, 0], place)).max() <= np.float32(0.3)
    assert np.bincount(made.labels).tolist() == [40 // classes] * classes


def test_the_class_of_adding_is_the_bin_of_the_sum_of_a_mark_in_each_half():
    made = long_memory(50, 2000, 1, "adding")
    for sequence, label in zip(made.inputs, made.labels, strict=True):
        first, second = np.flatnonzero(sequence[:, 1])
        assert first < 25 <= second
        assert label == np.searchsorted([np.sqrt(0.5), 1, 2 - np.sqrt(0.5)], sequence[[first, second], 0].astype(float).sum())
        assert ((sequence[:, 0] >= 0) & (sequence[:, 0] <= 1)).all()
    assert np.bincount(made.labels) == pytest.approx(500, abs=80)


def test_one_mark_alone_does_not_tell_the_class_of_adding():
    made = long_memory(50, 2000, 1, "adding")
    for half in (slice(0, 25), slice(25, 50)):
        values = np.array([x[half][x[half, 1] == 1, 0].item() for x in made.inputs])
        guessed = np.minimum(np.floor(4 * values), 3)
        assert (guessed == made.labels).mean() < 0.6


def amplitudes(part):
    """What a spectrum of each channel says, whatever the phases and offsets."""
    return np.array([np.abs(np.fft.rfft(x - x.mean(axis=0), axis=0)).ravel() for x in part.inputs])


def test_other_seeds_and_other_subjects_have_the_same_classes_of_har_like():
    made = long_memory(128, 120, 0, "har_like")
    train, held_out = split_by_subject(made, [8, 9])
    assert len(held_out) == 24
    means = np.array([amplitudes(train)[train.labels == n].mean(axis=0) for n in range(6)])
    for part in (held_out, long_memory(128, 60, 1, "har_like", noise=0.2)):
        distances = ((amplitudes(part)[:, None] - means) ** 2).sum(axis=2)
        assert (distances.argmin(axis=1) == part.labels).all()
        assert np.bincount(part.labels).tolist() == [len(part) // 6] * 6


def test_subjects_of_har_like_have_offsets_of_their_own():
    made = long_memory(2000, 36, 0, "har_like", subjects=3)
    means = np.array([x.mean(axis=0) for x in made.inputs])
    for subject in range(3):
        own = means[made.subjects == subject]
        assert own.std(axis=0).max() < 0.05
        assert np.abs(own.mean(axis=0) - means[made.subjects != subject].mean(axis=0)).max() > 0.1


@pytest.mark.parametrize("task", ["first", "har_like"])
def test_every_subject_has_a_sequence_of_every_class(task):
    made = long_memory(4, 120, task=task, subjects=5)
    pairs = set(zip(made.subjects.tolist(), made.labels.tolist(), strict=True))
    assert len(pairs) == 5 * len(made.classes)


@pytest.mark.parametrize(("arguments", "said"), [
    ({"steps": 0}, "steps must be at least 1 for the task 'first', got 0"),
    ({"steps": 1, "task": "adding"}, "steps must be at least 2 for the task 'adding', got 1"),
    ({"sequences": 0}, "sequences must be at least 1"),
    ({"seed": -1}, "seed must be at least 0"),
    ({"subjects": 0}, "subjects must be at least 1"),
    ({"classes": 1}, "classes must be at least 2"),
    ({"classes": 3, "task": "adding"}, "classes must be 4 for the task 'adding', got 3: leave it out"),
    ({"classes": 3, "task": "har_like"}, "classes must be 6 for the task 'har_like', got 3: leave it out"),
    ({"noise": 1.0}, "noise must be at least 0, and less than 1, the largest value of a mark, got 1.0"),
    ({"noise": -0.1}, "noise must be at least 0"),
    ({"noise": np.nan}, "noise must be at least 0"),
    ({"noise": np.inf, "task": "har_like"}, "noise must be at least 0, and finite, got inf"),
    ({"task": "ading"}, r"task must be one of 'first', 'adding', 'har_like', got 'ading' \(did you mean 'adding'\?\)"),
])
def test_an_argument_out_of_its_range_is_named(arguments, said):
    with pytest.raises(ValueError, match=said):
        long_memory(**{"steps": 10, "sequences": 4} | arguments)


@pytest.mark.parametrize("name", ["steps", "sequences", "seed", "subjects", "classes"])
def test_a_number_that_is_no_integer_is_refused(name):
    with pytest.raises(TypeError, match=f"{name} must be an integer, got 4.0"):
        long_memory(**{"steps": 10, "sequences": 4, name: 4.0})
