"""Build PyCUDA and install it, with NVIDIA's bindings, into the Python that runs this file. Needs nothing but Python's own library.

PyCUDA has no wheels, and its build wants the CUDA toolkit. All it needs of that are headers, which there are wheels of,
and a library to link with, which may be empty: the driver's calls are bound when PyCUDA is imported, and rnnopt loads the
driver first. It has no cuRAND then. What was built is kept beside what pip keeps, so this takes minutes once, and seconds afterwards.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PYCUDA = "pycuda==2026.1"
HEADERS = ("nvidia-cuda-runtime>=13,<14", "nvidia-cuda-crt>=13,<14", "nvidia-cuda-profiler-api>=13,<14")

#: PyCUDA's own build requirements, which pip fetches by itself where there is a network.
BUILD = ("setuptools", "wheel", "numpy>=2.1")

#: What PyCUDA and the bindings need. The library of cuBLAS is half a gigabyte: who has a GPU installs it too.
BINDINGS = ("cuda-bindings>=13.0.1,<14", "cuda-core>=0.3.2", "mako>=1.3", "platformdirs>=4.3", "pytools>=2024.1.14")
NVMATH = "nvmath-python>=1.0,<2"  # without what it would bring along: only its bindings of cuBLAS are used


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="build_pycuda", description=__doc__)
    parser.add_argument("--carried", type=Path, help="folder of wheels and sdists; nothing is fetched then")
    carried = parser.parse_args(arguments).carried
    if carried:  # by the environment, so that pip's builds within builds know it too
        os.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(carried.absolute())}
    if not installed():
        found = wheel()
        pip("install", str(found), *BINDINGS)
        pip("install", "--no-deps", NVMATH)
    return 0


def installed() -> bool:
    """Whether this Python has PyCUDA and the bindings already; nothing is imported, which would take a driver."""
    code = ("import sys; from importlib.util import find_spec; "
            "sys.exit(not all(map(find_spec, ('pycuda', 'cuda.bindings', 'nvmath.bindings'))))")
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def wheel() -> Path:
    """Return PyCUDA's wheel for this Python and compiler, built if it is not kept."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or "c++"
    parts = (PYCUDA, *HEADERS, sys.version, compiler)
    kept = Path(pip("cache", "dir", capture_output=True, text=True).stdout.strip() or tempfile.gettempdir(), "rnnopt-pycuda")
    folder = kept / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    found = sorted(folder.glob("*.whl"))
    if not found:
        print(f"pycuda: building {PYCUDA} (some minutes, once)", flush=True)
        with tempfile.TemporaryDirectory(prefix="rnnopt-pycuda-") as work:
            made = build(Path(work), compiler.split())
            folder.mkdir(parents=True, exist_ok=True)
            # Written under another name: a kill must not leave half a wheel.
            shutil.copy(made, folder / f".{made.name}")
            os.replace(folder / f".{made.name}", folder / made.name)
        found = sorted(folder.glob("*.whl"))
    return found[0]


def build(work: Path, compiler: list[str]) -> Path:
    """Build the wheel in the folder `work`."""
    pip("install", "--no-deps", "--target", str(work / "headers"), *HEADERS)
    pip("download", "--no-deps", "--no-binary", "pycuda", "--dest", str(work), PYCUDA)
    [archive] = work.glob("pycuda-*.tar.gz")
    with tarfile.open(archive) as content:
        content.extractall(work, filter="data")
    source = archive.with_name(archive.name.removesuffix(".tar.gz"))
    run([*compiler, "-shared", "-Wl,-soname,libcuda.so.1", "-x", "c++", "/dev/null", "-o", str(work / "libcuda.so")])
    include = sorted({str(path.parent) for path in (work / "headers").rglob("cuda.h")})
    run([sys.executable, "configure.py", "--no-cuda-enable-curand"], cwd=source, stdout=subprocess.DEVNULL)
    environment = {"CPATH": include, "LIBRARY_PATH": [str(work)]}
    environment = {name: os.pathsep.join([*paths, *filter(None, [os.environ.get(name)])]) for name, paths in environment.items()}
    # Half of the time goes into optimising what only hands calls on.
    pip("wheel", "--no-deps", "--wheel-dir", str(work), str(source), env=os.environ | environment | {"CFLAGS": "-O1 -g0 -w"})
    [made] = work.glob("pycuda*.whl")
    return made


def pip(*arguments, **options):
    return run([sys.executable, "-m", "pip", "--quiet", "--quiet", "--no-input", "--disable-pip-version-check", *arguments], **options)


def run(command, **options):
    done = subprocess.run(command, **options)
    if done.returncode:
        raise SystemExit(f"pycuda: {' '.join(command)} failed with status {done.returncode}")
    return done


if __name__ == "__main__":
    sys.exit(main())
