"""Labelled sequences, and what training does to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from rnnopt.arrays import as_numpy
from rnnopt.weights import checked_array


@dataclass(frozen=True)
class Sequences:
    """Labelled sequences of several people.

    Attributes
    ----------
    inputs : tuple of ndarray of float32, each (steps, channels)
        Finite; may differ in their steps.
    labels : ndarray of int, shape (sequences,)
        Numbers of classes, from 0.
    subjects : ndarray of int, shape (sequences,)
        Who was recorded.
    classes, channels : tuple of str
    source : str
        Where they come from.

    Raises
    ------
    TypeError
        If inputs are not float32, labels or subjects no integers, or classes or channels no strings.
    ValueError
        If a shape is another, a value is NaN or infinite, or a label is no class.
    """

    inputs: tuple[np.ndarray, ...]
    labels: np.ndarray
    subjects: np.ndarray
    classes: tuple[str, ...]
    channels: tuple[str, ...]
    source: str

    def __post_init__(self):
        for name in ("classes", "channels"):
            if not all(isinstance(text, str) for text in getattr(self, name)):
                raise TypeError(f"{name} must be strings, got {getattr(self, name)!r}")
        for number, sequence in enumerate(self.inputs):
            shape = (np.shape(sequence)[0] if np.ndim(sequence) == 2 else "steps", len(self.channels))
            if 0 in shape or np.shape(sequence) != shape:
                raise ValueError(f"inputs[{number}] must have shape (steps, {len(self.channels)}), with a step and a channel at least, "
                                 f"got {np.shape(sequence)}")
            checked_array(f"inputs[{number}]", sequence, shape, finite=True)
        for name in ("labels", "subjects"):
            values = as_numpy(name, getattr(self, name))
            if not np.issubdtype(values.dtype, np.integer):
                raise TypeError(f"{name} must be integers, got {values.dtype}")
            if values.shape != (len(self),):
                raise ValueError(f"{name} must have shape ({len(self)},), one for each sequence, got {values.shape}")
        if len(self) and (self.labels.min() < 0 or self.labels.max() >= len(self.classes)):
            raise ValueError(f"labels must be at least 0 and less than the {len(self.classes)} classes, "
                             f"got values from {self.labels.min()} to {self.labels.max()}")

    def __len__(self):
        return len(self.inputs)

    def subset(self, chosen) -> Sequences:
        """Return those whose numbers are `chosen`."""
        chosen = np.asarray(chosen)
        if chosen.size and not np.issubdtype(chosen.dtype, np.integer):  # True and False would be sequences 1 and 0
            raise TypeError(f"chosen must be numbers of sequences, got {chosen.dtype}: of a mask give np.flatnonzero(mask)")
        chosen = chosen.astype(int)
        return replace(self, inputs=tuple(self.inputs[n] for n in chosen), labels=self.labels[chosen], subjects=self.subjects[chosen])


def windows(sequences: Sequences, steps: int, stride: int | None = None) -> Sequences:
    """Cut every sequence into windows of `steps`, each `stride` (`steps`, if not given) after the one before.

    What is left at the end of a sequence is left out.
    """
    stride = steps if stride is None else stride
    if min(steps, stride) < 1:
        raise ValueError(f"steps and stride must be at least 1, got {steps} and {stride}")
    cut = [(number, start) for number, sequence in enumerate(sequences.inputs)
           for start in range(0, len(sequence) - steps + 1, stride)]
    if not cut:
        raise ValueError(f"no sequence has the {steps} steps of a window; the longest has {max(map(len, sequences.inputs), default=0)}")
    of = sequences.subset([number for number, _ in cut])
    return replace(of, inputs=tuple(sequences.inputs[number][start:start + steps] for number, start in cut))


def split_by_subject(sequences: Sequences, held_out: Iterable[int]) -> tuple[Sequences, Sequences]:
    """Return the sequences of everybody else, and those of the subjects `held_out`: nobody is in both."""
    held = np.isin(sequences.subjects, list(held_out))
    if held.all() or not held.any():
        raise ValueError(f"held_out must leave some subjects on each side; there are {sorted(set(sequences.subjects.tolist()))}")
    return sequences.subset(np.flatnonzero(~held)), sequences.subset(np.flatnonzero(held))


def normalised(training: Sequences, *others: Sequences) -> tuple[Sequences, ...]:
    """Scale channels to mean 0 and variance 1 over `training`; the others by the same numbers."""
    rows = np.concatenate(training.inputs).astype(np.float64)
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    deviation[deviation == 0] = 1
    return tuple(replace(part, inputs=tuple(((x - mean) / deviation).astype(np.float32) for x in part.inputs))
                 for part in (training, *others))


def batches(sequences: Sequences, batch: int, epoch: int | None = None, seed: int = 0,
            remainder: str = "drop") -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield mini-batches of sequences that have equally many steps: inputs (steps, batch, channels), labels (batch,).

    The order follows from `seed` and `epoch`, and is theirs if no epoch is given.

    Parameters
    ----------
    sequences : Sequences
    batch : int
    epoch : int, optional
    seed : int
    remainder : str
        What becomes of the last sequences, too few for a whole mini-batch. ``"drop"`` leaves them out of this epoch, as
        training does. ``"pad"`` fills the mini-batch up with zeros, but gives labels of the real sequences only, which
        come first: :func:`rnnopt.training.evaluate` counts as many as have labels, and training refuses them.

    Raises
    ------
    ValueError
        If there are fewer sequences than one mini-batch (and they are dropped), they differ in their steps, or `remainder` is another.
    """
    if remainder not in ("drop", "pad"):
        raise ValueError(f"remainder must be 'drop' or 'pad', got {remainder!r}")
    if batch < 1 or (remainder == "drop" and batch > len(sequences)):
        raise ValueError(f"batch must be from 1 to the {len(sequences)} sequences there are, got {batch}: "
                         f"remainder='pad' fills a larger one up, for evaluation")
    if len({len(sequence) for sequence in sequences.inputs}) > 1:
        raise ValueError("sequences of a mini-batch must have equally many steps: cut windows of them first")
    order = np.arange(len(sequences)) if epoch is None else np.random.default_rng([seed, epoch]).permutation(len(sequences))
    for start in range(0, len(order) if remainder == "pad" else len(order) - batch + 1, batch):
        chosen = order[start:start + batch]
        filling = [np.zeros_like(sequences.inputs[0])] * (batch - len(chosen))
        yield np.stack([sequences.inputs[n] for n in chosen] + filling, axis=1), sequences.labels[chosen]
