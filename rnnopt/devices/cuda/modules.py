"""Kernel files as loaded modules; what nvcc made of them is kept on disk.

An entry of the cache is named by the hash of all that decides it, begins with
its own checksum, and is written whole or not at all. So a broken one is made
again, and two processes that write one at once do no harm.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from rnnopt import kernels
from rnnopt.devices.cuda import nvcc, standin
from rnnopt.paths import atomic_write, cache_dir

CHECKSUM_BYTES = 32


def load(file: str, capability: tuple[int, int]):
    """Return the ``.cu`` file called `file` as PyCUDA's ``Module``, in the current context.

    Parameters
    ----------
    file : str
    capability : (int, int)
        Of the card: major and minor.

    Raises
    ------
    rnnopt.devices.cuda.nvcc.CompileError
        If it does not compile.
    RuntimeError
        If the driver refuses what nvcc made.
    """
    from pycuda import driver as cuda

    if standin.load_driver():
        return cuda.module_from_buffer(standin.image(file))
    target = nvcc.target(capability)
    try:
        return cuda.module_from_buffer(image(file, target))
    except cuda.Error as error:
        release = cuda.get_driver_version()
        raise RuntimeError(f"the driver (for CUDA {release // 1000}.{release % 1000 // 10}) refuses {file} as compiled for "
                           f"{target.arch} by {nvcc.find().version}: {error}. If the toolkit is newer than the driver, "
                           f"update the driver or install an older toolkit") from error


def image(file: str, target: nvcc.Target) -> bytes:
    """Return `file` compiled for `target`: from the cache, or by compiling it."""
    sources = kernels.sources(file)
    digest = hashlib.sha256()
    for part in (*sum(sorted(sources.items()), ()), *nvcc.find().command, nvcc.find().version, *nvcc.FLAGS, *target.flags):
        digest.update(part.encode() + b"\0")
    folder = cache_dir() / "cuda"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{Path(file).stem}-{target.arch}-{digest.hexdigest()[:32]}"
    made = _read(path)
    if made is None:
        made = nvcc.compile(file, sources, target)
        atomic_write(path, hashlib.sha256(made).digest() + made)
    return made


def _read(path):
    try:
        content = path.read_bytes()
    except OSError:
        return None
    checksum, made = content[:CHECKSUM_BYTES], content[CHECKSUM_BYTES:]
    return made if hashlib.sha256(made).digest() == checksum else None
