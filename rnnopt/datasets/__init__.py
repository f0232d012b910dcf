"""Labelled sequences and videos, real or made: nothing is downloaded when they are used.

``watch`` and ``basic_motions`` are in packages' wheels; ``uci_har``, ``hmdb51`` and ``.ts`` files are read from a folder that you have;
``long_memory`` and ``made_videos`` are made here.
"""

from rnnopt.datasets.basic_motions import basic_motions
from rnnopt.datasets.checksums import verify
from rnnopt.datasets.hmdb51 import Video, frames, hmdb51
from rnnopt.datasets.long_memory import long_memory
from rnnopt.datasets.made_videos import made_videos
from rnnopt.datasets.sequences import Sequences, batches, normalised, split_by_subject, windows
from rnnopt.datasets.ts_files import TsFile, parse_ts
from rnnopt.datasets.uci_har import uci_har
from rnnopt.datasets.watch import DatasetUnavailable, watch

__all__ = ["DatasetUnavailable", "Sequences", "TsFile", "Video", "basic_motions", "batches", "frames", "hmdb51", "long_memory",
           "made_videos", "normalised", "parse_ts", "split_by_subject", "uci_har", "verify", "watch", "windows"]
