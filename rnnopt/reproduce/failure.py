"""Why an item failed, in a few lines for a person: a headline, and what the notebook or the system said."""

from __future__ import annotations

import re
import signal

from rnnopt import paths

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

SMALLER = "try a smaller size: --preset smoke"


def plain(text: str) -> str:
    """Return text without terminal colours."""
    return _ANSI.sub("", text)


def describe(error: Exception, ended: int | None) -> dict:
    """Say what `error` means.

    Parameters
    ----------
    error : Exception
        As the execution raised it.
    ended : int or None
        Exit status of the kernel if it has ended (negative: by that signal).

    Returns
    -------
    dict
        ``kind`` ("cell", "kernel", "disk" or "other"), ``headline``, ``lines``.
    """
    if hasattr(error, "traceback") and hasattr(error, "ename"):  # papermill.PapermillExecutionError, not imported here
        return _of_cell(error)
    if isinstance(error, OSError) and error.errno in paths.FULL_DISK:
        return {"kind": "disk", "headline": str(error), "lines": []}
    # nbclient says that the kernel died, jupyter_client that it did before it answered, neither why.
    if type(error).__name__ == "DeadKernelError" or (ended and isinstance(error, RuntimeError)):
        return {"kind": "kernel", "headline": f"the kernel died: {end_of_process(ended or 0)}", "lines": []}
    return {"kind": "other", "headline": f"{type(error).__name__}: {plain(str(error)) or 'no message'}", "lines": []}


def _of_cell(error):
    """The last lines of a cell's traceback: where in the cell, where in the deepest frame, and the message."""
    lines = [line.rstrip() for line in plain("\n".join(error.traceback)).splitlines()]
    arrows = [line for line in lines if line.startswith(("-->", "---->"))]
    message = plain(f"{error.ename}: {error.evalue}").splitlines()
    full = error.ename == "OSError" and any(f"[Errno {code}]" in error.evalue for code in paths.FULL_DISK)
    return {"kind": "disk" if full else "cell", "headline": message[0],
            "lines": [*message[1:6], *dict.fromkeys([*arrows[:1], *arrows[-1:]])]}


def end_of_process(status: int) -> str:
    """Say how a process ended, and what that usually means."""
    if status >= 0:
        return f"it ended by itself with exit status {status}"
    why = {
        signal.SIGKILL: f"killed, most often by the system for want of memory; {SMALLER}",
        signal.SIGTERM: "somebody or a batch system asked it to end",
        signal.SIGSEGV: "native code touched memory that is not its own",
        signal.SIGBUS: f"a file in memory could not be read, or memory ran out; {SMALLER}",
        signal.SIGABRT: "native code gave up",
        signal.SIGILL: "an instruction that this CPU doesn't have; delete the cache folder that 'rnnopt doctor' names",
        signal.SIGXCPU: f"its limit of CPU time was reached; {SMALLER}",
    }.get(-status)
    known = {number.value: number.name for number in signal.Signals}
    return f"signal {-status}, {known.get(-status, 'unknown')}" + (f" ({why})" if why else "")
