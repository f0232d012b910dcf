"""Compile every kernel with nvcc for several architectures, warnings as errors: ``python -m rnnopt.kernels.nvcc_check``.

It needs nvcc and no GPU. Exit status: 0 if all compile, 1 if some do not, 2 if
there is no nvcc.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from rnnopt import kernels
from rnnopt.devices import DeviceUnavailable
from rnnopt.devices.cuda import nvcc

#: From Turing, the oldest that CUDA 13 knows, to Blackwell.
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100")

# That an architecture will be dropped some day is no fault of a kernel.
STRICT = ("-Werror", "all-warnings", "-Wno-deprecated-gpu-targets")


def check(folder: Path = kernels.FOLDER, architectures: tuple[str, ...] = ARCHITECTURES, report=print) -> int:
    """Compile the ``.cu`` files of `folder`; return the exit status.

    Parameters
    ----------
    folder : Path
    architectures : tuple of str
    report : callable
        Given a line per file and architecture, what nvcc said of those that
        fail, and a closing line ``N passed, M failed``.
    """
    try:
        nvcc.find()
    except DeviceUnavailable as error:
        print(f"nvcc_check: {error}", file=sys.stderr)
        return 2
    files = sorted(path.name for path in folder.glob("*.cu"))
    headers = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.cuh")}

    def compile(job):
        file, architecture = job
        sources = headers | {file: (folder / file).read_text(encoding="utf-8")}
        try:
            nvcc.compile(file, sources, nvcc.Target(architecture), STRICT)
        except nvcc.CompileError as error:
            return str(error)
        return None

    jobs = list(product(files, architectures))
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (file, architecture), error in zip(jobs, pool.map(compile, jobs), strict=True):
            report(f"{file} {architecture} {'FAILED' if error else 'passed'}")
            if error:
                failed += 1
                report(error)
    report(f"{len(jobs) - failed} passed, {failed} failed")
    return 1 if failed or not jobs else 0


if __name__ == "__main__":
    sys.exit(check())
