"""``make gpu-check``: make an environment with PyCUDA and run the check in it. Needs nothing but Python's own library.

Packages come from the folder ``--carried`` if it is given, without a network (``make gpu-carry`` fills one), else from PyPI.
PyCUDA has no wheels and is built here, against the headers of the CUDA toolkit if there is one, else of NVIDIA's wheels.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: What PyCUDA's build needs. Its own build would fetch these, which takes a network.
BUILD = ("setuptools", "wheel", "numpy>=2.1", "mako", "pytools", "platformdirs")
HEADERS = ("nvidia-cuda-runtime>=13,<14", "nvidia-cuda-crt>=13,<14", "nvidia-cuda-profiler-api>=13,<14")
CUDA = ("cuda-bindings>=13.0.1", "nvmath-python>=1.0,<2")
CUBLAS = "nvidia-cublas>=13,<14"
PYCUDA = "pycuda>=2025.1.2"
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
    folder.mkdir(parents=True, exist_ok=True)
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder)]
    run([*download, "--only-binary", ":all:", *BUILD, *HEADERS, *CUDA, CUBLAS, *TESTS, *CORE])
    run([*download, "--no-deps", "--no-binary", "pycuda", "--no-build-isolation", PYCUDA])
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
        run([*install, *BUILD, *CUDA, CUBLAS, *TESTS, *CORE])
        if not has(python, "pycuda"):
            print("gpu-check: building PyCUDA (some minutes)", flush=True)
            run([*install, *HEADERS])
            run([*install, "--no-build-isolation", "--no-binary", "pycuda", PYCUDA], env=build_environment(python, folder))
        (folder / "ready").touch()
    return str(python)


def has(python, module) -> bool:
    return subprocess.run([str(python), "-c", f"import {module}"], capture_output=True).returncode == 0


def build_environment(python: Path, folder: Path) -> dict[str, str]:
    """Return the environment in which PyCUDA's build finds ``cuda.h`` and something to link: the toolkit's, or NVIDIA's wheels'."""
    ask = "import nvidia, os; print(os.pathsep.join(nvidia.__path__))"
    roots = subprocess.run([str(python), "-c", ask], capture_output=True, text=True).stdout.strip().split(os.pathsep)
    headers = {str(path.parent) for root in roots if root for path in Path(root).rglob("cuda.h")}
    headers |= {str(path.parent) for root in roots if root for path in Path(root).rglob("cudaProfiler.h")}
    stubs = folder / "stubs"
    stubs.mkdir(exist_ok=True)
    # Only the name counts when linking; at run time it is the driver's.
    run(["cc", "-shared", "-x", "c", "/dev/null", "-o", str(stubs / "libcuda.so"), "-Wl,-soname,libcuda.so.1"])
    paths = {"CPATH": sorted(headers), "LIBRARY_PATH": [str(stubs)]}
    return os.environ | {name: os.pathsep.join([*found, *filter(None, [os.environ.get(name)])]) for name, found in paths.items()}


def run(command, env=None):
    done = subprocess.run(command, env=env)
    if done.returncode:
        raise SystemExit(f"gpu-check: {' '.join(command[:6])} … failed with status {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())
