"""What a sanitiser reports, in terms of the kernel: its arrays, blocks, threads and lines."""

from __future__ import annotations

import re

from rnnopt.operations import FLOAT_BYTES

_RACE = re.compile(r"^  (Previous )?(?:atomic )?(read|write) of size \d+ at (0x[0-9a-f]+) by (?:thread T(\d+)|main thread).*:\n"
                   r"((?:    .*\n)*)", re.MULTILINE | re.IGNORECASE)
_OUTSIDE = re.compile(r"ERROR: AddressSanitizer: (\S+) .*?(0x[0-9a-f]+).*\n((?:.*\n)*)")
_ACCESS = re.compile(r"\b(READ|WRITE) (?:of size|memory access)")
_UNDEFINED = re.compile(r"([^/\s:]+):(\d+)(?::\d+)?: runtime error: (.*)")
_MISSED = re.compile(r"rnnopt: block (\d+),(\d+): missed barrier (\d+)")
_BARRIERS = re.compile(r"rnnopt: block (\d+),(\d+): barriers (\d+) and (\d+)")
_FAR = 4096  # bytes from an array at which an address is no longer said to be near it


class SanitizerError(RuntimeError):
    """A kernel did what CUDA leaves undefined.

    The message tells what, where and by which thread, one fact to a line.

    Attributes
    ----------
    report : str
        What the sanitiser wrote.
    case : rnnopt.devices.host.checked.Case or None
        The launch in which it was found.
    """

    def __init__(self, message: str, report: str, case):
        super().__init__(message + (f"\n  in the launch {case}" if case else ""))
        self.report, self.case = report, case


def explain(report: str, where: str, case, shared, files) -> str:
    """Return what `report` says, in plain lines.

    Parameters
    ----------
    report : str
        Everything that the checked program wrote to stderr.
    where : str
        What runner.cpp says of the addresses of arrays.
    case : Case or None
        The launch under way.
    shared : sequence of str
        Names of the shared arrays, by number.
    files : dict of str to str
        Text of the sources, by name.
    """
    arrays = _arrays(where, case, shared)
    if "ThreadSanitizer: data race" in report and (accesses := _RACE.findall(report)[:2]):
        return _race(accesses, report, arrays, files)
    if found := _OUTSIDE.search(report):
        kind, address, rest = found.groups()
        does = _ACCESS.search(rest)
        thread = re.search(r"rnnopt: thread (\S+)", report)
        verb = {"READ": "reads", "WRITE": "writes"}[does[1]] if does else "reaches"
        return (f"{kind.replace('-', ' ')}\n  {_thread(thread and thread[1])} {verb} {_element(address, arrays)}, "
                f"{_line(rest, files)}")
    if found := _UNDEFINED.search(report):
        return f"undefined behaviour\n  {found[3]}, {_quote(found[1], int(found[2]), files)}"
    if found := _MISSED.search(report):
        return (f"barrier missed\n  some threads of block ({found[1]}, {found[2]}) ended while others waited for them "
                f"at the __syncthreads() of line {found[3]}")
    if found := _BARRIERS.search(report):
        return (f"barriers mixed up\n  threads of block ({found[1]}, {found[2]}) waited for each other at two "
                f"__syncthreads(), lines {found[3]} and {found[4]}")
    return "the checked program broke off\n  " + "\n  ".join(report.strip().splitlines()[:5] or ["without a word"])


def _race(accesses, report, arrays, files):
    names = [name and name[1] for name in (re.search(rf"Thread T{access[3]} '([^']*)'", report) for access in accesses)]
    blocks = {name.rsplit(",", 1)[0] for name in names if name}
    between = "nothing orders the threads of two blocks" if len(blocks) > 1 else "no barrier lies between"
    lines = [f"data race on {_element(accesses[0][2], arrays)}: {between}"]
    for name, (previous, does, _, _, stack) in zip(names, accesses, strict=True):
        now, then = {"read": ("reads", "read"), "write": ("writes", "wrote")}[does.lower()]
        lines.append(f"  {_thread(name)} {f'{then} it earlier' if previous else f'{now} it'}, {_line(stack, files)}")
    return "\n".join(lines)


def _arrays(where, case, shared):
    """First address, bytes and name of every array of the launch."""
    if case is None:
        return []
    parameters = {}
    for name, array in case.arrays.items():
        parameters.setdefault(id(array), []).append(name)
    names = {"array": [" = ".join(same) for same in parameters.values()],
             "shared": [f"the shared array {name}" for name in shared]}
    return [(int(address, 16), int(size), names[kind][int(number)])
            for kind, number, address, size in re.findall(r"^(array|shared) (\d+) (0x[0-9a-f]+) (\d+)$", where, re.MULTILINE)]


def _element(address, arrays):
    """Say where `address` lies: in an array, or how far outside the nearest."""
    address, near = int(address, 16), []
    for start, size, name in arrays:
        if start <= address < start + size:
            return f"element {(address - start) // FLOAT_BYTES} of {name}"
        after, length = address - start - size, f"{name}, which has {size // FLOAT_BYTES}"
        if 0 <= after < _FAR:
            near.append((after, f"element {(address - start) // FLOAT_BYTES} of {length}"))
        elif 0 < start - address < _FAR:
            near.append((start - address, f"element {(address - start) // FLOAT_BYTES} of {length}"))
    return min(near)[1] if near else "memory of no array"


def _thread(name):
    if not name:
        return "a thread"
    x, y, thread = name.split(",")
    return f"thread {thread} of block ({x}, {y})"


def _line(stack, files):
    """Quote the innermost line of `stack` that lies in the kernel's own sources."""
    for file, number in re.findall(r"([^/\s:]+):(\d+)", stack):
        if file in files:
            return _quote(file, int(number), files)
    return "at a line that the sanitiser could not tell"


def _quote(file, number, files):
    lines = files.get(file, "").splitlines()
    return f"{file}:{number}" + (f"\n      {lines[number - 1].strip()}" if number <= len(lines) else "")
