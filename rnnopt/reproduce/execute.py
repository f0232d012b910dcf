"""The process that executes one notebook. A job comes in as a line of JSON, events go out the same way.

It holds the kernel and lives as long as its standard input is open: when the
runner ends, however it ends, the system closes that pipe, and this process
takes the kernel down with it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress

from rnnopt.reproduce import failure


class Channel:
    """The way back to the runner, and the kernel that must not outlive it."""

    def __init__(self):
        # The kernel inherits 1 and 2: what it prints before it catches them must not look like an event.
        self._events = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self.job = json.loads(sys.stdin.readline())
        self.kernel = None
        threading.Thread(target=self._end_with_runner, daemon=True).start()

    def tell(self, event: str, **more):
        """Send an event to the runner."""
        self._events.write(json.dumps({"event": event, **more}) + "\n")
        self._events.flush()

    def started(self, process):
        """Remember the kernel, a `subprocess.Popen` that leads a group of its own."""
        self.kernel = process
        self.tell("kernel", pid=process.pid)

    def _end_with_runner(self):
        while os.read(0, 4096):
            pass
        if self.kernel is not None:
            with suppress(OSError, subprocess.TimeoutExpired):
                os.killpg(self.kernel.pid, signal.SIGKILL)
                self.kernel.wait(5)  # until then it may write into the folder that goes next
        shutil.rmtree(self.job["scratch"], ignore_errors=True)
        os._exit(1)


def main():
    channel = Channel()
    # IPython's profile of the user may hold start-up files: what runs here is the notebook and nothing else.
    scratch = channel.job["scratch"]
    os.environ.update(JUPYTER_RUNTIME_DIR=scratch, IPYTHONDIR=os.path.join(scratch, "ipython"))
    # jsonschema imports this for a check that no notebook needs, and it builds a parser for two seconds.
    sys.modules["rfc3987_syntax"] = None
    try:
        from rnnopt.reproduce import engine

        engine.execute(channel)
    except Exception as error:
        ended = channel.kernel.poll() if channel.kernel else None
        channel.tell("failed", **failure.describe(error, ended))
    else:
        channel.tell("done")


if __name__ == "__main__":
    main()
