"""The runner's side of the process that executes a notebook."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path

from rnnopt.reproduce import failure

#: Seconds between two signs of life on a terminal.
TICK = 0.5

#: Seconds that a process gets to end after its pipe was closed.
GRACE = 5


def events(job: dict, environment: dict):
    """Execute a notebook in a process of its own, and yield what happens.

    Yields dictionaries: ``{"event": "cell", "number": 3, "of": 12}``,
    ``{"event": "tick"}`` while nothing happens, and at the end
    ``{"event": "done"}`` or ``{"event": "failed", ...}`` with what
    :mod:`rnnopt.reproduce.failure` says. Close the generator to end the process.
    """
    with tempfile.TemporaryDirectory(prefix="rnnopt-", ignore_cleanup_errors=True) as scratch:
        # A session of its own: Ctrl-C reaches the runner alone, which then ends the rest in order.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rnnopt.reproduce.execute"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, env={**os.environ, **_import_path(), **environment})
        kernel, last, readers = None, None, []
        try:
            messages, errors = queue.SimpleQueue(), deque(maxlen=40)
            readers = [threading.Thread(target=_read_events, args=[process.stdout, messages], daemon=True),
                       threading.Thread(target=errors.extend, args=[process.stderr], daemon=True)]
            for reader in readers:
                reader.start()
            with suppress(BrokenPipeError):  # it ended at once; why is in its last lines
                process.stdin.write(json.dumps({**job, "scratch": scratch}).encode() + b"\n")
                process.stdin.flush()
            while last is None or last["event"] not in ("done", "failed"):
                try:
                    last = messages.get(timeout=TICK)
                except queue.Empty:
                    last = {"event": "tick"}
                if last is None:
                    last = {"event": "failed", "kind": "process", "lines": [],
                            "headline": f"the process that executes the notebook died: {failure.end_of_process(process.wait())}"}
                if last["event"] == "kernel":
                    kernel = last["pid"]
                elif last["event"] == "failed":
                    readers[1].join(timeout=1)
                    yield {**last, "log": _last_lines(errors)}
                else:
                    yield last
        finally:
            _end(process, kernel, readers)


def _import_path():
    """Make the notebook's process and its kernel import this very package, though another may be installed."""
    folder = str(Path(__file__).resolve().parents[2])
    if folder == sysconfig.get_path("purelib"):
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))}


def _read_events(stream, messages):
    for line in stream:
        messages.put(json.loads(line))
    messages.put(None)


def _last_lines(errors):
    lines = [failure.plain(line.decode(errors="replace").rstrip()) for line in list(errors)]
    return [line for line in lines if line][-12:]


def _end(process, kernel, readers):
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    # The kernel leads a group: whatever it started, a compiler perhaps, goes with it.
    if kernel is not None:
        with suppress(OSError):
            os.killpg(kernel, signal.SIGKILL)
    for reader, stream in zip(readers, (process.stdout, process.stderr), strict=False):
        reader.join(timeout=1)
        if not reader.is_alive():  # else something that escaped holds the pipe, and closing would wait for it
            stream.close()
