"""``HMDB51``: 51 human actions in short videos, and their frames.

The layout is the published one: a folder for each class with its videos, and
the files of the three official splits (70 videos of each class to train with,
30 to test with). Instead of a video, a folder of its frames may stand. Nothing
is downloaded: get the data from the page that `PAGE` names.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rnnopt.datasets.watch import DatasetUnavailable

PAGE = "https://serre-lab.clps.brown.edu/resource/hmdb-a-large-human-motion-database/"
REMEDY = f"get hmdb51_org.rar and test_train_splits.rar from {PAGE} and unpack both, and the archive of each class within, to one folder"

SPLITS = "testTrainMulti_7030_splits"
CLASSES, TRAIN, TEST = 51, 70, 30

DECODER_REMEDY = "pip install 'av>=14', or extract its frames to a folder of the video's name, without .avi"

#: What a folder of frames may hold; the files of one frame each.
FRAME_FILES = (".jpg", ".jpeg", ".png", ".npy")


@dataclass(frozen=True)
class Video:
    """A labelled video, not yet read; :func:`frames` reads it.

    Attributes
    ----------
    path : Path
        The video's file, or the folder of its frames.
    label : int
        The number of its class, from 0, by the alphabet.
    class_name : str
    """

    path: Path
    label: int
    class_name: str


def hmdb51(folder: Path, split: int = 1, *, splits: Path | None = None,
           partial: bool = False) -> tuple[tuple[Video, ...], tuple[Video, ...]]:
    """Return the videos to train with, and those to test with.

    Parameters
    ----------
    folder : Path
        It has a folder for each class, with ``NAME.avi`` or a folder ``NAME`` of frames (.jpg, .png or .npy) for each video. Where
        there are both, the frames are taken: they need no decoder.
    split : int
        1, 2 or 3: which of the official splits.
    splits : Path, optional
        Where their files are, if not in ``testTrainMulti_7030_splits`` of `folder`.
    partial : bool
        Whether other numbers of classes and videos than were published are no error.

    Raises
    ------
    DatasetUnavailable
        If a folder, a file of the split, or a video that it names is missing.
    ValueError
        If `split` is another, or the files of the split are damaged; the message names file and line.
    """
    folder = Path(folder)
    splits = folder / SPLITS if splits is None else Path(splits)
    if split not in (1, 2, 3):
        raise ValueError(f"split must be 1, 2 or 3, got {split!r}")
    for path, what in ((folder, "a folder for each class"), (splits, "the files of the official splits")):
        if not path.is_dir():
            raise DatasetUnavailable(f"{path} should hold {what}, but is not there: {REMEDY}")
    suffix = f"_test_split{split}.txt"
    listed = {path.name.removesuffix(suffix): path for path in sorted(splits.glob(f"*{suffix}"))}
    if not listed:
        raise DatasetUnavailable(f"{splits} should hold a file CLASS{suffix} for each class, but has none: {REMEDY}")
    if len(listed) != CLASSES and not partial:
        raise ValueError(f"{splits} should hold files of split {split} for {CLASSES} classes, got {len(listed)}: {REMEDY}; "
                         f"for a part of the data give partial=True")
    train, test = [], []
    for label, (name, file) in enumerate(sorted(listed.items())):
        parts = {1: train, 2: test}
        for video, part in _listed(file, partial):
            if part in parts:
                parts[part].append(Video(_found(folder / name, video), label, name))
    return tuple(train), tuple(test)


def _listed(file, partial):
    """Return the names of videos in a file of a split, each with its part: 1 to train with, 2 to test with, 0 neither."""
    found = {}
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="surrogateescape").split("\n"), 1):
        if not line.strip():
            continue
        match = re.fullmatch(r"\s*(\S.*)\.avi\s+([012])\s*", line)
        if not match or set(match[1]) & set("/\\\0"):
            raise ValueError(f"{file}, line {number}: 'NAME.avi' and 0, 1 or 2 were expected, got {line[:80]!r}: "
                             f"the file is damaged; {REMEDY}")
        if match[1] in found:
            raise ValueError(f"{file}, line {number}: each video was expected once, got {match[1]}.avi again: "
                             f"the file is damaged; {REMEDY}")
        found[match[1]] = int(match[2])
    parts = list(found.values())
    if not partial and (parts.count(1), parts.count(2)) != (TRAIN, TEST):
        raise ValueError(f"{file} should name {TRAIN} videos to train with and {TEST} to test with, got {parts.count(1)} and "
                         f"{parts.count(2)}: the file is damaged or cut off; {REMEDY}; for a part of the data give partial=True")
    return found.items()


def _found(folder, name):
    for path in (folder / name, folder / f"{name}.avi"):
        if path.exists():
            return path
    packed = "; its archive is there, but not unpacked" if folder.with_name(f"{folder.name}.rar").exists() else ""
    raise DatasetUnavailable(f"neither {name}.avi nor a folder {name} of its frames is in {folder}, "
                             f"but the split names it{packed}: {REMEDY}")


def frames(video: Video | Path, count: int, size: int) -> np.ndarray:
    """Return evenly spaced frames of a video: the middle one of each of `count` equal parts.

    A video of fewer frames has some of them more than once. The whole picture is
    squeezed or stretched to a square.

    Parameters
    ----------
    video : Video, or Path
        Or the path of one.
    count, size : int
        How many frames, and how many pixels the side of each has.

    Returns
    -------
    ndarray of float32, shape (count, 3, size, size)
        Red, green and blue, from 0 to 1.

    Raises
    ------
    DatasetUnavailable
        If it is not there, or is a file of a video and no decoder is installed.
    ValueError
        If it can't be read, has no frame, or ends before nine tenths of the frames that it says it has.
    """
    path = Path(getattr(video, "path", video))
    for name, value in (("count", count), ("size", size)):
        if operator.index(value) < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if not path.exists():
        raise DatasetUnavailable(f"the video {path} is not there: {REMEDY}")
    pictures = _of_folder(path, count) if path.is_dir() else _of_file(path, count)
    return np.stack([_resized(picture, size) for picture in pictures])


def _middles(total, count):
    return [(2 * part + 1) * total // (2 * count) for part in range(count)]


def _resized(picture, size):
    """Return (height, width, 3) of uint8 as (3, size, size) of float32."""
    from PIL import Image

    if picture.shape[:2] != (size, size):
        picture = np.asarray(Image.fromarray(picture).resize((size, size), Image.Resampling.BILINEAR))
    return picture.transpose(2, 0, 1).astype(np.float32) / 255


def _of_folder(folder, count):
    files = {}
    for file in folder.iterdir():
        if file.suffix.lower() in FRAME_FILES and not file.name.startswith("."):
            before, number = re.fullmatch(r"(.*?)(\d*)", file.stem).groups()
            files[before, int(number or 0), file.name] = file
    if not files:
        raise ValueError(f"{folder} holds no frame, but files {', '.join(FRAME_FILES)} were expected: "
                         f"extract the frames of the video again")
    kinds = sorted({(before, file.suffix) for (before, *_), file in files.items()})
    if len(kinds) > 1:  # as of optical flow, which some extract beside the pictures
        raise ValueError(f"{folder} holds frames of several kinds ({', '.join(f'{before}*{suffix}' for before, suffix in kinds)}), "
                         f"but those of one were expected, whose names differ in the number at their end: move the others away")
    ordered = [files[key] for key in sorted(files)]
    read = {number: _picture(ordered[number]) for number in set(_middles(len(ordered), count))}
    return [read[number] for number in _middles(len(ordered), count)]


def _picture(file):
    try:
        if file.suffix.lower() == ".npy":
            picture = np.load(file, allow_pickle=False)
            if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or 0 in picture.shape:
                raise ValueError(f"uint8 of shape (height, width, 3) was expected, got {picture.dtype} of shape {picture.shape}")
            return picture
        from PIL import Image

        with Image.open(file) as image:
            return np.asarray(image.convert("RGB"))
    except (ValueError, OSError, EOFError, SyntaxError) as error:  # Pillow has a SyntaxError for some damaged files
        raise ValueError(f"the frame {file} can't be read: {error}; extract the frames of its video again") from None


def _of_file(path, count):
    try:
        import av
    except ImportError:
        raise DatasetUnavailable(f"no decoder is installed that could read {path}: {DECODER_REMEDY}") from None
    try:
        # The number that a file says is often a little wrong, so they are counted.
        with av.open(str(path)) as file:
            said, total = file.streams.video[0].frames, sum(1 for _ in file.decode(video=0))
        if not total or total < 0.9 * said:
            raise ValueError(f"it says that it has {said} frames, got {total}: it is cut off")
        wanted, read = set(_middles(total, count)), {}
        with av.open(str(path)) as file:
            for number, frame in enumerate(file.decode(video=0)):
                if number in wanted:
                    read[number] = frame.to_ndarray(format="rgb24")
    except (av.FFmpegError, ValueError, IndexError) as error:
        said = "it holds no video" if isinstance(error, IndexError) else error
        raise ValueError(f"the video {path} can't be read: {said}; {REMEDY}") from None
    return [read[number] for number in _middles(total, count)]
