"""The CPU as a device: the same kernels through the C++ compiler, GEMM from BLAS."""

from __future__ import annotations

import numpy as np

from rnnopt.devices.host import compiler
from rnnopt.provenance import core_count, cpu_model
from rnnopt.spec import positive_integer

#: Rows at which a GEMM over several steps' inputs runs at its full rate (docs/optimisations.md).
ROWS_PER_GEMM = 128

#: Groups of steps from which on the layers of a wavefront kept two cores busy (docs/optimisations.md).
GROUPS = 5

#: Twice the largest last-level cache that is common.
FLUSHED_BYTES = 128 * 2**20


def open_device(workers: int | None = None, cores: int | None = None):
    """Return the host device.

    Parameters
    ----------
    workers : int, optional
        Threads that execute streams; as many as there are cores if not given.
    cores : int, optional
        Cores to use, if not all that this process may.

    Raises
    ------
    rnnopt.devices.DeviceUnavailable
        If there is no C++ compiler.
    """
    compiler.find_compiler()
    return HostDevice(workers, cores)


class HostDevice:
    """CPU threads as streams, with BLAS threads in what cores are left."""

    name = "host"
    reason = "opened directly"

    def __init__(self, workers: int | None = None, cores: int | None = None):
        self.workers = None if workers is None else positive_integer("workers", workers)
        self.cores = None if cores is None else positive_integer("cores", cores)

    def describe(self) -> dict:
        from rnnopt.devices.host import blas

        found = compiler.find_compiler()
        return {"device": self.name, "what": cpu_model(), "cores": self.cores or core_count(), "workers": self.workers,
                "blas": blas.describe(), "compiler": found.version, "flags": " ".join(found.flags)}

    def input_group(self, spec) -> int:
        """Steps per input GEMM: enough rows for its full rate, but enough groups for layers to overlap."""
        return max(1, min(spec.steps // GROUPS, -(-ROWS_PER_GEMM // spec.batch)))

    def flush_cache(self):
        """Write more memory than any cache holds, so that the next run finds its data in none."""
        np.full(FLUSHED_BYTES // 8, 1.0)

    def prepare(self, spec, plan, share=None):
        from rnnopt.devices.host.executable import HostExecutable

        return HostExecutable(plan, self.workers, share=share, cores=self.cores)
