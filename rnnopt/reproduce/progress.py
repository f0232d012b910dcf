"""What a person sees of a run: one line that changes on a terminal, a line per start and finish in a log."""

from __future__ import annotations

import os
import shutil
from time import monotonic


def duration(seconds: float) -> str:
    """Return a time as people say it: ``4 s``, ``2 min 5 s``, ``1 h 3 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def count(number: int) -> str:
    return f"{number} item" if number == 1 else f"{number} items"


class Progress:
    """Writes to `out`; whether that is a terminal decides how."""

    def __init__(self, out, total: int):
        self.out, self.total = out, total
        self.live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._head, self._start, self._estimate, self._cell = "", 0.0, None, ""

    def line(self, text: str = ""):
        """Write a line that stays."""
        print(("\r\x1b[K" if self.live else "") + text, file=self.out, flush=True)

    def item(self, number: int, item_id: str, text: str):
        """Write a line about an item that stays."""
        self.line(f"[{number}/{self.total}] {item_id}  {text}")

    def start(self, number: int, item_id: str, reason: str, estimate: float | None):
        self._head, self._start, self._estimate, self._cell = f"[{number}/{self.total}] {item_id}", monotonic(), estimate, ""
        about = f"; estimate {duration(estimate)}" if estimate else ""
        if self.live:
            self.tick()
        else:
            self.line(f"{self._head}  started ({reason}{about})")

    def cell(self, number: int, of: int):
        self._cell = f"cell {number} of {of}  "
        self.tick()

    def tick(self):
        """Say that time goes by; in a log, nothing."""
        if self.live:
            of = f" of about {duration(self._estimate)}" if self._estimate else ""
            text = f"{self._head}  {self._cell}{duration(self.seconds)}{of}"
            print("\r\x1b[K" + text[:shutil.get_terminal_size().columns - 1], end="", file=self.out, flush=True)

    def finish(self, text: str):
        about = f"  (estimate {duration(self._estimate)})" if self._estimate else ""
        self.line(f"{self._head}  {text} {duration(self.seconds)}{about}")

    @property
    def seconds(self) -> float:
        return monotonic() - self._start
