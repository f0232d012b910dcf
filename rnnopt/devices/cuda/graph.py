"""CUDA graphs: what a replay issues, captured once and launched as a whole.

PyCUDA has no calls for graphs; NVIDIA's ``cuda-bindings`` has them and takes PyCUDA's stream by its handle.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

#: Other threads may go on using CUDA in ways that a capture forbids to this one.
THREAD_LOCAL = 1


@cache
def bindings():
    """Return the module ``cuda.bindings.driver``, or None where there is none."""
    try:
        return import_module("cuda.bindings.driver")
    except ImportError:
        return None


class GraphError(RuntimeError):
    """A call about graphs failed; the message names it and what the driver says."""


class Graph:
    """Captured calls, ready to be launched again and again.

    Parameters
    ----------
    stream : pycuda.driver.Stream
        On which the calls begin and end; other streams have to fork from it and join it by events.
    calls : iterable of callable
        Each issues something and waits for nothing.

    Raises
    ------
    GraphError
        If the driver can't capture or instantiate them. The streams are as before then.
    """

    def __init__(self, stream, calls):
        _call("cuStreamBeginCapture", stream.handle, THREAD_LOCAL)
        try:
            for call in calls:
                call()
        except BaseException:
            bindings().cuStreamEndCapture(stream.handle)  # fails as the call did: the capture is over
            raise
        graph = _call("cuStreamEndCapture", stream.handle)
        try:
            self._executable = _call("cuGraphInstantiate", graph, 0)
        finally:
            _call("cuGraphDestroy", graph)

    def launch(self, stream):
        """Issue the whole to `stream`."""
        _call("cuGraphLaunch", self._executable, stream.handle)

    def free(self):
        """Give back what the driver keeps; more than once does no harm."""
        executable, self._executable = self._executable, None
        if executable is not None:
            _call("cuGraphExecDestroy", executable)


def _call(name, *arguments):
    error, *results = getattr(bindings(), name)(*arguments)
    if int(error):
        raise GraphError(f"{name} failed: {error.name.removeprefix('CUDA_ERROR_').replace('_', ' ').lower()}")
    return results[0] if results else None
