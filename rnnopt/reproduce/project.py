"""The folders of a run, and the lock that keeps two runs apart."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rnnopt import paths
from rnnopt.reproduce.notebook import CannotStart


@dataclass(frozen=True)
class Project:
    """Where the runner reads and writes.

    Attributes
    ----------
    root : Path
        Holds ``notebooks/`` and ``data/``.
    build : Path
        Everything generated goes there.
    package : Path
        The package's own folder, with ``kernels/`` in it.
    """

    root: Path
    build: Path
    package: Path

    def notebook(self, item) -> Path:
        return self.root / "notebooks" / item.notebook

    def executed(self, item) -> Path:
        return self.build / "notebooks" / item.notebook

    def partial(self, item) -> Path:
        return self.build / "notebooks" / f"{item.id}.partial.ipynb"

    def report(self, item) -> Path:
        return self.build / "report" / f"{item.id}.html"

    def stamp(self, item) -> Path:
        return self.build / "items" / f"{item.id}.json"

    def manifest(self, item) -> Path:
        return self.build / "items" / f"{item.id}.used.jsonl"

    def shown(self, path: Path) -> str:
        """Return a path as a person in the current folder would type it."""
        return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)

    @contextmanager
    def lock(self):
        """Keep other runners out of the build folder; the lock of a process that has died is nobody's.

        Raises
        ------
        CannotStart
            If another run holds it, or the folder can't be made or written.
        """
        path = self.build / ".lock"
        try:
            self.build.mkdir(parents=True, exist_ok=True)
            file = open(path, "a+", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise CannotStart(f"can't write in {self.build} ({error.strerror}): choose another folder with --build") from None
        with file:
            _lock(file, self.build)
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            self._sweep()
            yield

    def _sweep(self):
        """Delete what a killed process was writing."""
        for folder in ("items", "notebooks", "report", "figures", "tables", "records"):
            for path in (self.build / folder).glob(f".*{paths.UNFINISHED}"):
                path.unlink(missing_ok=True)


def _lock(file, build):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read().strip() or "unknown"
        raise CannotStart(f"another run (process {owner}) is writing to {build}: wait until it ends, "
                          f"or choose another folder with --build") from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):  # some network file systems have no locks
            raise
