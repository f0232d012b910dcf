"""Build libraries and programs with the C++ compiler, once: a cache that survives anything.

An entry is a folder named by the hash of all that decides its content: source,
headers, flags, compiler and CPU. It holds what was built and its checksum, is made
under another name and renamed into place, so that it is whole or not there;
two processes that build the same entry at once both end with a whole one.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rnnopt.devices import DeviceUnavailable
from rnnopt.paths import cache_dir

FLAGS = ("-std=c++20", "-O3", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared", "-pthread")

#: How to ask for this CPU's instructions: the first that the compiler accepts.
CPU_FLAGS = ("-march=native", "-mcpu=native")

REMEDY = ("the host device needs a C++ compiler: install g++ or clang++ (Debian and Ubuntu: apt install g++; "
          "macOS: xcode-select --install), or name one in the environment variable CXX")


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler of this machine."""

    command: tuple[str, ...]
    version: str
    flags: tuple[str, ...]


class BuildError(RuntimeError):
    """The compiler refused a source; the message holds its first lines."""


@cache
def find_compiler() -> Compiler:
    """Return the compiler that CXX names, else the first of c++, g++ and clang++.

    Raises
    ------
    rnnopt.devices.DeviceUnavailable
        If there is none that works.
    """
    named = os.environ.get("CXX", "").split()
    for command in [named] if named else [["c++"], ["g++"], ["clang++"]]:
        path = shutil.which(command[0])
        if path is None:
            continue
        command = (path, *command[1:])
        version = _version(command)
        if version:
            return Compiler(command, version, FLAGS + _cpu_flags(command))
    raise DeviceUnavailable(f"CXX={' '.join(named)} does not work; {REMEDY}" if named else f"no compiler; {REMEDY}")


def _version(command):
    """First line that `command` says of itself, or nothing if it is no compiler for this project's C++."""
    try:
        said = subprocess.run([*command, "--version"], capture_output=True, text=True, errors="replace")
        probe = subprocess.run([*command, "-std=c++20", "-fsyntax-only", "-x", "c++", "-"],
                               input="#include <cstddef>", capture_output=True, text=True, errors="replace")
    except OSError:
        return ""
    works = said.returncode == probe.returncode == 0
    return said.stdout.strip().partition("\n")[0].strip() if works else ""


def _cpu_flags(command):
    for flag in CPU_FLAGS:
        probe = subprocess.run([*command, flag, "-fsyntax-only", "-x", "c++", "-"], input="", capture_output=True, text=True)
        if probe.returncode == 0:
            return (flag,)
    return ()


@cache
def cpu() -> str:
    """Name and instruction sets of this CPU: a library built for one may not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        answer = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True)
        return answer.stdout.strip() or platform.processor() or platform.machine()
    kept = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    return "; ".join(line.split(":", 1)[1].strip() for line in lines if line.startswith(kept))


def build(name: str, source: str, headers: dict[str, str], flags: tuple[str, ...] | None = None) -> Path:
    """Return what `source` builds to, from the cache or by building it.

    Parameters
    ----------
    name : str
        For people: part of the file's name.
    source : str
        C++ text.
    headers : dict of str to str
        Files that it includes, by name.
    flags : tuple of str, optional
        How to build it, if not as a fast shared library; without ``-shared``
        among them it becomes a program.

    Raises
    ------
    BuildError
        If it does not compile.
    OSError
        If the cache can't be written.
    """
    compiler = find_compiler()
    flags = compiler.flags if flags is None else flags
    digest = hashlib.sha256()
    for part in (source, *sum(sorted(headers.items()), ()), *compiler.command, compiler.version, *flags, cpu()):
        digest.update(part.encode() + b"\0")
    folder = cache_dir() / "host" / f"{name}-{digest.hexdigest()[:32]}"
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    file = f"{name}.so" if "-shared" in flags else name
    if not _whole(folder, file):
        _build([*compiler.command, *flags], name, source, headers, folder, file)
    return folder / file


def _whole(folder, file):
    try:
        return hashlib.sha256((folder / file).read_bytes()).hexdigest() == (folder / "sha256").read_text()
    except (OSError, ValueError):  # not there, or no text
        return False


def _build(command, name, source, headers, folder, file):
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as work:
        work = Path(work)
        for path, text in {**headers, f"{name}.cpp": source}.items():
            (work / path).write_text(text, encoding="utf-8")
        entry = work / "entry"
        entry.mkdir()
        answer = subprocess.run([*command, "-o", str(entry / file), f"{name}.cpp"],
                                cwd=work, capture_output=True, text=True, errors="replace")
        if answer.returncode:
            first = "\n".join(answer.stderr.strip().splitlines()[:12])
            raise BuildError(f"{command[0]} can't build {name}:\n{first}")
        (entry / "sha256").write_text(hashlib.sha256((entry / file).read_bytes()).hexdigest())
        for attempt in range(5):
            with suppress(OSError):  # another process was first, or what is there is broken
                os.rename(entry, folder)
            if _whole(folder, file):
                return
            with suppress(OSError):  # another process repairs it too
                os.rename(folder, work / f"broken{attempt}")
        raise OSError(f"{folder} is broken and can't be replaced: delete it")
