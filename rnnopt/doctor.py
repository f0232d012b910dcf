"""``rnnopt doctor``: what this machine has, what is missing, and how to get it.

A probe is a function that returns what it found, in words, or raises
:class:`Missing` with a remedy. Nothing that is probed can stop the others.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from importlib import import_module, metadata

from rnnopt import devices, paths, provenance
from rnnopt.devices.cuda import standin


class Missing(Exception):
    """Something is not there; the message says what and how to get it."""


def python() -> str:
    if not (3, 11) <= sys.version_info[:2] < (3, 14):
        raise Missing(f"this is Python {platform.python_version()}; expected 3.11, 3.12 or 3.13: "
                      f"make env PYTHON=python3.12")
    return f"{platform.python_version()} ({sys.executable})"


def packages() -> str:
    """The packages that the core needs, all of them there and importable."""
    found = []
    for name in ("numpy", "scipy", "pandas", "matplotlib", "seaborn"):
        try:
            import_module(name)
            found.append(f"{name} {metadata.version(name)}")
        except Exception as error:
            raise Missing(f"{name} can't be imported ({error}): make env") from error
    return ", ".join(found)


def jupyter() -> str:
    found = []
    for name in ("ipykernel", "papermill", "nbconvert"):
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            raise Missing(f"{name} is not installed for {sys.executable}, so notebooks can't be executed: make env") from None
    return f"the kernel is this Python; {', '.join(found)}"


def build_folder() -> str:
    folder = paths.checkout_root() / "build"
    try:
        probe = paths.atomic_write(folder / ".probe", "")
        probe.unlink()
    except OSError as error:
        raise Missing(f"{folder} can't be written ({error.strerror}): rnnopt reproduce --build DIR") from error
    return f"{folder}, {shutil.disk_usage(folder).free / 1e9:.0f} GB free"


def cache_folder() -> str:
    return str(paths.cache_dir())


def compiler() -> str:
    from rnnopt.devices.host.compiler import find_compiler

    found = find_compiler()
    return f"{' '.join(found.command)}: {found.version}"


def blas() -> str:
    from rnnopt.devices.host import blas as host_blas

    threads = ", ".join(str(library.num_threads) for library in host_blas.libraries())
    return f"{host_blas.describe()}; threads {threads or 'unknown'}; {provenance.core_count()} cores may be used"


def nvcc() -> str:
    path = shutil.which("nvcc")
    if path is None:
        raise Missing("nvcc is not on the path: install the CUDA toolkit, or conda env create --file environment-gpu.yml")
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60)
    release = re.search(r"release [\d.]+", answer.stdout)
    return f"{path}: {release[0] if release else 'unknown release'}"


def pycuda() -> str:
    try:
        return f"pycuda {metadata.version('pycuda')}"
    except metadata.PackageNotFoundError:
        raise Missing('PyCUDA is not installed: pip install --editable ".[cuda]", where the CUDA toolkit is; '
                      "without a GPU: make pycuda-standin") from None


def gpu() -> str:
    described = devices.resolve("cuda").describe()
    return f"{described['what']}, replays by {described['replay']}" + (
        "; for a GPU of this machine see that nvidia-smi lists one, or set RNNOPT_CUDA_DRIVER=real to be told what is amiss"
        if described["what"] == standin.NAME else "")


def graphs() -> str:
    from rnnopt.devices.cuda import graph

    if graph.bindings() is None:
        raise Missing("cuda-bindings is not installed: pip install 'cuda-bindings>=13.0.1', or make pycuda-standin")
    return f"cuda-bindings {metadata.version('cuda-bindings')}"


def torch() -> str:
    try:
        return f"torch {metadata.version('torch')}"
    except metadata.PackageNotFoundError:
        raise Missing("PyTorch is not installed: make peers") from None


def typst() -> str:
    try:
        return f"typst {metadata.version('typst')}"
    except metadata.PackageNotFoundError:
        raise Missing("the paper can't be typeset without it: make env") from None


#: Name, probe, and what lacks without it; None where nothing works without it.
PROBES = (
    ("python", python, None),
    ("packages", packages, None),
    ("jupyter", jupyter, None),
    ("build folder", build_folder, None),
    ("cache folder", cache_folder, None),
    ("compiler", compiler, "the package runs on the NumPy reference, slowly"),
    ("BLAS", blas, None),
    ("nvcc", nvcc, "no kernel can be compiled for a GPU"),
    ("PyCUDA", pycuda, "the device 'cuda' is not there"),
    ("GPU", gpu, "the device 'cuda' is not there"),
    ("CUDA graphs", graphs, "a GPU is given every operation on its own"),
    ("PyTorch", torch, "nothing is compared with it"),
    ("typst", typst, "the paper can't be typeset"),
)


def main(probes=PROBES) -> int:
    """Print a line per probe; return 1 if something is missing that nothing works without, else 0."""
    status = 0
    for name, probe, without in probes:
        try:
            verdict, text = "OK", probe()
        except Exception as error:
            verdict = "missing" if without else "MISSING"
            text = " ".join(str(error).split()) or type(error).__name__
            text += f" (without it {without})" if without else ""
            status = status if without else 1
        print(f"{name:<13} {verdict:<8} {text}", flush=True)
    print("all that is required is there" if status == 0 else "something required is missing: see the lines in capitals")
    return status
