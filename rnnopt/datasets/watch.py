"""``watch``: shoulder exercises, recorded by a smart watch at 50 Hz.

140 recordings of 7 exercises by 10 people, 947 to 2618 steps of 6 channels
(acceleration and angular velocity). The file is part of the wheel of seglearn
1.2.5 (BSD-3; the data's own licence is not stated there). Only the file is
read; the package's code is never imported, since it is old.
"""

from __future__ import annotations

import hashlib
import io
from importlib import metadata
from pathlib import Path

import numpy as np

from rnnopt.datasets import pickled
from rnnopt.datasets.sequences import Sequences

REMEDY = "pip install seglearn==1.2.5 (its wheel holds the data), or make env"

#: SHA-256 of the file in the wheel of seglearn 1.2.5.
PUBLISHED = "eb122f23cdf06ef6bd6c6c5312958ec5cf9d038e2e6d457b8081662c75a42537"


class DatasetUnavailable(RuntimeError):
    """A data set is not installed; the message is the remedy."""


def watch(path: Path | None = None) -> Sequences:
    """Return the recordings.

    Parameters
    ----------
    path : Path, optional
        The file, if not the one that is installed. Unless it is the same, `source` then names the path.

    Raises
    ------
    DatasetUnavailable
        If it is not installed.
    ValueError
        If the file can't be read, is damaged, names anything that is no array, or holds what are no labelled sequences.
    """
    path = _installed() if path is None else Path(path)
    try:
        file = path.read_bytes()
        published = hashlib.sha256(file).hexdigest() == PUBLISHED
        return _sequences(_content(file), "watch, in seglearn 1.2.5" if published else f"watch, from {path}")
    except Exception as error:  # there is nothing that a damaged pickle could not raise
        said = str(error) if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} can't be read as the watch data set: {said}; "
                         f"if it came with seglearn, install that anew: pip install --force-reinstall --no-deps seglearn==1.2.5") from None


def _installed():
    try:
        files = metadata.files("seglearn") or []
    except metadata.PackageNotFoundError:
        raise DatasetUnavailable(f"the watch data set is not installed: {REMEDY}") from None
    for file in files:
        if file.name == "watch_dataset.npy" and Path(file.locate()).exists():
            return Path(file.locate())
    raise DatasetUnavailable(f"the installed seglearn has no watch_dataset.npy: {REMEDY}")


def _sequences(content, source):
    missing = {"X", "y", "subject", "y_labels", "X_labels"} - content.keys()
    if missing:
        raise ValueError(f"it lacks {', '.join(sorted(missing))}")
    inputs = [_numbers(f"X[{number}]", x, "fiu") for number, x in enumerate(pickled.value(content["X"]))]
    with np.errstate(over="ignore"):  # what becomes infinite is refused
        inputs = tuple(x.astype(np.float32) for x in inputs)
    labels, subjects = (_numbers(name, content[name], "iu").astype(np.int64) for name in ("y", "subject"))
    classes, channels = (tuple(pickled.value(content[name])) for name in ("y_labels", "X_labels"))
    return Sequences(inputs, labels, subjects, classes, channels, source)


def _numbers(name, found, kinds):
    array = np.asarray(pickled.value(found))
    if array.dtype.kind not in kinds:
        raise ValueError(f"{name} must hold {'numbers' if 'f' in kinds else 'integers'}, got {array.dtype}")
    return array


def _content(file):
    stream = io.BytesIO(file)
    np.lib.format.read_magic(stream)
    np.lib.format.read_array_header_1_0(stream)
    content = pickled.value(pickled.Unpickler(stream, encoding="latin1").load())
    if not isinstance(content, dict):
        raise ValueError(f"it holds {type(content).__name__}, not a dict")
    return content
