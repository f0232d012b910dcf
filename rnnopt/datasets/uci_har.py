"""``UCI-HAR``: six activities of 30 people, recorded by a smartphone at their waist at 50 Hz.

10299 windows of 128 steps of 9 channels, in the layout in which the UCI
repository gives them ("Human Activity Recognition Using Smartphones", CC BY
4.0). Nothing is downloaded: get the data from the page that `PAGE` names.
"""

from __future__ import annotations

import contextlib
import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from rnnopt.datasets.checksums import compare, verify
from rnnopt.datasets.sequences import Sequences
from rnnopt.datasets.watch import DatasetUnavailable

PAGE = "https://archive.ics.uci.edu/dataset/240/human+activity+recognition+using+smartphones"
REMEDY = f"get 'UCI HAR Dataset.zip' from {PAGE} (CC BY 4.0) and give it, or the folder that it unpacks to"

FOLDER = "UCI HAR Dataset"
STEPS = 128
CHANNELS = tuple(f"{signal}_{axis}" for signal in ("body_acc", "body_gyro", "total_acc") for axis in "xyz")

#: What a damaged archive raises, or one that is encrypted or packed by a method that Python lacks.
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError)

#: How many windows of how many people each part has.
PARTS = {"train": (7352, 21), "test": (2947, 9)}


def uci_har(folder: Path, *, checksums: Mapping[str, str] | None = None, partial: bool = False) -> tuple[Sequences, Sequences]:
    """Return the windows to train with, and those of other people to test with, by the published split.

    Parameters
    ----------
    folder : Path
        The folder ``UCI HAR Dataset``, one that holds it, or the archive itself (also as the repository packs it, within another).
    checksums : mapping of str to str, optional
        SHA-256 by the names of files within the folder, such as ``"train/y_train.txt"``. If not given, those in the folder's
        ``SHA256SUMS`` are compared, if it has one (see :func:`rnnopt.datasets.verify`).
    partial : bool
        Whether fewer windows than were published, or fewer people, are no error.

    Raises
    ------
    DatasetUnavailable
        If the folder, or a file of it, is missing.
    ValueError
        If a file is damaged or cut off, or is another than its checksum says; the message names file and line.
    """
    with contextlib.ExitStack() as stack:
        files = _opened(Path(folder), stack)
        if checksums is not None:
            compare(checksums, files.bytes, files.where)
        elif isinstance(files, _Folder):
            verify(files.where)
        classes = _classes(files)
        train, test = (_part(files, part, classes, partial) for part in PARTS)
    both = sorted(set(train.subjects.tolist()) & set(test.subjects.tolist()))
    if both:
        raise ValueError(f"{files.where}: nobody should be in both parts, but the subjects {both} are: the files are damaged; {REMEDY}")
    return train, test


class _Folder:
    def __init__(self, where):
        self.where = where

    def bytes(self, name):
        return (self.where / name).read_bytes()


class _Archive:
    """The folder, packed: `prefix` is its name in the archive."""

    def __init__(self, where, archive, prefix):
        self.where, self.archive, self.prefix = where, archive, prefix

    def bytes(self, name):
        try:
            return self.archive.read(self.prefix + name)
        except KeyError:
            raise FileNotFoundError(name) from None
        except DAMAGED as error:
            raise ValueError(f"{self.where}: {name} can't be unpacked ({error}): the archive is damaged; {REMEDY}") from None


def _opened(path, stack):
    if path.is_file():
        return _opened_archive(path, stack)
    for folder in (path, path / FOLDER):
        if (folder / "train").is_dir():
            return _Folder(folder)
    raise DatasetUnavailable(f"{path} should be the folder {FOLDER!r}, with folders 'train' and 'test', but "
                             f"{'has no such folders' if path.is_dir() else 'is not there'}: {REMEDY}")


def _opened_archive(path, stack):
    try:
        archive = stack.enter_context(zipfile.ZipFile(path))
        inner = [name for name in archive.namelist() if name.rpartition("/")[2] == f"{FOLDER}.zip"]
        if inner:  # the repository packs the archive of the authors into another
            archive = stack.enter_context(zipfile.ZipFile(io.BytesIO(archive.read(inner[0]))))
    except (*DAMAGED, OSError) as error:
        raise ValueError(f"{path} can't be read as an archive ({error}): it is damaged or cut off; {REMEDY}") from None
    for prefix in ("", f"{FOLDER}/"):
        if any(name.startswith(f"{prefix}train/") for name in archive.namelist()):
            return _Archive(path, archive, prefix)
    raise DatasetUnavailable(f"{path} should hold the folder {FOLDER!r}, with folders 'train' and 'test', "
                             f"but has no such folders: {REMEDY}")


def _lines(files, name):
    """Return the lines of a text file."""
    try:
        text = files.bytes(name).decode("ascii")
    except OSError as error:
        kind = "is missing" if isinstance(error, FileNotFoundError) else f"can't be read ({error})"
        raise DatasetUnavailable(f"{name} of the data set UCI-HAR {kind} in {files.where}: {REMEDY}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{files.where}: {name}, byte {error.start}: text was expected, got {error.object[error.start]:#04x}: "
                         f"the file is damaged; {REMEDY}") from None
    return text.splitlines()


def _damaged(files, name, line, expected, got):
    return ValueError(f"{files.where}: {name}, line {line}: {expected} expected, got {got}: the file is damaged or cut off; {REMEDY}")


def _classes(files):
    name, classes = "activity_labels.txt", []
    for number, line in enumerate(_lines(files, name), 1):
        words = line.split()
        if len(words) != 2 or words[0] != str(number):
            raise _damaged(files, name, number, f"the number {number} and the name of an activity were", repr(line[:40]))
        classes.append(words[1])
    if len(classes) != 6:
        raise _damaged(files, name, len(classes) + 1, "6 activities were", f"{len(classes)} lines")
    return tuple(classes)


def _integers(files, name, most, what):
    """Return the numbers of a file that has one on each line, from 1 to `most`."""
    lines = _lines(files, name)
    for number, line in enumerate(lines, 1):
        if not line.strip().isdecimal() or not 1 <= int(line) <= most:
            raise _damaged(files, name, number, f"{what} from 1 to {most} was", repr(line[:40]))
    return np.array(lines, np.int64)


def _signal(files, name):
    """Return the windows of one channel, (windows, steps)."""
    windows = []
    for number, line in enumerate(_lines(files, name), 1):
        words = line.split()
        if len(words) != STEPS:
            raise _damaged(files, name, number, f"{STEPS} values were", f"{len(words)} values")
        try:
            with np.errstate(over="ignore"):  # what becomes infinite is refused
                window = np.array(list(map(float, words))).astype(np.float32)
        except ValueError as error:
            raise _damaged(files, name, number, f"{STEPS} numbers were", str(error)) from None
        if not np.isfinite(window).all():
            raise _damaged(files, name, number, "finite numbers were", words[int(np.argmin(np.isfinite(window)))])
        windows.append(window)
    return np.array(windows, np.float32).reshape(-1, STEPS)


def _part(files, part, classes, partial):
    labels = _integers(files, f"{part}/y_{part}.txt", len(classes), "the number of an activity")
    subjects = _integers(files, f"{part}/subject_{part}.txt", 30, "the number of a subject")
    signals = {name: _signal(files, f"{part}/Inertial Signals/{name}_{part}.txt") for name in CHANNELS}
    counts = {f"y_{part}.txt": len(labels), f"subject_{part}.txt": len(subjects)}
    counts |= {f"Inertial Signals/{name}_{part}.txt": len(signal) for name, signal in signals.items()}
    windows, people = (max(counts.values()), None) if partial else PARTS[part]
    for name, count in counts.items():
        if count != windows:
            expected = f"{windows} lines, one for each window{'' if partial else ' (or any number with partial=True)'}, were"
            raise _damaged(files, f"{part}/{name}", min(count, windows) + 1, expected, f"{count} lines")
    if not windows:
        raise ValueError(f"{files.where}: no file of {part} holds a line, but one for each window was expected; {REMEDY}")
    if people not in (None, len(set(subjects.tolist()))):
        raise ValueError(f"{files.where}: {part}/subject_{part}.txt should name {people} subjects, got {len(set(subjects.tolist()))}: "
                         f"the file is damaged; {REMEDY}")
    inputs = tuple(np.stack(list(signals.values()), axis=2))
    return Sequences(inputs, labels - 1, subjects, classes, CHANNELS, f"UCI-HAR ({part}{', a part of it' * partial}), from {files.where}")
