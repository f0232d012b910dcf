"""Real recordings, read safely, and cut, split, scaled and ordered as training needs it."""

import os
import pickle

import numpy as np
import pytest

from rnnopt import datasets
from rnnopt.datasets import Sequences


@pytest.fixture(scope="module")
def watch():
    try:
        return datasets.watch()
    except datasets.DatasetUnavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture
def small():
    rng = np.random.default_rng(0)
    inputs = tuple(rng.standard_normal((steps, 2)).astype(np.float32) * 3 + 5 for steps in (10, 7, 12, 3))
    return Sequences(inputs, np.array([0, 1, 2, 0]), np.array([1, 1, 2, 3]), ("a", "b", "c"), ("x", "y"), "made here")


def test_the_watch_data_are_those_that_are_described(watch):
    assert len(watch) == 140
    assert watch.channels == ("ax", "ay", "az", "wx", "wy", "wz")
    assert (np.bincount(watch.labels) == 20).all()
    assert len(watch.classes) == 7
    assert set(watch.subjects) == set(range(1, 11))
    lengths = [len(x) for x in watch.inputs]
    assert (min(lengths), max(lengths), sum(lengths)) == (947, 2618, 244102)
    assert {x.dtype for x in watch.inputs} == {np.dtype(np.float32)}


def test_windows_of_the_watch_data_are_as_many_as_fit(watch):
    assert len(datasets.windows(watch, 128)) == sum(len(x) // 128 for x in watch.inputs)


def test_windows_are_parts_of_their_sequence_with_its_label(small):
    cut = datasets.windows(small, 4, 3)
    assert [len(x) for x in cut.inputs] == [4] * len(cut)
    assert len(cut) == 3 + 2 + 3
    assert (cut.inputs[1] == small.inputs[0][3:7]).all()
    assert cut.labels.tolist() == [0] * 3 + [1] * 2 + [2] * 3


def test_windows_longer_than_any_sequence_are_refused(small):
    with pytest.raises(ValueError, match="no sequence has the 13 steps of a window; the longest has 12"):
        datasets.windows(small, 13)


def test_nobody_is_on_both_sides_of_a_split(small):
    train, test = datasets.split_by_subject(small, [1])
    assert (set(train.subjects), set(test.subjects)) == ({2, 3}, {1})
    for held_out in ([], [1, 2, 3], [9]):
        with pytest.raises(ValueError, match="must leave some subjects on each side"):
            datasets.split_by_subject(small, held_out)


def test_scaling_follows_the_training_part_alone(small):
    train, test = datasets.split_by_subject(small, [1])
    scaled, other = datasets.normalised(train, test)
    rows = np.concatenate(scaled.inputs)
    assert rows.mean(axis=0) == pytest.approx(0, abs=1e-6)
    assert rows.std(axis=0) == pytest.approx(1, rel=1e-5)
    changed = Sequences(tuple(100 * x for x in test.inputs), test.labels, test.subjects, test.classes, test.channels, "")
    again, _ = datasets.normalised(train, changed)
    assert all((a == b).all() for a, b in zip(scaled.inputs, again.inputs, strict=True))
    assert other.inputs[0].dtype == np.float32


def test_batches_are_whole_and_their_order_follows_from_seed_and_epoch(small):
    cut = datasets.windows(small, 3)
    first = list(datasets.batches(cut, 4, epoch=0, seed=1))
    assert [x.shape for x, _ in first] == [(3, 4, 2)] * (len(cut) // 4)
    for epoch, seed, same in ((0, 1, True), (1, 1, False), (0, 2, False)):
        again = list(datasets.batches(cut, 4, epoch, seed))
        assert all((a[0] == b[0]).all() for a, b in zip(first, again, strict=True)) == same
    plain = next(datasets.batches(cut, 4))
    assert (plain[0][:, 1] == cut.inputs[1]).all()
    assert plain[1].tolist() == cut.labels[:4].tolist()


@pytest.mark.parametrize("batch", [0, 5, -1])
def test_a_batch_larger_than_the_data_is_refused(small, batch):
    with pytest.raises(ValueError, match=f"batch must be from 1 to the 4 sequences there are, got {batch}"):
        next(datasets.batches(small, batch))
    with pytest.raises(ValueError, match="cut windows"):
        next(datasets.batches(small, 2))


class Evil:
    def __reduce__(self):
        return os.mkdir, ("made-by-a-pickle",)


@pytest.mark.parametrize("content", [Evil(), {"X": [Evil()]}], ids=["itself", "inside"])
def test_a_pickle_that_runs_something_is_refused_and_runs_nothing(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    np.save("watch.npy", np.array(content, dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"it names .*mkdir, which is no part of an array"):
        datasets.watch(tmp_path / "watch.npy")
    assert not (tmp_path / "made-by-a-pickle").exists()


@pytest.mark.parametrize("content", [b"", b"no array", pickle.dumps({})])
def test_a_damaged_file_is_refused(tmp_path, content):
    path = tmp_path / "watch.npy"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="can't be read as the watch data set"):
        datasets.watch(path)


def test_another_data_set_is_refused(tmp_path):
    np.save(tmp_path / "watch.npy", np.array({"X": []}, dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="lacks X_labels, subject, y, y_labels"):
        datasets.watch(tmp_path / "watch.npy")


def test_a_data_set_that_is_not_installed_says_how_to_get_it(monkeypatch):
    from importlib import metadata

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", missing)
    with pytest.raises(datasets.DatasetUnavailable, match=r"not installed: pip install seglearn==1\.2\.5"):
        datasets.watch()
