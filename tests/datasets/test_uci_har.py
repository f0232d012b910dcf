"""UCI-HAR is read from the folder or the archive as published, and whatever is missing or damaged there is named."""

import hashlib
import io
import shutil
import zipfile

import numpy as np
import pytest

from rnnopt import datasets
from rnnopt.datasets import uci_har
from rnnopt.datasets.checksums import read_checksums

CLASSES = ("WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING")
CHANNELS = [f"{signal}_{axis}" for signal in ("body_acc", "body_gyro", "total_acc") for axis in "xyz"]
WINDOWS = {"train": 4, "test": 3}


def value(part, channel, window, step):
    return 10 * (part == "test") + channel + window / 10 + step / 1000


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small folder in the published layout, with its way of writing numbers."""
    folder = tmp_path_factory.mktemp("har") / "UCI HAR Dataset"
    for part, windows in WINDOWS.items():
        (folder / part / "Inertial Signals").mkdir(parents=True)
        for number, channel in enumerate(CHANNELS):
            lines = ["".join(f" {value(part, number, window, step): .7e}" for step in range(128)) for window in range(windows)]
            (folder / part / "Inertial Signals" / f"{channel}_{part}.txt").write_text("\n".join(lines) + "\n")
        (folder / part / f"y_{part}.txt").write_text("".join(f"{1 + 5 * (n % 2)}\n" for n in range(windows)))
        (folder / part / f"subject_{part}.txt").write_text("".join(f"{1 + (part == 'test')}\n" for n in range(windows)))
    (folder / "activity_labels.txt").write_text("".join(f"{n} {name}\n" for n, name in enumerate(CLASSES, 1)))
    return folder


@pytest.fixture
def folder(made, tmp_path):
    """A copy of it, to damage."""
    return shutil.copytree(made, tmp_path / made.name)


def packed(folder):
    """Return it as an archive, in memory."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in folder.rglob("*"):
            archive.write(path, path.relative_to(folder.parent))
    return stream.getvalue()


def test_windows_have_the_nine_signals_their_activity_and_their_subject(made):
    train, test = uci_har(made, partial=True)
    assert (len(train), len(test)) == (4, 3)
    for part, name in ((train, "train"), (test, "test")):
        expected = [[[value(name, c, w, s) for c in range(9)] for s in range(128)] for w in range(len(part))]
        assert np.stack(part.inputs) == pytest.approx(np.array(expected), rel=1e-6)
        assert part.inputs[0].dtype == np.float32
        assert part.channels == tuple(CHANNELS)
        assert part.classes == CLASSES
    assert (train.labels.tolist(), test.labels.tolist()) == ([0, 5, 0, 5], [0, 5, 0])
    assert (set(train.subjects), set(test.subjects)) == ({1}, {2})
    assert test.source == f"UCI-HAR (test, a part of it), from {made}"


def test_the_folder_its_parent_and_both_archives_hold_the_same(made, tmp_path):
    plain = tmp_path / "UCI HAR Dataset.zip"
    plain.write_bytes(packed(made))
    outer = tmp_path / "human+activity.zip"
    with zipfile.ZipFile(outer, "w") as archive:
        archive.writestr("UCI HAR Dataset.zip", plain.read_bytes())
    train, test = uci_har(made, partial=True)
    for other in (made.parent, plain, outer):
        for part, same in zip(uci_har(other, partial=True), (train, test), strict=True):
            assert (np.stack(part.inputs) == np.stack(same.inputs)).all()
            assert part.labels.tolist() == same.labels.tolist()


def test_a_part_of_the_data_is_not_taken_for_all(made):
    with pytest.raises(ValueError, match=r"train/y_train\.txt, line 5: 7352 lines, .* \(or any number with partial=True\)"):
        uci_har(made)


def test_another_number_of_people_than_was_published_is_refused(made, monkeypatch):
    import sys

    monkeypatch.setattr(sys.modules["rnnopt.datasets.uci_har"], "PARTS", {"train": (4, 1), "test": (3, 9)})
    with pytest.raises(ValueError, match=r"test/subject_test\.txt should name 9 subjects, got 1"):
        uci_har(made)
    monkeypatch.setattr(sys.modules["rnnopt.datasets.uci_har"], "PARTS", {"train": (4, 1), "test": (3, 1)})
    train, _ = uci_har(made)
    assert train.source == f"UCI-HAR (train), from {made}"


@pytest.mark.parametrize("name", ["train/y_train.txt", "test/subject_test.txt", "test/Inertial Signals/body_gyro_z_test.txt",
                                  "activity_labels.txt"])
def test_a_missing_file_is_named_with_where_to_get_it(folder, name):
    (folder / name).unlink()
    for place in (folder, zipped(folder)):
        with pytest.raises(datasets.DatasetUnavailable, match=rf"{name} .* is missing in .*: get 'UCI HAR Dataset.zip' from https://archive"):
            uci_har(place, partial=True)


def zipped(folder):
    path = folder.with_suffix(".zip")
    path.write_bytes(packed(folder))
    return path


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir(), lambda path: zipfile.ZipFile(path, "w").close()],
                         ids=["nothing", "empty folder", "empty archive"])
def test_a_folder_that_is_another_says_what_was_expected_and_where_to_get_it(tmp_path, make):
    make(tmp_path / "har")
    with pytest.raises(datasets.DatasetUnavailable, match=r"should .*'UCI HAR Dataset', with folders 'train' and 'test'.* \(CC BY 4\.0\)"):
        uci_har(tmp_path / "har")


SIGNAL = "train/Inertial Signals/total_acc_y_train.txt"


@pytest.mark.parametrize(("name", "change", "said"), [
    (SIGNAL, lambda lines: lines[:3], "line 4: 4 lines, one for each window, were expected, got 3 lines"),
    (SIGNAL, lambda lines: [*lines[:3], lines[3][:900]], "line 4: 128 values were expected, got 60 values"),
    (SIGNAL, lambda lines: [lines[0].replace("e", "x", 1), *lines[1:]], "line 1: 128 numbers were expected, got could not convert"),
    (SIGNAL, lambda lines: [lines[0], lines[1].replace("7.1010000e+00", "nan", 1)], "line 2: finite numbers were expected, got nan"),
    (SIGNAL, lambda lines: [lines[0].replace("e+00", "e+99", 1), *lines[1:]], "line 1: finite numbers were expected, got 7.0000000e.99"),
    ("train/y_train.txt", lambda lines: ["7", *lines[1:]], "line 1: the number of an activity from 1 to 6 was expected, got '7'"),
    ("train/y_train.txt", lambda lines: [*lines[:3], ""], "line 4: the number of an activity from 1 to 6 was expected, got ''"),
    ("test/subject_test.txt", lambda lines: ["2", "x", "2"], "line 2: the number of a subject from 1 to 30 was expected, got 'x'"),
    ("activity_labels.txt", lambda lines: lines[:5], "line 6: 6 activities were expected, got 5 lines"),
    ("activity_labels.txt", lambda lines: [lines[1], lines[0], *lines[2:]], "line 1: the number 1 and the name of an activity were"),
])
def test_a_damaged_file_is_named_with_its_line_and_what_was_expected(folder, name, change, said):
    path = folder / name
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")
    with pytest.raises(ValueError, match=rf"{name}, {said}.*get 'UCI HAR Dataset.zip' from https://archive"):
        uci_har(folder, partial=True)


def test_bytes_that_are_no_text_are_refused(folder):
    (folder / "train" / "y_train.txt").write_bytes(b"1\n\xff\n")
    with pytest.raises(ValueError, match=r"train/y_train\.txt, byte 2: text was expected, got 0xff"):
        uci_har(folder, partial=True)


def test_empty_files_are_refused(folder):
    for path in (folder / "test").rglob("*.txt"):
        path.write_text("")
    with pytest.raises(ValueError, match="no file of test holds a line"):
        uci_har(folder, partial=True)


def test_somebody_in_both_parts_is_refused(folder):
    (folder / "test" / "subject_test.txt").write_text("1\n2\n2\n")
    with pytest.raises(ValueError, match=r"nobody should be in both parts, but the subjects \[1\] are"):
        uci_har(folder, partial=True)


def test_an_archive_damaged_anywhere_is_refused_or_read_as_it_was(made, tmp_path):
    whole, path = packed(made), tmp_path / "damaged.zip"
    expected, refused = np.stack(uci_har(made, partial=True)[0].inputs), 0
    rng = np.random.default_rng(0)
    for place in rng.integers(len(whole), size=60):
        for damaged in (whole[:place], whole[:place] + rng.bytes(4) + whole[place + 4:]):
            path.write_bytes(damaged)
            try:
                train, _ = uci_har(path, partial=True)
            except (ValueError, datasets.DatasetUnavailable) as error:
                assert str(path) in str(error)
                refused += 1
            else:
                assert (np.stack(train.inputs) == expected).all()
    assert refused > 100


def sums(folder):
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.rglob("*") if path.is_file()}


def test_files_are_compared_with_the_checksums_that_are_given(folder):
    expected = sums(folder)
    archive = zipped(folder)
    for place in (folder, archive):
        uci_har(place, checksums=expected, partial=True)
        with pytest.raises(ValueError, match=r"train/y_train\.txt in .* has the SHA-256 [0-9a-f]{64}, but 0{64} was expected"):
            uci_har(place, checksums={"train/y_train.txt": "0" * 64}, partial=True)


def test_files_are_compared_with_the_folders_own_list(folder):
    expected = sums(folder)
    (folder / "SHA256SUMS").write_text("".join(f"{digits}  ./{name}\n" for name, digits in expected.items()))
    assert datasets.verify(folder) == tuple(expected)
    uci_har(folder, partial=True)
    (folder / "train" / "y_train.txt").write_text("2\n2\n2\n2\n")
    with pytest.raises(ValueError, match=r"train/y_train\.txt in .* the file is damaged or another"):
        uci_har(folder, partial=True)
    uci_har(folder, checksums={}, partial=True)


def test_the_list_may_be_any_that_sha256sum_writes(tmp_path):
    (tmp_path / "SHA256SUMS").write_bytes(b"# made on another day\n" + b"A" * 64 + b" *a name.txt\r\n" + b"b" * 64 + b"  ./x/y\n\n")
    assert read_checksums(tmp_path / "SHA256SUMS") == {"a name.txt": "A" * 64, "x/y": "b" * 64}


def test_a_folder_without_a_list_has_nothing_to_compare(tmp_path):
    assert datasets.verify(tmp_path) == ()


@pytest.mark.parametrize(("text", "said"), [
    ("nothing of the kind", "line 1: 64 hexadecimal digits, two spaces and a name were expected"), ("", "holds no checksum"),
    ("0" * 64 + "  /etc/passwd", "names of files within .* were expected"),
    ("0" * 64 + "  a/../../b", "names of files within .* were expected"),
    ("0" * 64 + "  gone", "gone is not in .*, but a checksum is for it")])
def test_a_list_that_cannot_be_followed_is_refused(tmp_path, text, said):
    (tmp_path / "SHA256SUMS").write_text(text)
    with pytest.raises(ValueError, match=said):
        datasets.verify(tmp_path)


def test_a_checksum_that_is_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match="the checksum of 'a' must be 64 hexadecimal digits, got 'abc'"):
        datasets.verify(tmp_path, {"a": "abc"})
