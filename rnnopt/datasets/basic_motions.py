"""``BasicMotions``: four motions, recorded by a smart watch at 10 Hz.

40 recordings to train with and 40 to test with, 100 steps of 6 channels
(acceleration and angular velocity), 4 classes, of the UEA archive. The files
are part of the wheel of aeon 1.6.0 (BSD-3; the data's own licence is not
stated there). Only they are read; the package's code is never imported, so
what it depends on need not be installed.
"""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path

import numpy as np

from rnnopt.datasets.sequences import Sequences
from rnnopt.datasets.ts_files import parse_ts
from rnnopt.datasets.watch import DatasetUnavailable

REMEDY = "pip install --no-deps aeon==1.6.0 (its wheel holds the data)"

#: SHA-256 of the files in the wheel of aeon 1.6.0.
PUBLISHED = {"BasicMotions_TRAIN.ts": "8dc43cc6306cb679c888c01e26f91772ac4441a916da43bac8b79734a538b9d6",
             "BasicMotions_TEST.ts": "79213102bc6fca1a398ad98ce1185dff0208fa3d1465e687f48288946b0ff8dc"}

#: The files number them; their head says an accelerometer and a gyroscope, in that order.
CHANNELS = ("ax", "ay", "az", "wx", "wy", "wz")


def basic_motions(folder: Path | None = None) -> tuple[Sequences, Sequences]:
    """Return the recordings to train with, and those to test with.

    Four students were recorded, but nothing says which recording is whose: the subject of a recording is its number
    instead, from 0, those to test with after those to train with. So :func:`split_by_subject` cannot keep people apart.

    Parameters
    ----------
    folder : Path, optional
        Where both files are, if not those that are installed. Unless a file is the same, `source` then names its path.

    Raises
    ------
    DatasetUnavailable
        If they are not installed, or not in `folder`.
    ValueError
        If a file can't be read, is damaged, or holds another number of sequences, steps, channels or classes.
    """
    paths = [_installed(name) if folder is None else Path(folder) / name for name in PUBLISHED]
    train, test = (_part(path, 40 * number) for number, path in enumerate(paths))
    return train, test


def _installed(name):
    try:
        files = metadata.files("aeon") or []
    except metadata.PackageNotFoundError:
        raise DatasetUnavailable(f"the data set BasicMotions is not installed: {REMEDY}") from None
    for file in files:
        if file.name == name and Path(file.locate()).exists():
            return Path(file.locate())
    raise DatasetUnavailable(f"the installed aeon has no {name}: {REMEDY}")


def _part(path, first):
    if not path.exists():
        raise DatasetUnavailable(f"{path} is not there: {REMEDY}, or copy both files, {' and '.join(PUBLISHED)}, to that folder")
    try:
        file = path.read_bytes()
        found = parse_ts(file)
        shapes = {x.shape for x in found.inputs}
        if len(found.inputs) != 40 or shapes != {(100, 6)} or len(found.classes) != 4:
            raise ValueError(f"40 sequences of (100 steps, 6 channels) in 4 classes were expected, "
                             f"got {len(found.inputs)} of {', '.join(map(str, sorted(shapes)))} in {len(found.classes)}")
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} can't be read as a part of BasicMotions: {error}; "
                         f"if it came with aeon, install that anew: pip install --force-reinstall --no-deps aeon==1.6.0") from None
    published = hashlib.sha256(file).hexdigest() == PUBLISHED[path.name]
    source = "BasicMotions, in aeon 1.6.0" if published else f"BasicMotions, from {path}"
    return Sequences(found.inputs, found.labels, first + np.arange(40), found.classes, CHANNELS, source)
