"""Real recordings, read safely, and cut, split, scaled and ordered as training needs it."""

import os
import pickle
import tracemalloc

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


@pytest.mark.parametrize("batch", [1, 3, 4, 50])
@pytest.mark.parametrize("epoch", [None, 2])
def test_padded_batches_have_every_sequence_once_and_zeros_without_labels(small, batch, epoch):
    cut = datasets.windows(small, 3)
    found, labels = [], []
    for inputs, some in datasets.batches(cut, batch, epoch, remainder="pad"):
        assert inputs.shape == (3, batch, 2)
        assert inputs.dtype == np.float32
        assert not inputs[:, len(some):].any()
        found += [inputs[:, n].tolist() for n in range(len(some))]
        labels += some.tolist()
    order = np.arange(len(cut)) if epoch is None else np.random.default_rng([0, epoch]).permutation(len(cut))
    assert found == [cut.inputs[n].tolist() for n in order]
    assert labels == cut.labels[order].tolist()


def test_another_remainder_is_refused(small):
    with pytest.raises(ValueError, match="remainder must be 'drop' or 'pad', got 'keep'"):
        next(datasets.batches(datasets.windows(small, 3), 2, remainder="keep"))


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


class Codec:
    def __reduce__(self):
        import codecs

        return codecs.encode, ("text", "rot13")


class Uninitialised:
    def __reduce__(self):
        return np.ndarray, ((2, 3),)


@pytest.mark.parametrize(("content", "said"), [(Codec(), "encodes by 'rot13', where a pickle of arrays has 'latin1'"),
                                               (Uninitialised(), "TypeError: 'str' object is not callable")])
def test_a_pickle_can_neither_choose_a_codec_nor_make_an_array_that_it_does_not_fill(tmp_path, content, said):
    np.save(tmp_path / "watch.npy", np.array(content, dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=said):
        datasets.watch(tmp_path / "watch.npy")


def test_a_number_that_is_damaged_reserves_no_memory(tmp_path):
    header = saved(tmp_path / "watch.npy", {}).read_bytes().partition(b"\n")[0] + b"\n"
    gigabytes = (10**11).to_bytes(8, "little")
    for code in (pickle.BINBYTES8, pickle.BINUNICODE8, pickle.BYTEARRAY8, b"K\x01" + pickle.LONG_BINPUT + b"\xff" * 4):
        (tmp_path / "watch.npy").write_bytes(header + pickle.PROTO + b"\x05" + code + gigabytes)
        tracemalloc.start()
        with pytest.raises(ValueError, match="can't be read as the watch data set"):
            datasets.watch(tmp_path / "watch.npy")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 1e6


def content_of(**changes):
    return {"X": [np.ones((4, 2)), np.zeros((3, 2))], "y": np.array([0, 1]), "subject": np.array([5, 6]),
            "y_labels": ["a", "b"], "X_labels": ["x", "y"]} | changes


def saved(path, content):
    np.save(path, np.array(content, dtype=object), allow_pickle=True)
    return path


def test_only_the_published_file_is_called_published(tmp_path, watch):
    assert watch.source == "watch, in seglearn 1.2.5"
    path = saved(tmp_path / "mine.npy", content_of())
    mine = datasets.watch(path)
    assert mine.source == f"watch, from {path}"
    assert [x.tolist() for x in mine.inputs] == [[[1, 1]] * 4, [[0, 0]] * 3]
    assert (mine.labels.tolist(), mine.subjects.tolist(), mine.classes, mine.channels) == ([0, 1], [5, 6], ("a", "b"), ("x", "y"))


@pytest.mark.parametrize(("changes", "said"), [
    ({"X": [np.ones((4, 2)), np.array([[0, np.nan]])]}, r"inputs\[1\] must be finite, but holds nan at index \(0, 1\)"),
    ({"X": [np.ones((4, 2)), np.array([[1e300, 0]])]}, r"inputs\[1\] must be finite, but holds inf"),
    ({"X": [np.ones((4, 2)), np.ones((3, 3))]}, r"inputs\[1\] must have shape \(steps, 2\).* got \(3, 3\)"),
    ({"X": [np.ones((4, 2)), np.ones(2)]}, r"inputs\[1\] must have shape \(steps, 2\).* got \(2,\)"),
    ({"X": [np.ones((4, 2)), np.ones((0, 2))]}, r"with a step and a channel at least, got \(0, 2\)"),
    ({"X": [np.ones((4, 2)), np.full((4, 2), "1")]}, r"X\[1\] must hold numbers, got <U1"),
    ({"X": [np.ones((4, 2))]}, r"labels must have shape \(1,\), one for each sequence, got \(2,\)"),
    ({"X": 3}, "TypeError: 'int' object is not iterable"),
    ({"y": np.array([0])}, r"labels must have shape \(2,\), one for each sequence, got \(1,\)"),
    ({"y": np.array([0, 2])}, "labels must be at least 0 and less than the 2 classes, got values from 0 to 2"),
    ({"y": np.array([0, -1])}, "got values from -1 to 0"),
    ({"y": np.array([0, np.nan])}, "y must hold integers, got float64"),
    ({"subject": np.array([[5, 6]])}, r"subjects must have shape \(2,\), one for each sequence, got \(1, 2\)"),
    ({"subject": None}, "subject must hold integers, got object"),
    ({"y_labels": ["a", None]}, "classes must be strings"),
])
def test_data_that_are_no_labelled_sequences_are_refused(tmp_path, changes, said):
    with pytest.raises(ValueError, match=f"watch.npy can't be read as the watch data set: .*{said}.*; if it came with seglearn"):
        datasets.watch(saved(tmp_path / "watch.npy", content_of(**changes)))


def test_a_file_damaged_anywhere_is_refused_or_is_another_valid_one(tmp_path):
    """Whatever a damaged pickle raises, what comes out is a ValueError that names the file; and the process goes on."""
    path = saved(tmp_path / "watch.npy", content_of())
    whole, refused = path.read_bytes(), 0
    for place, value in enumerate(np.random.default_rng(0).bytes(len(whole))):
        for damaged in (whole[:place], whole[:place] + bytes([value]) + whole[place + 1:], whole[:place] + whole[place + 1:]):
            path.write_bytes(damaged)
            try:
                datasets.watch(path)
            except ValueError as error:
                assert str(error).startswith(f"{path} can't be read as the watch data set: ")
                refused += 1
    assert refused > 2 * len(whole)


@pytest.mark.parametrize("mask", [[True, False, True, False], [0.0, 2.0]])
def test_a_mask_is_not_taken_for_numbers_of_sequences(small, mask):
    with pytest.raises(TypeError, match=r"chosen must be numbers of sequences, got (bool|float64): of a mask give np\.flatnonzero"):
        small.subset(mask)
    assert small.subset(np.flatnonzero([1, 0, 1, 0])).labels.tolist() == [0, 2]
    assert len(small.subset([])) == 0


def test_a_data_set_that_is_not_installed_says_how_to_get_it(monkeypatch):
    from importlib import metadata

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", missing)
    with pytest.raises(datasets.DatasetUnavailable, match=r"not installed: pip install seglearn==1\.2\.5"):
        datasets.watch()
