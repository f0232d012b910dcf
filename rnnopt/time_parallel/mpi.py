"""Ranks that are processes: the transport of :mod:`rnnopt.time_parallel.ranks` by MPI, on contiguous buffers and never by pickling."""

from __future__ import annotations

import sys
import traceback

import numpy as np


class MPITransport:
    """A transport between the processes of a communicator.

    Parameters
    ----------
    shape : tuple of int
        Of what goes from rank to rank: (layers, batch, hidden).
    comm : mpi4py.MPI.Comm, optional
        All processes if not given.

    Raises
    ------
    ImportError
        If mpi4py is not installed; the message says how to get it.
    """

    def __init__(self, shape, comm=None):
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise ImportError(f"mpi4py is missing: pip install 'rnnopt[mpi]', or load your cluster's MPI and build it ({error})") from error
        self._MPI, self._comm = MPI, MPI.COMM_WORLD if comm is None else comm
        self.rank, self.size = self._comm.rank, self._comm.size
        self._shape, self._sent = shape, []

    def send(self, array, rank):
        """Send without waiting for the receiver; what is on its way is kept until it has arrived."""
        self._sent = [(request, kept) for request, kept in self._sent if not request.Test()]
        array = np.ascontiguousarray(array, np.float64)
        self._sent.append((self._comm.Isend(array, rank), array))

    def receive(self, rank):
        array = np.empty(self._shape)
        self._comm.Recv(array, rank)
        return array

    def sum(self, array):
        """Sum over all ranks; the same bits on each, since one adds and tells the others."""
        array = np.ascontiguousarray(array, np.float64)
        total = np.empty_like(array)
        self._comm.Reduce(array, total)
        self._comm.Bcast(total)
        return total

    def finish(self):
        """Wait until all that was sent has arrived."""
        self._MPI.Request.Waitall([request for request, _ in self._sent])
        self._sent.clear()


def end_all_on_error():
    """From now on an exception that nobody catches ends all ranks, with its traceback, and not this one alone while others wait for it."""
    from mpi4py import MPI

    def end(kind, error, trace):
        traceback.print_exception(kind, error, trace)
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)

    sys.excepthook = end
