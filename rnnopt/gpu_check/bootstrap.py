"""``make gpu-check``: make an environment with PyCUDA and run the check in it. Needs nothing but Python's own library.

Packages come from the folder ``--carried`` if it is given, without a network (``make gpu-carry`` fills one), else from PyPI.
PyCUDA has no wheels and is built here (:mod:`rnnopt.devices.cuda.build_pycuda`).
"""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

BUILD_PYCUDA = ROOT / "rnnopt" / "devices" / "cuda" / "build_pycuda.py"
CUBLAS = "nvidia-cublas>=13,<14"
TESTS = ("hypothesis>=6.115", "pytest>=8.3.3", "pytest-timeout>=2.3.1", "pyyaml>=6.0.2", "hatchling>=1.27")
CORE = ("ipython", "jinja2", "matplotlib>=3.9.2", "pandas>=2.2.3", "safetensors>=0.5", "scipy>=1.14.1", "seaborn>=0.13.2",
        "threadpoolctl>=3.5")


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__)
    parser.add_argument("--carried", type=Path, help="folder of wheels and sdists; nothing is fetched then")
    parser.add_argument("--carry", type=Path, help="fill such a folder, and stop")
    parser.add_argument("--environment", type=Path, default=ROOT / "build" / "gpu-check-env")
    given, rest = parser.parse_known_args(arguments)
    if given.carry:
        return carry(given.carry)
    python = environment(given.environment, given.carried)
    if rest[:1] == ["--"]:
        rest = rest[1:]
    return subprocess.run([python, "-m", "rnnopt.gpu_check", *rest], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode


def carry(folder: Path) -> int:
    """Download everything into `folder`: wheels for this kind of machine, and PyCUDA's source."""
    pycuda = runpy.run_path(str(BUILD_PYCUDA))
    folder.mkdir(parents=True, exist_ok=True)
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder)]
    run([*download, "--only-binary", ":all:", *pycuda["BUILD"], *pycuda["HEADERS"], *pycuda["BINDINGS"], CUBLAS, *TESTS, *CORE])
    run([*download, "--only-binary", ":all:", "--no-deps", pycuda["NVMATH"]])
    run([*download, "--no-deps", "--no-binary", "pycuda", pycuda["PYCUDA"]])
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    print(f"carried: {size:.0f} MB in {folder}; on the machine with the GPU: make gpu-check CARRIED={folder}")
    return 0


def environment(folder: Path, carried: Path | None) -> str:
    """Return the Python of an environment that has all that the check needs; what the machine's own Python has (torch) is seen too."""
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"gpu-check: making {folder}", flush=True)
        venv.create(folder, with_pip=True, system_site_packages=True)
    if not (folder / "ready").exists():
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        install += ["--no-index", "--find-links", str(carried.absolute())] if carried else []
        run([*install, CUBLAS, *TESTS, *CORE])
        run([str(python), str(BUILD_PYCUDA), *(["--carried", str(carried)] if carried else [])])
        (folder / "ready").touch()
    return str(python)


def run(command):
    done = subprocess.run(command)
    if done.returncode:
        raise SystemExit(f"gpu-check: {' '.join(command[:6])} … failed with status {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())
