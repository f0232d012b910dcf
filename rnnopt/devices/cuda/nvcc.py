"""nvcc: where it is, which cards it knows, and what it makes of a kernel file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from rnnopt.devices import DeviceUnavailable

FLAGS = ("-std=c++17", "-lineinfo")

REMEDY = ("install the CUDA toolkit's compiler (conda: cuda-nvcc; Debian and Ubuntu: nvidia-cuda-toolkit), "
          "or name it in the environment variable NVCC")


class CompileError(RuntimeError):
    """nvcc refused a kernel file; the message names file and line."""


@dataclass(frozen=True)
class Compiler:
    """An nvcc of this machine.

    Attributes
    ----------
    command : tuple of str
    version : str
    architectures : tuple of int
        Those that it compiles for, in ascending order: 75 is sm_75.
    """

    command: tuple[str, ...]
    version: str
    architectures: tuple[int, ...]


@dataclass(frozen=True)
class Target:
    """What a kernel is compiled to: machine code (``sm_90``), or PTX for the driver to finish (``compute_90``)."""

    arch: str

    @property
    def flags(self) -> tuple[str, str]:
        return ("-cubin" if self.arch.startswith("sm_") else "-ptx"), f"-arch={self.arch}"


@cache
def find() -> Compiler:
    """Return the nvcc that NVCC names, else that of the path, of CUDA_HOME or CUDA_PATH, or of /usr/local/cuda.

    Raises
    ------
    rnnopt.devices.DeviceUnavailable
        If there is none that works.
    """
    named = os.environ.get("NVCC", "").split()
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    for candidate in [named] if named else [["nvcc"], *([str(Path(root, "bin", "nvcc"))] for root in roots if root)]:
        path = shutil.which(candidate[0])
        if path is None:
            continue
        command = (path, *candidate[1:])
        version = re.search(r"release .*", _ask(command, "--version"))
        known = sorted({int(number) for number in re.findall(r"^sm_(\d+)$", _ask(command, "--list-gpu-code"), re.MULTILINE)})
        if version and known:
            return Compiler(command, f"nvcc {version[0]}", tuple(known))
    raise DeviceUnavailable(f"NVCC={' '.join(named)} does not work: {REMEDY}" if named else f"no nvcc: {REMEDY}")


def _ask(command, option):
    try:
        return subprocess.run([*command, option], capture_output=True, text=True).stdout
    except OSError:
        return ""


def target(capability: tuple[int, int]) -> Target:
    """Return what to compile to for a card of compute capability (major, minor).

    That is machine code where nvcc knows the card, else PTX of the newest
    architecture before it, which the driver compiles for the card.

    Raises
    ------
    rnnopt.devices.DeviceUnavailable
        If the card is older than all that nvcc knows.
    """
    card, compiler = 10 * capability[0] + capability[1], find()
    before = [known for known in compiler.architectures if known <= card]
    if not before:
        raise DeviceUnavailable(f"{compiler.version} compiles for sm_{compiler.architectures[0]} and newer, and the card is "
                                f"sm_{card}: install an older CUDA toolkit")
    return Target(f"sm_{card}" if before[-1] == card else f"compute_{before[-1]}")


def compile(file: str, sources: dict[str, str], target: Target, flags: tuple[str, ...] = ()) -> bytes:
    """Return what nvcc makes of a file.

    Parameters
    ----------
    file : str
        Its name among `sources`.
    sources : dict of str to str
        Text of the file and of the headers that it includes, by name.
    target : Target
    flags : tuple of str
        Further flags, beside :data:`FLAGS`.

    Raises
    ------
    CompileError
        If it does not compile.
    """
    with TemporaryDirectory(prefix="rnnopt-nvcc-") as folder:
        for name, text in sources.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        # Named without a folder, the file is called in messages what it is called here.
        command = [*find().command, *FLAGS, *flags, *target.flags, "-o", "image", file]
        answer = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if answer.returncode:
            lines = (answer.stderr + answer.stdout).strip().splitlines()
            raise CompileError(f"nvcc can't compile {file} for {target.arch}:\n" + "\n".join(lines[:12]))
        return Path(folder, "image").read_bytes()
