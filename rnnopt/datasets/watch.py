"""``watch``: shoulder exercises, recorded by a smart watch at 50 Hz.

140 recordings of 7 exercises by 10 people, 947 to 2618 steps of 6 channels
(acceleration and angular velocity). The file is part of the wheel of seglearn
1.2.5 (BSD-3; the data's own licence is not stated there). Only the file is
read; the package's code is never imported, since it is old.
"""

from __future__ import annotations

import pickle
from importlib import metadata
from pathlib import Path

import numpy as np

from rnnopt.datasets.sequences import Sequences

REMEDY = "pip install seglearn==1.2.5 (its wheel holds the data), or make env"

#: All that the file's pickle may name.
_ALLOWED = {"_codecs": {"encode"}, "numpy": {"ndarray", "dtype"}, "numpy.core.multiarray": {"_reconstruct"},
            "numpy._core.multiarray": {"_reconstruct"}}


class DatasetUnavailable(RuntimeError):
    """A data set is not installed; the message is the remedy."""


def watch(path: Path | None = None) -> Sequences:
    """Return the recordings.

    Parameters
    ----------
    path : Path, optional
        The file, if not the one that is installed.

    Raises
    ------
    DatasetUnavailable
        If it is not installed.
    ValueError
        If the file is damaged, or names anything that is no array.
    """
    path = _installed() if path is None else Path(path)
    content = _read(path)
    missing = {"X", "y", "subject", "y_labels", "X_labels"} - content.keys()
    if missing:
        raise ValueError(f"{path} lacks {', '.join(sorted(missing))}: it is not the watch data set")
    return Sequences(tuple(np.asarray(x, np.float32) for x in content["X"]), np.asarray(content["y"], np.int64),
                     np.asarray(content["subject"], np.int64), tuple(content["y_labels"]), tuple(content["X_labels"]),
                     "watch, in seglearn 1.2.5")


def _installed():
    try:
        files = metadata.files("seglearn") or []
    except metadata.PackageNotFoundError:
        raise DatasetUnavailable(f"the watch data set is not installed: {REMEDY}") from None
    for file in files:
        if file.name == "watch_dataset.npy" and Path(file.locate()).exists():
            return Path(file.locate())
    raise DatasetUnavailable(f"the installed seglearn has no watch_dataset.npy: {REMEDY}")


class _Unpickler(pickle.Unpickler):
    """A pickle may run anything; this one may only make arrays."""

    def find_class(self, module, name):
        if name not in _ALLOWED.get(module, ()):
            raise ValueError(f"it names {module}.{name}, which is no part of an array")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _read(path):
    try:
        with open(path, "rb") as file:
            np.lib.format.read_magic(file)
            np.lib.format.read_array_header_1_0(file)
            array = _Unpickler(file, encoding="latin1").load()
            content = array.item()
    except (OSError, EOFError, ValueError, pickle.UnpicklingError, AttributeError) as error:
        raise ValueError(f"{path} can't be read as the watch data set: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds {type(content).__name__}, not the watch data set")
    return content
