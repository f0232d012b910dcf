"""A part of a solve as one of several ranks does it: plans, and between them messages from and to its neighbours."""

from __future__ import annotations

from dataclasses import dataclass

from rnnopt.plan import Plan
from rnnopt.schedule.builder import Builder


@dataclass(frozen=True)
class Post:
    """Begin to send what the output buffer `sends` holds to the rank ahead, or to receive from the rank behind, or both."""

    sends: str | None
    receives: bool


@dataclass(frozen=True)
class Wait:
    """Wait for what the rank behind sends; it becomes the input buffer `into`."""

    into: str


class SegmentedBuilder(Builder):
    """Collects a plan until a message comes, and begins the next one after it."""

    def __init__(self):
        super().__init__()
        self._segments = []

    def message(self, message: Post | Wait):
        self._segments += [(dict(self._buffers), tuple(self._operations)), message]
        self._buffers.clear()
        self._operations.clear()

    def segments(self, cells: int) -> tuple[Plan | Post | Wait, ...]:
        """Return plans and messages, in their order."""
        found = [Plan(*part, cells) if isinstance(part, tuple) else part
                 for part in (*self._segments, (dict(self._buffers), tuple(self._operations)))]
        return tuple(part for part in found if not isinstance(part, Plan) or part.operations)
