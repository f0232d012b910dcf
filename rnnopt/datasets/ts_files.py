"""Labelled sequences from a ``.ts`` file, the text format of the UEA and UCR archives of time series.

A head of ``@name value`` lines ends with ``@data``. Then each line is one
sequence: its dimensions, with ``:`` between them, and its class last. Values
have ``,`` between them. Lines that start with ``#`` or ``%`` are comments.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TsFile:
    """What a file holds.

    Attributes
    ----------
    problem : str
        The name in its head, or nothing.
    inputs : tuple of ndarray of float32, each (steps, dimensions)
    labels : ndarray of int, shape (sequences,)
        Numbers of classes, in the order of the head.
    classes : tuple of str
    """

    problem: str
    inputs: tuple[np.ndarray, ...]
    labels: np.ndarray
    classes: tuple[str, ...]


def parse_ts(file: bytes) -> TsFile:
    """Return what the bytes of a file say.

    Raises
    ------
    ValueError
        If they are damaged, contradict their head, lack a value, or hold what is no classified sequence: time stamps, or a target that
        is a number. The message names the line.
    """
    lines = [line.strip() for line in file.decode("utf-8-sig").split("\n")]
    head, start = _head(lines)
    classes = _classes(head)
    inputs, labels = [], []
    for number, line in enumerate(lines[start:], start + 1):
        if not line or line[0] in "#%":
            continue
        try:
            *dimensions, label = line.split(":")
            inputs.append(_sequence(dimensions, head, len(inputs[0][0]) if inputs else None))
            labels.append(_number_of(label.strip(), classes))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    if not inputs:
        raise ValueError("no sequence follows its @data; one on each line was expected: the file is cut off")
    return TsFile(head.get("problemname", ""), tuple(inputs), np.array(labels, np.int64), classes)


def _head(lines):
    """Return the head's values by their names in small letters, and where the data start."""
    head = {}
    for number, line in enumerate(lines):
        if not line or line[0] in "#%":
            continue
        name, _, value = line.partition(" ")
        if name.lower() == "@data":
            return head, number + 1
        if not name.startswith("@"):
            raise ValueError(f"line {number + 1}: {_short(line)} stands before @data, where '@name value' or a comment was expected")
        head[name[1:].lower()] = value.strip()
    raise ValueError("it has no line '@data', after which sequences were expected: it is no .ts file, or cut off")


def _classes(head):
    if head.get("timestamps", "false").lower() != "false":
        raise ValueError("its values have time stamps, but evenly spaced values alone were expected (@timeStamps false): "
                         "resample them first")
    given, *classes = head.get("classlabel", "false").split()
    if given.lower() != "true" or not classes:
        raise ValueError(f"@classLabel must be 'true' and the names of all classes, got {head.get('classlabel', 'no such line')!r}: "
                         f"only sequences with classes can be read")
    if len(set(classes)) < len(classes):
        raise ValueError(f"@classLabel must name each class once, got {head['classlabel']!r}")
    return tuple(classes)


def _sequence(dimensions, head, before):
    """Return one sequence, as its line and the head (and the sequence `before`, which had as many dimensions) say."""
    if not dimensions:
        raise ValueError("it has no ':', after which its class was expected: the line is cut off")
    expected = 1 if head.get("univariate", "").lower() == "true" else _count(head, "dimensions") or before
    if expected not in (None, len(dimensions)):
        raise ValueError(f"it has {len(dimensions)} dimensions and then its class, but {expected} were expected: "
                         f"the line is cut off or damaged")
    columns = [_values(text, number) for number, text in enumerate(dimensions, 1)]
    if len(set(map(len, columns))) > 1:
        raise ValueError(f"its dimensions must have equally many values, got {', '.join(str(len(column)) for column in columns)}")
    length = _count(head, "serieslength") if head.get("equallength", "").lower() == "true" else None
    if length not in (None, len(columns[0])):
        raise ValueError(f"it has {len(columns[0])} steps, but {length} were expected (@seriesLength)")
    return np.stack(columns, axis=1)


def _count(head, name):
    text = head.get(name)
    if text is not None and (not text.isdecimal() or int(text) < 1):
        raise ValueError(f"@{name} of the head must be a number from 1, got {text!r}")
    return text and int(text)


def _values(text, dimension):
    words = text.split(",")
    try:
        with np.errstate(over="ignore"):  # what becomes infinite is refused
            values = np.array(list(map(float, words))).astype(np.float32)
        if np.isfinite(values).all():
            return values
    except ValueError:
        pass
    for number, word in enumerate(words, 1):  # only to say which it is
        place = f"value {number} of dimension {dimension}"
        if word.strip().lower() in ("?", "nan"):
            raise ValueError(f"{place} is missing ({word.strip()!r}), but every value is needed: fill missing ones in first")
        try:
            if abs(float(word)) <= float(np.finfo(np.float32).max):
                continue
        except ValueError:
            pass
        raise ValueError(f"{place} must be a finite number that float32 can hold, got {_short(word.strip())}: the file is damaged")
    raise AssertionError("one of the values must have been refused")


def _number_of(label, classes):
    if label not in classes:
        raise ValueError(f"its class must be one of {', '.join(classes)}, which the head names, got {_short(label)}: the line is damaged")
    return classes.index(label)


def _short(text):
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
