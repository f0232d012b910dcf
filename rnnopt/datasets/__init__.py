"""Real sequences that a package of the environment ships: nothing is downloaded when they are used."""

from rnnopt.datasets.sequences import Sequences, batches, normalised, split_by_subject, windows
from rnnopt.datasets.watch import DatasetUnavailable, watch

__all__ = ["DatasetUnavailable", "Sequences", "batches", "normalised", "split_by_subject", "watch", "windows"]
