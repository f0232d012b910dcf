"""The recordings of BasicMotions are those that were published, wherever their files are."""

from importlib import metadata

import numpy as np
import pytest

from rnnopt import datasets


@pytest.fixture(scope="module")
def parts():
    try:
        return datasets.basic_motions()
    except datasets.DatasetUnavailable as missing:
        pytest.skip(str(missing))


def written(folder, part, sequences=40, steps=100, channels=6):
    """Write a file of one part, whose values count up."""
    lines = ["@problemName BasicMotions", "@classLabel true Standing Running Walking Badminton", "@data"]
    for number in range(sequences):
        dimensions = [",".join(str(number + 100 * channel + step) for step in range(steps)) for channel in range(channels)]
        lines.append(":".join([*dimensions, ("Standing", "Running", "Walking", "Badminton")[number % 4]]))
    (folder / f"BasicMotions_{part}.ts").write_text("\n".join(lines))


@pytest.fixture
def folder(tmp_path):
    for part in ("TRAIN", "TEST"):
        written(tmp_path, part)
    return tmp_path


def test_basic_motions_are_those_that_are_described(parts):
    for part in parts:
        assert part.source == "BasicMotions, in aeon 1.6.0"
        assert {x.shape for x in part.inputs} == {(100, 6)}
        assert {x.dtype for x in part.inputs} == {np.dtype(np.float32)}
        assert np.bincount(part.labels).tolist() == [10, 10, 10, 10]
        assert part.classes == ("Standing", "Running", "Walking", "Badminton")
    assert parts[0].inputs[0][:2, 0].tolist() == [np.float32(0.079106)] * 2
    assert not any((a == b).all() for a in parts[0].inputs for b in parts[1].inputs)


def test_the_recordings_of_a_running_person_are_the_most_shaken(parts):
    shaken = [np.mean([x[:, :3].std() for x, label in zip(parts[0].inputs, parts[0].labels, strict=True) if label == n]) for n in range(4)]
    assert shaken[1] == max(shaken)
    assert shaken[0] == min(shaken)


def test_a_folder_of_both_files_is_read_and_named_as_the_source(folder):
    train, test = datasets.basic_motions(folder)
    assert train.source == f"BasicMotions, from {folder / 'BasicMotions_TRAIN.ts'}"
    assert train.inputs[3][7].tolist() == [3 + 7 + 100 * channel for channel in range(6)]
    assert test.labels.tolist() == [0, 1, 2, 3] * 10


def test_the_subject_of_a_recording_is_its_number_since_nobody_is_named(folder):
    train, test = datasets.basic_motions(folder)
    assert train.subjects.tolist() == list(range(40))
    assert test.subjects.tolist() == list(range(40, 80))


@pytest.mark.parametrize(("changes", "got"), [({"sequences": 39}, r"39 of \(100, 6\) in 4"), ({"steps": 99}, r"40 of \(99, 6\) in 4"),
                                              ({"channels": 5}, r"40 of \(100, 5\) in 4")])
def test_a_part_of_the_data_is_not_taken_for_all(folder, changes, got):
    written(folder, "TEST", **changes)
    with pytest.raises(ValueError, match=rf"TEST.ts can't be read .*: 40 sequences of \(100 steps, 6 channels\) .*, got {got}"):
        datasets.basic_motions(folder)


def test_a_damaged_file_is_named_with_its_line_and_the_remedy(folder):
    path = folder / "BasicMotions_TRAIN.ts"
    path.write_text(path.read_text()[:5000])
    with pytest.raises(ValueError, match=r"_TRAIN\.ts can't be read .*line 6: it has 1 dimensions .*force-reinstall --no-deps aeon==1"):
        datasets.basic_motions(folder)


def test_files_that_are_missing_say_how_to_get_them(tmp_path, monkeypatch):
    with pytest.raises(datasets.DatasetUnavailable, match=r"BasicMotions_TRAIN\.ts is not there: pip install --no-deps aeon==1\.6\.0"):
        datasets.basic_motions(tmp_path)
    monkeypatch.setattr(metadata, "files", lambda name: [])
    with pytest.raises(datasets.DatasetUnavailable, match=r"the installed aeon has no BasicMotions_TRAIN\.ts: pip install --no-deps"):
        datasets.basic_motions()

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", missing)
    with pytest.raises(datasets.DatasetUnavailable, match=r"not installed: pip install --no-deps aeon==1\.6\.0"):
        datasets.basic_motions()
