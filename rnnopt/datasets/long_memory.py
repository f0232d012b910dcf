"""Made sequences of any length whose class needs a long memory, or is told as that of a recording of motion is."""

from __future__ import annotations

import operator

import numpy as np

from rnnopt.datasets.sequences import Sequences
from rnnopt.datasets.uci_har import CHANNELS
from rnnopt.names import did_you_mean

#: Where the sum of two uniform numbers is cut into four bins that are equally likely: its density is a triangle.
BINS = (np.sqrt(0.5), 1.0, 2 - np.sqrt(0.5))


def long_memory(steps: int, sequences: int, seed: int = 0, task: str = "first", *, classes: int | None = None,
                noise: float = 0.1, subjects: int = 10) -> Sequences:
    """Return labelled sequences of a task; the same for the same arguments.

    A sequence follows from `seed` and its number alone: more of them begin with the same ones. What defines the classes follows
    from neither, so other seeds give other sequences of the same task, as to test with.

    Parameters
    ----------
    steps, sequences : int
    seed : int
    task : str
        ``"first"`` has channels ``value`` and ``mark``. One of the first eight steps is marked by 1, and its value tells the class:
        they are evenly spaced from -1 to 1. All other values are noise, uniform within ±`noise`.

        ``"adding"`` has the same channels. Values are uniform from 0 to 1; one of each half of the steps is marked by 1. The class
        is which of four bins their sum is in; they are equally likely, so the outer ones are wider.

        ``"har_like"`` has nine channels of UCI-HAR's names and 50 Hz. Each channel is a sum of two sinusoids, whose frequencies and
        amplitudes its class tells, with phases of its own, an offset that its subject tells, and normal noise of deviation `noise`.
    classes : int, optional
        4 for ``"first"``, where at least 2 can be chosen; always 4 for ``"adding"``, and 6 for ``"har_like"``.
    noise : float
        From 0, and less than 1 for ``"first"``; not used by ``"adding"``.
    subjects : int
        How many there are. Each gets one sequence of every class in turn (for ``"adding"``, whose classes are drawn, as many).

    Raises
    ------
    TypeError
        If a number is no integer.
    ValueError
        If an argument is out of its range; there is no such task; or its steps are too few: one for ``"first"`` and
        ``"har_like"``, two for ``"adding"``.
    """
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(map(repr, TASKS))}, got {task!r}{did_you_mean(task, TASKS)}")
    make, channels, number_of_classes, fixed = TASKS[task]
    classes = number_of_classes if classes is None else classes
    for name, value, least in (("steps", steps, 2 if task == "adding" else 1), ("sequences", sequences, 1), ("seed", seed, 0),
                               ("classes", classes, 2), ("subjects", subjects, 1)):
        try:
            number = operator.index(value)
        except TypeError:
            raise TypeError(f"{name} must be an integer, got {value!r}") from None
        if number < least:
            raise ValueError(f"{name} must be at least {least} for the task {task!r}, got {value}")
    if fixed and classes != number_of_classes:
        raise ValueError(f"classes must be {number_of_classes} for the task {task!r}, got {classes}: leave it out")
    most = 1 if task == "first" else np.inf
    if not 0 <= noise < most:
        raise ValueError(f"noise must be at least 0, and {'less than 1, the largest value of a mark' if task == 'first' else 'finite'}, "
                         f"got {noise}")
    inputs, labels = [], []
    of = np.arange(sequences) // classes % subjects
    for number in range(sequences):
        # Each has a generator of its own, so that its values don't depend on how many there are.
        sequence, label = make(np.random.default_rng([seed, number]), steps, number % classes, classes, noise,
                               np.random.default_rng([seed, int(of[number]), 1]))
        inputs.append(sequence.astype(np.float32))
        labels.append(label)
    return Sequences(tuple(inputs), np.array(labels, np.int64), of, tuple(f"{task} {number}" for number in range(classes)), channels,
                     f"made here: {task}, {steps} steps, seed {seed}")


def _first(rng, steps, label, classes, noise, _):
    sequence = np.zeros((steps, 2))
    sequence[:, 0] = rng.uniform(-noise, noise, steps)
    sequence[rng.integers(min(8, steps))] = 2 * label / (classes - 1) - 1, 1
    return sequence, label


def _adding(rng, steps, *_):
    sequence = np.zeros((steps, 2))
    sequence[:, 0] = rng.uniform(0, 1, steps).astype(np.float32)  # as what is returned, whose sum must be in the bin
    marked = rng.integers(steps // 2), rng.integers(steps // 2, steps)
    sequence[marked, 1] = 1
    return sequence, int(np.searchsorted(BINS, sequence[marked, 0].sum()))


def _har_like(rng, steps, label, classes, noise, of_subject):
    of_class = np.random.default_rng(label)
    frequencies = of_class.uniform(0.5, 5, (2, len(CHANNELS)))  # Hz: of steps, and of what goes along
    amplitudes = of_class.uniform(0.1, 1, (2, len(CHANNELS)))
    phases = rng.uniform(0, 2 * np.pi, (2, len(CHANNELS)))
    seconds = np.arange(steps)[:, None] / 50
    sequence = of_subject.normal(0, 0.2, len(CHANNELS)) + rng.normal(0, noise, (steps, len(CHANNELS)))
    for frequency, amplitude, phase in zip(frequencies, amplitudes, phases, strict=True):
        sequence += amplitude * np.sin(2 * np.pi * frequency * seconds + phase)
    return sequence, label


#: By its name: what makes a sequence, the channels, how many classes, and whether that is fixed.
TASKS = {"first": (_first, ("value", "mark"), 4, False),
         "adding": (_adding, ("value", "mark"), 4, True),
         "har_like": (_har_like, CHANNELS, 6, True)}
