"""Builds of kernels, and of the program that runs them, with sanitisers in them."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from functools import cache
from pathlib import Path

from rnnopt import kernels
from rnnopt.devices import DeviceUnavailable
from rnnopt.devices.host import compiler

FOLDER = Path(__file__).parent

#: What can be looked for, and the compiler's word for the sanitisers that find it.
SANITIZERS = {"memory": "address,undefined", "races": "thread"}

FLAGS = ("-std=c++20", "-O1", "-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all", "-pthread")

# One exit status for all; wide red zones, so that a step far out of an array does not land in the next one; enough
# memory of who touched what that both sides of a race are known.
OPTIONS = {"ASAN_OPTIONS": "exitcode=66:redzone=1024:detect_leaks=0", "UBSAN_OPTIONS": "exitcode=66:print_stacktrace=0",
           "TSAN_OPTIONS": "exitcode=66:halt_on_error=1:history_size=3:report_thread_leaks=0"}

_SHARED = re.compile(r"(?<!extern )__shared__\s+(\w+)\s+(\w+)\s*((?:\[[^][;]*\]\s*)*);")
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def flags(look_for: str) -> tuple[str, ...]:
    """Return the compiler's flags for a build that looks for "memory" or "races"."""
    if look_for not in SANITIZERS:
        raise ValueError(f"look_for must be one of {', '.join(map(repr, SANITIZERS))}, got {look_for!r}")
    return (*FLAGS, f"-fsanitize={SANITIZERS[look_for]}")


def runner(look_for: str) -> tuple[str, ...]:
    """Return the command of the program that runs kernels, built if need be.

    Raises
    ------
    rnnopt.devices.DeviceUnavailable
        If there is no compiler, or the sanitiser does not work here; the message says what stands in the way.
    """
    prefix, why = _probe(look_for)
    if why:
        raise DeviceUnavailable(f"looking for {look_for} needs -fsanitize={SANITIZERS[look_for]}, which does not work here: {why}")
    headers = {"checked.h": _words(), "threads.h": (FOLDER / "threads.h").read_text(encoding="utf-8")}
    source = (FOLDER / "runner.cpp").read_text(encoding="utf-8")
    return (*prefix, str(compiler.build(f"runner-{look_for}", source, headers, flags(look_for))))


@cache
def _probe(look_for):
    """What a command must begin with here, and why it can't work."""
    source = "#include <thread>\nint main() { std::thread([] {}).join(); }\n"
    try:
        program = compiler.build(f"probe-{look_for}", source, {}, flags(look_for))
    except compiler.BuildError as error:
        return (), str(error).splitlines()[1]
    # ThreadSanitizer wants its own part of the address space, which randomised addresses may have taken.
    for prefix in [(), ("setarch", platform.machine(), "-R")]:
        try:
            answer = execute([*prefix, str(program)], timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
            continue
        if answer.returncode == 0:
            return prefix, ""
        why = answer.stderr.strip().splitlines()[0] if answer.stderr.strip() else f"status {answer.returncode}"
    return (), why


def execute(command, timeout):
    """Run a program with sanitisers in it; `subprocess.TimeoutExpired` after `timeout` seconds."""
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout,
                          stdin=subprocess.DEVNULL, env=_environment())


@cache
def _environment():
    """Clang's sanitisers ask llvm-symbolizer for the lines of a report, which need not be on the path; GCC's know them."""
    question = [*compiler.find_compiler().command, "-print-prog-name=llvm-symbolizer"]
    symbolizer = subprocess.run(question, capture_output=True, text=True).stdout.strip()
    places = [os.environ.get("PATH", os.defpath), os.path.dirname(symbolizer)]
    return os.environ | OPTIONS | {"PATH": os.pathsep.join(filter(None, places))}


def library(path: Path, files: dict[str, str], names: list[str], look_for: str) -> tuple[Path, list[str]]:
    """Build the kernels called `names` of the ``.cu`` file at `path`.

    Returns
    -------
    library : Path
    shared : list of str
        Names of the shared arrays, by the number that the library knows them by.
    """
    files, shared = _with_shared_arrays(files)
    entries = "\n".join(f"ENTRY({name})" for name in names)
    source = f'#include "checked.h"\n#include "{path.name}"\nSHARED_SIZES\n{entries}\n'
    name = re.sub(r"\W", "_", path.stem)
    return compiler.build(f"{name}-{look_for}", source, files | {"checked.h": _words()},
                          (*flags(look_for), "-fPIC", "-shared")), shared


def _words():
    return (FOLDER.parent / "checked.h").read_text(encoding="utf-8")


def sources(path: Path) -> dict[str, str]:
    """Text of the file at `path` and of all it includes from beside it or from rnnopt's kernels, by name."""
    found, pending = {path.name: path.read_text(encoding="utf-8")}, [path.name]
    while pending:
        for name in _INCLUDE.findall(found[pending.pop()]):
            places = [folder / name for folder in (path.parent, kernels.FOLDER) if (folder / name).is_file()]
            if name not in found and places:
                found[name] = places[0].read_text(encoding="utf-8")
                pending.append(name)
    return found


def _with_shared_arrays(files):
    """Make each ``__shared__`` array a reference to the block's own; return the files and the arrays' names.

    A C++ macro can't: the block must own the array, and the name stands in the middle of its declaration.
    """
    names = []

    def declare(match):
        kind, name, extents = match[1], match[2], match[3].strip()
        names.append(name)
        changed = f"{kind} (&{name}){extents} = checked::shared<{kind}{extents}, {len(names) - 1}>();"
        return changed + "\n" * (match[0].count("\n") - changed.count("\n"))

    changed = {file: _SHARED.sub(declare, text) for file, text in files.items()}
    for file, text in changed.items():
        for number, line in enumerate(text.splitlines(), 1):
            if "__shared__" in line.split("//")[0]:
                raise ValueError(f"{file}:{number}: '{line.strip()}' is not understood; "
                                 f"declare each shared array alone, as '__shared__ float name[size];'")
    return changed, names
