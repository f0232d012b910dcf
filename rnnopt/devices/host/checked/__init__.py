"""Check CUDA kernels on a machine without a GPU: real threads, under a sanitiser.

A ``.cu`` file is built into a program of its own (sanitisers don't load into
Python), in which every CUDA thread is a thread. AddressSanitizer and UBSan then
see each access outside an array, ThreadSanitizer each race: what
compute-sanitizer's memcheck, racecheck and synccheck do on a GPU. To check a
kernel on random inputs::

    python -m rnnopt.devices.host.checked kernel.cu --kernel name --block 33
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rnnopt import kernels
from rnnopt.devices.host.checked import build
from rnnopt.devices.host.checked.report import SanitizerError, explain


@dataclass(frozen=True)
class Case:
    """One launch of a kernel.

    Attributes
    ----------
    kernel : str
    rows, cols : int
    arrays : dict of str to ndarray
        What each matrix parameter points to: float32, one dimension, in the
        kernel sits in an allocation of just this size. One array for two
        parameters is one allocation: that is how a kernel works in place.
    lds : dict of str to int
        Leading dimension of each matrix, in elements.
    block : int
        Threads of a block, 1 to 1024.
    grid : tuple of int
        Blocks in x and in y.
    scalars : dict of str to int or float
        Value of each parameter after the matrices.
    """

    kernel: str
    rows: int
    cols: int
    arrays: dict[str, np.ndarray]
    lds: dict[str, int]
    block: int = 32
    grid: tuple[int, int] = (1, 1)
    scalars: dict[str, int | float] = field(default_factory=dict)

    def __str__(self):
        return f"{self.kernel}, {self.rows} × {self.cols}, block {self.block}, grid {self.grid[0]} × {self.grid[1]}"


def run(path, cases, look_for: str = "memory", timeout: float = 300) -> list[dict[str, np.ndarray]]:
    """Run `cases` of kernels of one ``.cu`` file in a checked program.

    Parameters
    ----------
    path : path-like
        The ``.cu`` file. What it includes is looked for beside it, then in rnnopt's kernels.
    cases : sequence of Case
        Run one after the other in one process.
    look_for : {"memory", "races"}
        Which sanitisers are built in.
    timeout : float
        Seconds after which the program is stopped.

    Returns
    -------
    list of dict of str to ndarray
        For each case all its arrays after the launch, by parameter.

    Raises
    ------
    SanitizerError
        If a sanitiser finds something, or threads of a block don't meet at one barrier.
    rnnopt.devices.DeviceUnavailable
        If there is no compiler, or the sanitiser does not work here.
    rnnopt.devices.host.compiler.BuildError
        If the file does not compile.
    TypeError, ValueError
        If a case does not fit the kernel's signature, or a shared array is declared in a form that is not read.
    """
    path = Path(path)
    files = build.sources(path)
    known = kernels.parse(path.name, files[path.name])
    data = _encode(path.name, known, cases)
    names = [kernel.name for kernel in known]
    command = build.runner(look_for)
    library, shared = build.library(path, files, names, look_for)
    with tempfile.TemporaryDirectory(prefix="rnnopt-") as folder:
        before, after, where = (Path(folder) / name for name in ("before", "after", "where"))
        before.write_bytes(data)
        try:
            answer = build.execute([*command, library, before, after, where, *names], timeout)
        except subprocess.TimeoutExpired:
            answer = None
        if answer and answer.returncode == 0:
            return _decode(cases, np.fromfile(after, np.float32))
        what_is_where = where.read_text() if where.exists() else ""
        found = re.match(r"case (\d+)", what_is_where)
        case = cases[int(found[1])] if found else None
        report = answer.stderr if answer else ""
        message = explain(report, what_is_where, case, shared, files) if answer else f"no end within {timeout:g} s"
        raise SanitizerError(f"{path.name}: {message}", report, case)


def _encode(file, known, cases):
    by_name = {kernel.name: (number, kernel) for number, kernel in enumerate(known)}
    parts = [np.int64([len(cases)])]
    for case in cases:
        if case.kernel not in by_name:
            raise ValueError(f"{file} has no kernel {case.kernel!r}; it has {', '.join(by_name) or 'none'}")
        number, kernel = by_name[case.kernel]
        matrices = [name for name, _ in kernel.matrices]
        if sorted(case.arrays) != sorted(matrices) or sorted(case.lds) != sorted(matrices):
            raise ValueError(f"kernel {case.kernel} takes {', '.join(matrices)}; "
                             f"got arrays {', '.join(case.arrays)} and lds {', '.join(case.lds)}")
        if list(case.scalars) != [name for name, _ in kernel.scalars]:
            raise ValueError(f"kernel {case.kernel} takes the scalars {', '.join(name for name, _ in kernel.scalars) or 'none'}; "
                             f"got {', '.join(case.scalars) or 'none'}")
        if min(case.rows, case.cols, *case.grid) < 1 or not 1 <= case.block <= 1024:
            raise ValueError(f"rows, cols and grid must be at least 1 and block 1 to 1024; got {case}")
        for name, array in case.arrays.items():
            if array.dtype != np.float32 or array.ndim != 1:
                raise TypeError(f"array {name} must be float32 of one dimension, got {array.dtype} of {array.ndim}")
        own = list({id(array): array for array in case.arrays.values()}.values())
        index = {id(array): n for n, array in enumerate(own)}
        scalars = [kernels.bits(value) for value in case.scalars.values()]
        header = [number, case.rows, case.cols, case.block, *case.grid, len(own), len(matrices), len(scalars), *map(len, own)]
        header += [value for name in matrices for value in (index[id(case.arrays[name])], case.lds[name])]
        parts += [np.int64([*header, *scalars]), *own]
    return b"".join(part.tobytes() for part in parts)


def _decode(cases, data):
    results, at = [], 0
    for case in cases:
        after = {}
        for array in case.arrays.values():
            if id(array) not in after:
                after[id(array)] = data[at:at + len(array)]
                at += len(array)
        results.append({name: after[id(array)] for name, array in case.arrays.items()})
    return results
