"""Locks that do not stay closed in a forked child."""

from __future__ import annotations

import os
from threading import Lock


class ProcessLock:
    """A lock for each process: ``with lock():`` keeps the threads of this one apart.

    A child forked while another thread held an ordinary lock would wait for it
    for ever: that thread is not in the child.
    """

    def __init__(self):
        self._locks = {}

    def __call__(self) -> Lock:
        # The lock itself is what `with` gets: an interrupt between its being taken and the block can't leave it closed.
        return self._locks.setdefault(os.getpid(), Lock())
