"""Small videos that are made, in the layout of HMDB51, to try out what reads those or learns from them."""

from __future__ import annotations

import operator
from pathlib import Path

import numpy as np

from rnnopt.datasets.hmdb51 import SPLITS


def made_videos(folder: Path, classes: int = 4, per_class: int = 10, frames: int = 16, size: int = 32, seed: int = 0) -> Path:
    """Write folders of frames (.png) and files of three splits, and return `folder`; ``hmdb51(folder, partial=True)`` reads them.

    A disk or a square, of any colour, moves over a dark, noisy picture; what leaves at one side comes in at the other. The class
    is the direction alone: one frame does not tell it, nor where the shape starts. In all, it moves by six tenths of the picture.

    Parameters
    ----------
    folder : Path
        It must not be there, or be empty.
    classes : int
        How many directions, evenly spaced, from 2 to 36.
    per_class : int
        How many videos of each, at least 2. Seven tenths are to train with.
    frames, size : int
        How many frames, at least 2, and how many pixels the side of each has, at least 8.
    seed : int

    Raises
    ------
    FileExistsError
        If `folder` holds anything.
    ValueError
        If a number is out of its range.
    """
    for name, value, least in (("classes", classes, 2), ("per_class", per_class, 2), ("frames", frames, 2), ("size", size, 8),
                               ("seed", seed, 0)):
        if operator.index(value) < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    if classes > 36:
        raise ValueError(f"classes must be at most 36, so that their directions differ enough, got {classes}")
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} must be empty or not there, since videos are written to it: give another, or remove it")
    (folder / SPLITS).mkdir(parents=True)
    for label in range(classes):
        angle = 2 * np.pi * label / classes
        name = f"moving_{round(np.degrees(angle)):03d}"
        videos = [f"{name}_{number:03d}" for number in range(per_class)]
        for number, video in enumerate(videos):
            (folder / name / video).mkdir(parents=True)
            _write(folder / name / video, _pictures(np.random.default_rng([seed, label, number]), angle, frames, size))
        for split in (1, 2, 3):
            order = np.random.default_rng([seed, label, per_class, split]).permutation(per_class)
            training = set(order[:min(max(1, per_class * 7 // 10), per_class - 1)].tolist())
            lines = [f"{video}.avi {1 if number in training else 2} \n" for number, video in enumerate(videos)]
            (folder / SPLITS / f"{name}_test_split{split}.txt").write_text("".join(lines), encoding="utf-8")
    return folder


def _pictures(rng, angle, frames, size):
    """Yield (size, size, 3) of uint8."""
    colour, start = rng.uniform(0.5, 1, 3), rng.uniform(0, 1, 2)
    radius, square = rng.uniform(0.12, 0.2), rng.random() < 0.5
    pixels = (np.arange(size) + 0.5) / size
    for number in range(frames):
        row, column = start + 0.6 * number / (frames - 1) * np.array([-np.sin(angle), np.cos(angle)])
        down, across = (np.abs((pixels - centre + 0.5) % 1 - 0.5) for centre in (row, column))
        inside = np.maximum.outer(down, across) < radius if square else np.add.outer(down**2, across**2) < radius**2
        picture = np.where(inside[:, :, None], colour, 0) + rng.uniform(0, 0.2, (size, size, 3))
        yield (255 * np.clip(picture, 0, 1)).astype(np.uint8)


def _write(folder, pictures):
    from PIL import Image

    for number, picture in enumerate(pictures, 1):
        Image.fromarray(picture).save(folder / f"{number:05d}.png")
