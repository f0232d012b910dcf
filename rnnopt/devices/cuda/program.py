"""From a plan to calls of CUDA and cuBLAS: what is issued to which stream, in which order."""

from __future__ import annotations

from functools import partial

from rnnopt import kernels
from rnnopt.devices.cuda import cublas, launches, wiring
from rnnopt.operations import FLOAT_BYTES, Copy, Gemm
from rnnopt.plan import Plan


def program(cuda, plan: Plan, context, memory, order=None):
    """Return the stream on which a replay begins and ends, and the calls that make it up.

    Parameters
    ----------
    cuda : module
        ``pycuda.driver``, with the context current.
    plan : Plan
    context : rnnopt.devices.cuda.context.Context
    memory : rnnopt.devices.cuda.memory.Memory
    order : sequence of int, optional
        Order of issue; the plan's own if not given.

    Returns
    -------
    pycuda.driver.Stream
    list of callable
        Without arguments, to be called one after the other. Everything that a
        call needs is fixed here; nothing is looked up or packed twice.
    """
    streams = sorted({operation.stream for operation in plan.operations})
    lanes = dict(zip(streams, context.lanes(len(streams)), strict=True))
    origin, *others = [lane.stream for lane in lanes.values()]
    steps = wiring.waits(plan, order)
    event = {number: cuda.Event(cuda.event_flags.DISABLE_TIMING)
             for number in {producer for _, waited in steps for producer in waited}}
    issue = _Issuer(cuda, context, memory)

    # The other streams begin after the origin and end before it, so that what
    # is ordered with the origin is ordered with the whole replay.
    fork = cuda.Event(cuda.event_flags.DISABLE_TIMING)
    calls = [partial(fork.record, origin)] if others else []
    calls += [partial(stream.wait_for_event, fork) for stream in others]
    for number, waited in steps:
        operation = plan.operations[number]
        lane = lanes[operation.stream]
        calls += [partial(lane.stream.wait_for_event, event[producer]) for producer in waited]
        calls.append(issue(operation, lane))
        if number in event:
            calls.append(partial(event[number].record, lane.stream))
    for stream in others:
        join = cuda.Event(cuda.event_flags.DISABLE_TIMING)
        calls += [partial(join.record, stream), partial(origin.wait_for_event, join)]
    return origin, calls


class _Issuer:
    """Makes the call that issues an operation to a lane."""

    def __init__(self, cuda, context, memory):
        self._cuda, self._context, self._address = cuda, context, memory.address
        self._functions = {}

    def __call__(self, operation, lane):
        if isinstance(operation, Gemm):
            out, a, b = map(self._address, (operation.out, operation.a, operation.b))
            return cublas.gemm(lane.cublas, operation, out, a, b)
        if isinstance(operation, Copy):
            return partial(self._copy(operation), lane.stream)
        grid, block = launches.shape(operation)
        return partial(self._function(operation.kernel).prepared_async_call, grid, block, lane.stream,
                       *launches.arguments(operation, self._address))

    def _function(self, name):
        if name not in self._functions:
            function = self._context.function(kernels.get(name).file, name)
            self._functions[name] = function.prepare(launches.argument_format(name))
        return self._functions[name]

    def _copy(self, operation):
        out, source = operation.out, operation.source
        copy = self._cuda.Memcpy2D()
        copy.set_src_device(self._address(source))
        copy.set_dst_device(self._address(out))
        copy.width_in_bytes, copy.height = FLOAT_BYTES * out.cols, out.rows
        # The leading dimension of a single row may be 0, which is no pitch.
        copy.src_pitch, copy.dst_pitch = (FLOAT_BYTES * max(view.ld, view.cols) for view in (source, out))
        return copy
