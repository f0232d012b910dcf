"""The CUDA C++ kernels, and what their sources say of themselves.

A kernel is ``extern "C" __global__ void name(int rows, int cols, ...)``. Its
next parameters are matrices, each a pointer followed by its leading
dimension: ``const float* x, int x_ld`` is read, ``float* y, int y_ld`` is
written. So the signature alone tells a plan what a launch reads and writes. A
kernel that works in place has such a matrix twice. After the matrices come
scalars, ``int n`` or ``float x``, whose values a plan fixes.
"""

from __future__ import annotations

import hashlib
import re
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent

_KERNEL = re.compile(r'^extern "C" __global__ void (\w+)\(([^)]*)\)', re.MULTILINE)
_FLOPS = re.compile(r"^// flops per element: (\d+)$", re.MULTILINE)
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Kernel:
    """One ``__global__`` function.

    Attributes
    ----------
    name, file : str
        Function name, and the ``.cu`` file of this folder that defines it.
    matrices : tuple of (str, bool)
        Name of each matrix parameter, and whether the kernel writes it.
    flops_per_element : int
        Arithmetic per element of the rows × cols grid; exp, tanh and division
        count as one each.
    scalars : tuple of (str, str)
        Name and type, ``"int"`` or ``"float"``, of each parameter after the matrices.
    """

    name: str
    file: str
    matrices: tuple[tuple[str, bool], ...]
    flops_per_element: int
    scalars: tuple[tuple[str, str], ...] = ()


def get(name: str) -> Kernel:
    """Return the kernel called `name`; `KeyError` if no ``.cu`` file defines it."""
    try:
        return catalogue()[name]
    except KeyError:
        raise KeyError(f"no kernel is called {name!r}; there are {', '.join(catalogue())}") from None


@cache
def catalogue() -> dict[str, Kernel]:
    """All kernels by name, read from the ``.cu`` files."""
    return {kernel.name: kernel
            for path in sorted(FOLDER.glob("*.cu"))
            for kernel in parse(path.name, path.read_text(encoding="utf-8"))}


def parse(file: str, source: str) -> list[Kernel]:
    """Read the kernels that `source` defines.

    Raises
    ------
    ValueError
        If a kernel breaks the convention that this module's docstring states.
    """
    kernels, end = [], 0
    for match in _KERNEL.finditer(source):
        name, parameters = match[1], [part.strip() for part in re.sub(r"//.*", "", match[2]).split(",")]
        flops = _FLOPS.findall(source[end:match.start()])
        end = match.end()
        # A matrix is two parameters, so scalars begin at the first that is no pointer where one could be.
        matrices, at = [], 2
        while at + 1 < len(parameters) and "*" in parameters[at]:
            pointer, ld = parameters[at:at + 2]
            matrix = re.fullmatch(r"(const )?float\* (?:__restrict__ )?(\w+)", pointer)
            if not matrix or ld != f"int {matrix[2]}_ld":
                raise ValueError(f"{file}: kernel {name} has parameters '{pointer}, {ld}'; "
                                 f"expected '[const] float* x, int x_ld'")
            matrices.append((matrix[2], not matrix[1]))
            at += 2
        scalars = [re.fullmatch(r"(int|float) (\w+)(?<!_ld)", parameter) for parameter in parameters[at:]]
        if parameters[:2] != ["int rows", "int cols"] or not all(scalars) or not flops:
            raise ValueError(f"{file}: kernel {name} must take (int rows, int cols, pairs of matrix and leading "
                             f"dimension, int or float scalars), after a line '// flops per element: N'")
        kernels.append(Kernel(name, file, tuple(matrices), int(flops[-1]), tuple((found[2], found[1]) for found in scalars)))
    return kernels


def bits(scalar: int | float) -> int:
    """Return a scalar argument as the integer whose low bytes are its own."""
    return scalar if isinstance(scalar, int) else int.from_bytes(struct.pack("<f", scalar), "little")


def sources(file: str) -> dict[str, str]:
    """Text of the ``.cu`` file called `file` and of every header of this folder that it includes."""
    found, pending = {}, [file]
    while pending:
        name = pending.pop()
        if name not in found:
            found[name] = (FOLDER / name).read_text(encoding="utf-8")
            pending += [other for other in _INCLUDE.findall(found[name]) if (FOLDER / other).exists()]
    return found


def hashes(files) -> dict[str, str]:
    """SHA-256 of each of `files` and of the headers they include, by file name."""
    texts = {}
    for file in files:
        texts |= sources(file)
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(texts.items())}
