"""What a result came from: hashes, versions, the machine, and notes of which files a notebook used and made."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from rnnopt import paths

#: What Linux says of the processor time of a container: microseconds granted in each period of so many.
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def note(kind: str, path: str, **more) -> None:
    """Tell the runner of a file that was made or used; without a runner, do nothing.

    Parameters
    ----------
    kind : str
        ``"figure"``, ``"table"`` or ``"record"`` for what was made (`path` is
        relative to the build folder), ``"data"`` for what was read (`path` is
        relative to ``data/``).
    path : str
    **more
        Anything else to keep, as JSON: alternative text, kernel hashes.
    """
    manifest = os.environ.get("RNNOPT_MANIFEST")
    if manifest:
        line = json.dumps({"kind": kind, "path": path, **more}) + "\n"
        with open(manifest, "ab", buffering=0) as file:  # one write, so that lines of several processes don't mix
            file.write(line.encode())


def environment() -> dict:
    """Return what the machine is like now: versions, BLAS, platform, CPU, cores, git commit, date (UTC)."""
    return {
        "rnnopt": _installed_version(),
        **versions(),
        "blas": _blas(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu": cpu_model(),
        "cores": core_count(),
        "git": git_state(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python, NumPy and SciPy: what can change a number or its time."""
    found = {name: importlib.metadata.version(name) for name in ("numpy", "scipy")}
    return {"python": platform.python_version(), **found}


@cache
def _installed_version():
    try:
        return importlib.metadata.version("rnnopt")
    except importlib.metadata.PackageNotFoundError:
        return None


def _blas():
    """The BLAS libraries that are loaded, each with its threads; finding them loads none."""
    from threadpoolctl import threadpool_info

    return [{"name": library["internal_api"], "version": library["version"], "threads": library["num_threads"],
             "architecture": library.get("architecture")}
            for library in threadpool_info() if library["user_api"] == "blas"]


@cache
def cpu_model() -> str:
    """Return the name of the CPU as its maker gives it, or the best that can be found."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.lower().startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        if sys.platform == "darwin" and (name := _output("sysctl", "-n", "machdep.cpu.brand_string")):
            return name.strip()
    return platform.processor() or platform.machine()


def core_count() -> int:
    """Return the number of cores that this process may use: its affinity, and what a container grants of them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = CPU_QUOTA.read_text(encoding="ascii").split()
        return max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):  # no control group, or no limit ("max")
        return cores


def git_state() -> dict | None:
    """Return the checkout's ``commit`` and whether it is ``dirty``; None where there is no repository or no commit."""
    try:
        root = paths.checkout_root()
    except FileNotFoundError:
        return None
    status = _output("git", "-C", str(root), "status", "--porcelain=v2", "--branch")
    lines = status.splitlines() if status else []
    commits = [line.split()[-1] for line in lines if line.startswith("# branch.oid ")]
    if not commits or commits[0] == "(initial)":
        return None
    return {"commit": commits[0], "dirty": any(not line.startswith("#") for line in lines)}


def _output(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=20,
                              stdin=subprocess.DEVNULL, env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"})
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def sha256_file(path: str | os.PathLike) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_json(value) -> str:
    """Return the SHA-256 of `value` as JSON with sorted keys and no spaces.

    Raises
    ------
    TypeError
        If something in `value` is not JSON.
    ValueError
        If a number is not finite: NaN differs from itself.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def hash_arrays(arrays: Mapping) -> str:
    """Return one SHA-256 over named arrays: names, types, shapes and values, whatever their order in memory."""
    import numpy as np

    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        array = np.ascontiguousarray(array)
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()


def hash_folder(folder: str | os.PathLike) -> str:
    """Return one SHA-256 over all files under `folder`, names and contents, but for Python's compiled copies."""
    folder = Path(folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return hash_json({path.relative_to(folder).as_posix(): sha256_file(path) for path in files})
