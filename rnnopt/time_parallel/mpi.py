"""Ranks that are processes: a transport by MPI, on contiguous buffers and never by pickling."""

from __future__ import annotations

import os
import sys
import time
import traceback

import numpy as np

from rnnopt.provenance import core_count
from rnnopt.time_parallel.transport import Transport

#: More than a machine has.
MAX_CPUS = 8192


class MPITransport(Transport):
    """A transport between the processes of a communicator. All processes must make one at the same time.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm, optional
        All processes if not given.

    Raises
    ------
    ImportError
        If mpi4py is not installed; the message says how to get it.
    """

    def __init__(self, comm=None):
        self._MPI = mpi()
        # Of its own: what others send in `comm` is not taken for ours.
        self._comm = (self._MPI.COMM_WORLD if comm is None else comm).Dup()
        self.rank, self.size = self._comm.rank, self._comm.size
        self._sent = []
        self.cores = _cores(self._MPI)

    def send(self, array, rank):
        self._sent = [(request, kept) for request, kept in self._sent if not request.Test()]
        self._sent.append((self._comm.Isend(array, rank), array))

    def receive(self, out, rank):
        return self._comm.Irecv(out, rank).Wait

    def add(self, array):
        # One adds and tells the others: MPI does not promise the same bits on each otherwise.
        total = np.empty_like(array) if self.rank == 0 else None
        self._comm.Reduce(array, total)
        if self.rank == 0:
            array[...] = total
        self._comm.Bcast(array)

    def share(self, array, rank):
        self._comm.Bcast(array, rank)

    def finish(self):
        self._MPI.Request.Waitall([request for request, _ in self._sent])
        self._sent.clear()


def mpi():
    """Return ``mpi4py.MPI``.

    Raises
    ------
    ImportError
        If it is not installed; the message says how to get it.
    """
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ImportError(f"mpi4py is missing: pip install 'rnnopt[mpi]', or load your cluster's MPI and build it ({error})") from error
    return MPI


def grid(along_time: int, comm=None):
    """Split processes two ways: those that share sequences along time, and those that have the same steps of others.

    Parameters
    ----------
    along_time : int
        How many share the steps of a sequence; neighbours, so that what they send each other stays within a machine where it can.
    comm : mpi4py.MPI.Comm, optional
        All processes if not given.

    Returns
    -------
    time, data : mpi4py.MPI.Comm
        ``data.rank`` says which of ``data.size`` parts of a mini-batch is this process's.

    Raises
    ------
    ValueError
        If the processes are no multiple of `along_time`.
    """
    comm = mpi().COMM_WORLD if comm is None else comm
    if along_time < 1 or comm.size % along_time:
        raise ValueError(f"along_time must divide the {comm.size} processes, got {along_time}")
    replica, place = divmod(comm.rank, along_time)
    return comm.Split(replica, place), comm.Split(place, replica)


def end_all_on_error():
    """From now on an exception that nobody catches ends all ranks, with its traceback, and not this one alone while others wait for it."""
    MPI = mpi()

    def end(kind, error, trace):
        traceback.print_exception(kind, error, trace)
        sys.stderr.flush()
        time.sleep(0.5)     # mpiexec drops what it has not read of a rank's stderr by the time that the rank aborts
        MPI.COMM_WORLD.Abort(1)

    sys.excepthook = end


def _cores(MPI):
    """Cores that this process may use; those that it shares with others of its machine count in part."""
    own = [cpu for cpu in os.sched_getaffinity(0) if cpu < MAX_CPUS] if hasattr(os, "sched_getaffinity") else [0]
    mine = np.zeros(MAX_CPUS)
    mine[own] = 1
    users = np.empty_like(mine)
    machine = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    machine.Allreduce(mine, users)
    machine.Free()
    return max(1, int(core_count() * (mine[own] / users[own]).mean()))
