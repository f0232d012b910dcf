"""A stand-in for the CUDA driver on host memory: real PyCUDA, on a machine without a GPU.

It is a ``libcuda.so.1`` of our own. Loaded first, PyCUDA and NVIDIA's bindings find it where they look for the driver's.
Modules are the host's builds of the same ``.cu`` files. It is slower than the host device and shows nothing about the speed
of a GPU; it is strict where a GPU is lenient. Streams run in any order that nothing forbids, and it fails on
memory that was freed or never there, on a launch with the wrong arguments, on a context that is not current, and
on two streams that touch one place without an event between. Each failure says which operations and which bytes.

Environment variables: RNNOPT_CUDA_DRIVER (``standin`` or ``real``) chooses, RNNOPT_STANDIN_SEED draws another order,
RNNOPT_STANDIN_MEMORY is how many bytes the stand-in has (4 GiB if not set).
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path

from rnnopt.devices import DeviceUnavailable
from rnnopt.devices.host import blas, compiler

FOLDER = Path(__file__).parent

#: What the device calls itself, in every status line, caption and record.
NAME = "stand-in driver on CPU"

#: The parts of each library, in one translation unit, in the order of loading. NVIDIA's bindings insist on cublasLt too.
PARTS = {"libcuda.so.1": ("memory.cpp", "races.cpp", "streams.cpp", "driver.cpp"), "libcublasLt.so.13": (),
         "libcublas.so.13": ("cublas.cpp",)}

HEADERS = ("standin.h", "unsupported.h")

CHOICES = ("standin", "real")


def marker() -> Path:
    """Return the file that ``make pycuda-standin`` leaves in an environment whose 'cuda' may be the stand-in."""
    return Path(sys.prefix) / "share" / "rnnopt" / "pycuda-standin"


@cache
def chosen() -> bool:
    """Return whether CUDA is the stand-in's in this process: what RNNOPT_CUDA_DRIVER says, else where there is no driver but the marker.

    Raises
    ------
    rnnopt.devices.DeviceUnavailable
        If RNNOPT_CUDA_DRIVER is none of its words.
    """
    named = os.environ.get("RNNOPT_CUDA_DRIVER")
    if named not in (None, "", *CHOICES):
        raise DeviceUnavailable(f"RNNOPT_CUDA_DRIVER must be 'standin' or 'real', got {named!r}")
    if named == "standin":
        return True
    try:
        # For all to see: a PyCUDA that was linked with an empty library does not look for it by itself.
        ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
    except OSError:
        return named != "real" and marker().exists()  # else PyCUDA says what is missing
    return False


@cache
def load_driver() -> bool:
    """Load the driver that PyCUDA is to find; return whether it is the stand-in (see :func:`chosen`).

    Raises
    ------
    rnnopt.devices.DeviceUnavailable
        If it is to be the stand-in and that can't be built.
    """
    if not chosen():
        return False
    if sys.platform != "linux":
        raise DeviceUnavailable("the stand-in driver takes the place of libcuda.so.1, which there is on Linux only: "
                                "use device='host', which runs the same kernels")
    try:
        for name in PARTS:
            ctypes.CDLL(str(_library(name)), ctypes.RTLD_GLOBAL)
    except compiler.BuildError as error:
        raise DeviceUnavailable(f"the stand-in driver can't be built: {error}") from None
    ctypes.CDLL("libcublas.so.13").standin_set_sgemm(ctypes.c_void_p(blas.address("sgemm")))
    return True


def _library(name):
    texts = {part: (FOLDER / part).read_text(encoding="utf-8") for part in (*PARTS[name], *HEADERS)}
    source = "".join(f'#include "{part}"\n' for part in PARTS[name])
    flags = (*compiler.find_compiler().flags, f"-Wl,-soname,{name}")
    return compiler.build(name.split(".")[0] + "-standin", source, texts, flags)


def image(file: str) -> bytes:
    """Return the ``.cu`` file called `file` as a module that the stand-in loads."""
    from rnnopt import kernels
    from rnnopt.devices import host

    folder = Path(host.__file__).parent
    headers = kernels.sources(file) | {name: (folder / name).read_text(encoding="utf-8") for name in ("host.h", "host_math.h")}
    headers["module.h"] = (FOLDER / "module.h").read_text(encoding="utf-8")
    names = [kernel.name for kernel in kernels.catalogue().values() if kernel.file == file]
    table = ", ".join([*(f"KERNEL({name})" for name in names), "{nullptr, nullptr, 0, nullptr}"])
    source = f'#include "host.h"\n#include "module.h"\n#include "{file}"\nextern "C" const Kernel standin_kernels[] = {{{table}}};\n'
    # Instrumented for a sanitiser that is not linked: the driver takes its place and is told of every access.
    flags = (*compiler.find_compiler().flags, "-fsanitize=thread", "-nodefaultlibs")
    return compiler.build(f"{Path(file).stem}-standin", source, headers, flags).read_bytes()
