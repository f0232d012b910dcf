"""Build shared libraries with the C++ compiler, once: a cache that survives anything.

An entry is a folder named by the hash of all that decides its content: source,
headers, flags, compiler and CPU. It holds the library and its checksum, is made
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
        answer = subprocess.run([*command, "--version"], capture_output=True, text=True)
        if answer.returncode == 0:
            return Compiler(command, answer.stdout.splitlines()[0].strip(), FLAGS + _cpu_flags(command))
    raise DeviceUnavailable(f"CXX={' '.join(named)} does not work; {REMEDY}" if named else f"no compiler; {REMEDY}")


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


def build(name: str, source: str, headers: dict[str, str]) -> Path:
    """Return a shared library made from `source`, from the cache or by building it.

    Parameters
    ----------
    name : str
        For people: part of the file's name.
    source : str
        C++ text.
    headers : dict of str to str
        Files that it includes, by name.

    Raises
    ------
    BuildError
        If it does not compile.
    OSError
        If the cache can't be written.
    """
    compiler = find_compiler()
    digest = hashlib.sha256()
    for part in (source, *sum(sorted(headers.items()), ()), *compiler.command, compiler.version, *compiler.flags, cpu()):
        digest.update(part.encode() + b"\0")
    folder = cache_dir() / "host" / f"{name}-{digest.hexdigest()[:32]}"
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    if not _whole(folder, name):
        _build(compiler, name, source, headers, folder)
    return folder / f"{name}.so"


def _whole(folder, name):
    try:
        return hashlib.sha256((folder / f"{name}.so").read_bytes()).hexdigest() == (folder / "sha256").read_text()
    except OSError:
        return False


def _build(compiler, name, source, headers, folder):
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as work:
        work = Path(work)
        for file, text in {**headers, f"{name}.cpp": source}.items():
            (work / file).write_text(text, encoding="utf-8")
        entry = work / "entry"
        entry.mkdir()
        library = entry / f"{name}.so"
        answer = subprocess.run([*compiler.command, *compiler.flags, "-o", str(library), f"{name}.cpp"],
                                cwd=work, capture_output=True, text=True)
        if answer.returncode:
            first = "\n".join(answer.stderr.strip().splitlines()[:12])
            raise BuildError(f"{compiler.command[0]} can't build {name}:\n{first}")
        (entry / "sha256").write_text(hashlib.sha256(library.read_bytes()).hexdigest())
        try:
            os.rename(entry, folder)
        except OSError:  # another process was first, or what is there is broken
            if not _whole(folder, name):
                os.rename(folder, work / "broken")
                os.rename(entry, folder)
