"""The state of a run in one file, from which it goes on to the same bits."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path

import numpy as np

from rnnopt import paths

FORMAT = "rnnopt training 1"


def save(path: str | PathLike, *, weights: dict[str, np.ndarray], optimizer, **progress):
    """Write weights, the optimiser's state and `progress` into a safetensors file, all or nothing.

    Parameters
    ----------
    path : path-like
    weights : dict of str to ndarray
    optimizer : rnnopt.training.SGD or rnnopt.training.Adam
    **progress
        Anything that JSON can hold: where the run is.
    """
    from safetensors.numpy import save as encode

    tensors = {f"weights/{name}": value for name, value in weights.items()}
    tensors |= {f"optimizer/{name}": value for name, value in optimizer.state.items()}
    about = {"format": FORMAT, "optimizer": type(optimizer).__name__, "steps": optimizer.steps, "progress": progress}
    paths.atomic_write(Path(path), encode(tensors, metadata={"rnnopt": json.dumps(about)}))


def load(path: str | PathLike, *, weights: dict[str, np.ndarray], optimizer) -> dict:
    """Read what :func:`save` wrote into `weights`, in place, and `optimizer`; return its progress.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is damaged, no such state, or that of another network or optimiser; nothing is changed then.
    """
    from safetensors import SafetensorError, safe_open

    if not Path(path).exists():
        raise FileNotFoundError(f"there is no checkpoint {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {}).get("rnnopt", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"{path} is damaged or no safetensors file ({error}): delete it to begin anew") from None
    if about.get("format") != FORMAT:
        raise ValueError(f"{path} is a safetensors file, but no checkpoint of a training run ({FORMAT})")
    if about["optimizer"] != type(optimizer).__name__:
        raise ValueError(f"{path} is of a run with {about['optimizer']}, not {type(optimizer).__name__}")
    saved = {name.partition("/")[2]: value for name, value in tensors.items() if name.startswith("weights/")}
    if {name: value.shape for name, value in saved.items()} != {name: value.shape for name, value in weights.items()}:
        raise ValueError(f"{path} is of another network: it has {_shapes(saved)}, this one {_shapes(weights)}")
    for name, value in saved.items():
        weights[name][...] = value
    optimizer.state = {name.partition("/")[2]: value for name, value in tensors.items() if name.startswith("optimizer/")}
    optimizer.steps = about["steps"]
    return about["progress"]


def _shapes(arrays):
    return ", ".join(f"{name} {'×'.join(map(str, value.shape))}" for name, value in sorted(arrays.items()))
