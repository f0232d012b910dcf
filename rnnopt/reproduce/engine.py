"""How papermill executes a notebook here: this interpreter's kernel, whole files, and news of every cell."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import nbformat
import papermill
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import Engine, NotebookExecutionManager, papermill_engines

from rnnopt import paths
from rnnopt.reproduce import report

#: Bytes; a socket's path may have 103 on macOS and 107 on Linux, and "/kernel-ipc-5" comes after the folder.
_LONGEST_SOCKET_FOLDER = 88

#: Seconds; a busy machine with its packages on a network disk is slow to start a kernel.
_START = 300


class InterpreterKernel(AsyncKernelManager):
    """The kernel of this very interpreter, whatever kernels are registered, over sockets in a private folder."""

    def __init__(self, channel):
        folder = channel.job["scratch"]
        transport = "ipc" if len(os.fsencode(folder)) <= _LONGEST_SOCKET_FOLDER else "tcp"
        super().__init__(kernel_name="python3", transport=transport, connection_file=os.path.join(folder, "kernel.json"))
        self.channel = channel

    @property
    def kernel_spec(self):
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=command, display_name=kernel_name(), language="python")

    async def start_kernel(self, **options):
        await super().start_kernel(**options)
        self.channel.started(self.provisioner.process)


class Record(NotebookExecutionManager):
    """papermill's account of an execution, which saves the notebook in one piece and tells the runner of each cell."""

    def __init__(self, notebook, channel):
        super().__init__(notebook, progress_bar=False)
        self._channel = channel

    def save(self, **_):
        # What counts is written at the end; this copy is for who wants to see how far it came.
        with suppress(OSError):
            paths.atomic_write(self._channel.job["partial"], nbformat.writes(tidy(self.nb)))
        self.last_save_time = self.now()

    def cell_start(self, cell, cell_index=None, **options):
        # Counted as in the source: papermill has put one cell in between.
        injected = [_is_injected(other) for other in self.nb.cells]
        if not _is_injected(cell):
            self._channel.tell("cell", number=cell_index + 1 - sum(injected[:cell_index]), of=len(injected) - sum(injected))
        super().cell_start(cell, cell_index, **options)


class RunnerEngine(Engine):
    """A papermill engine made of the two above."""

    @classmethod
    def execute_notebook(cls, nb, kernel_name, *, channel, **_):
        record = Record(nb, channel)
        record.notebook_start()
        try:
            client = PapermillNotebookClient(record, km=InterpreterKernel(channel), kernel_name=kernel_name,
                                             startup_timeout=_START, ipython_hist_file="")
            client.execute(cleanup_kc=True)
        finally:
            record.notebook_complete()
        return record.nb


def _is_injected(cell):
    return "injected-parameters" in cell.metadata.get("tags", [])


def kernel_name() -> str:
    return "Python " + ".".join(map(str, sys.version_info[:3]))


def tidy(notebook):
    """Name the kernel that ran, and leave out paths of this machine."""
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": kernel_name(), "language": "python"}
    for name in ("input_path", "output_path", "environment_variables"):
        notebook.metadata.get("papermill", {}).pop(name, None)
    return notebook


def execute(channel):
    """Execute the notebook of the channel's job; leave the executed copy and the report, or the partial copy."""
    job = channel.job
    papermill_engines.register("rnnopt", RunnerEngine)
    # A notebook as an object, because papermill takes braces in a path for parameters.
    source = nbformat.read(job["notebook"], as_version=4)
    done = papermill.execute_notebook(source, None, job["parameters"], engine_name="rnnopt", kernel_name="python3",
                                      language="python", progress_bar=False, cwd=job["folder"], channel=channel)
    paths.atomic_write(job["report"], report.page(tidy(done), job["title"]))
    paths.atomic_write(job["executed"], nbformat.writes(done))
    Path(job["partial"]).unlink(missing_ok=True)
