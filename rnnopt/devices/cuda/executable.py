"""A plan on a GPU: loaded, replayed and read, with nothing left behind."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from weakref import finalize

import numpy as np

from rnnopt.devices.cuda import context as contexts
from rnnopt.devices.cuda.graph import Graph
from rnnopt.devices.cuda.memory import Memory
from rnnopt.devices.cuda.program import program
from rnnopt.plan import Plan


class CudaExecutable:
    """A plan ready to be replayed on a GPU.

    Parameters
    ----------
    plan : Plan
    context : rnnopt.devices.cuda.context.Context
    order : sequence of int, optional
        Order in which operations are issued, each after what it depends on;
        the plan's own if not given. Makes no difference to a result.
    share : CudaExecutable, optional
        Buffers that it has too, by name, are the same memory. When it is closed, so is this one.
    replay : {"streams", "graph"}
        Issue operation by operation at every replay; or so at the first, which loads what CUDA and
        cuBLAS load lazily, and then capture the same as a CUDA graph, which all later replays launch.

    Raises
    ------
    rnnopt.devices.cuda.memory.OutOfDeviceMemory
        If the buffers don't fit.
    rnnopt.devices.cuda.nvcc.CompileError
        If a kernel does not compile.
    """

    def __init__(self, plan: Plan, context, order=None, share=None, replay="streams"):
        self.plan, self._context, self._share = plan, context, share
        self._replay, self._graphs, self._warm = replay, [], False
        self._cuda = contexts.driver()
        with context.current():
            self._memory = Memory(self._cuda, plan.buffers.values(), share and share._memory)
            try:
                self._origin, self._calls = program(self._cuda, plan, context, self._memory, order)
                self._clock = [self._cuda.Event(), self._cuda.Event()]
            except BaseException:
                self._memory.free()
                raise
        # PyCUDA's objects are freed where their context is current, and nowhere else: so not when Python happens to
        # collect them, but here. When the process ends the context goes first, with all that is in it.
        self._release = finalize(self, _release, context, self._memory, self._graphs, self._calls, self._clock)
        self._release.atexit = False

    def load(self, arrays):
        """Copy inputs and weights to the GPU, by buffer name: float32, C-contiguous, of the buffer's shape."""
        with self._open():
            try:
                for name, array in arrays.items():
                    if name in self.plan.buffers:
                        _check(self.plan.buffers[name], array)
                        # On the stream that the plan begins on: a copy without a stream may still be under way when
                        # it returns, and the plan's streams don't wait for it.
                        self._cuda.memcpy_htod_async(self._memory.base(name), array, self._origin)
            finally:
                self._origin.synchronize()  # the arrays are the caller's again

    def replay(self) -> float:
        """Run the plan once; return the seconds it took by the GPU's clock, all streams included."""
        with self._open():
            start, stop = self._clock
            try:
                if self._replay == "graph" and self._warm and not self._graphs:
                    self._graphs.append(Graph(self._origin, self._calls))
                start.record(self._origin)
                for call in [partial(graph.launch, self._origin) for graph in self._graphs] or self._calls:
                    call()
                stop.record(self._origin)
                stop.synchronize()
                self._warm = True
            except BaseException as error:
                try:
                    self._cuda.Context.synchronize()  # what was issued must not run into what comes next
                except self._cuda.Error:
                    error.add_note("CUDA can't be used any more in this process: restart it (in Jupyter, the kernel)")
                raise
            return start.time_till(stop) / 1e3

    def result(self, name) -> np.ndarray:
        """Return an output of the last replay, in an array of its own."""
        array = np.empty(self.plan.buffers[name].shape, np.float32)
        with self._open():
            self._cuda.memcpy_dtoh_async(array, self._memory.base(name), self._origin)
            self._origin.synchronize()
        return array

    def close(self):
        """Give the GPU's memory back; nothing else can be done with the executable afterwards."""
        self._release()

    @property
    def _alive(self):
        return self._release.alive and (self._share is None or self._share._alive)

    @contextmanager
    def _open(self):
        with self._context.current():
            if not self._alive:
                raise RuntimeError("this executable is closed: prepare the plan again")
            yield


def _release(context, memory, graphs, calls, clock):
    if context.usable:
        with context.current():
            while graphs:
                graphs.pop().free()
            calls.clear()
            clock.clear()
            memory.free()


def _check(buffer, array):
    if array.shape != buffer.shape or array.dtype != np.float32 or not array.flags.c_contiguous:
        raise ValueError(f"{buffer.name} must be a C-contiguous float32 array of shape {buffer.shape}, "
                         f"got {array.dtype} of shape {array.shape}")
