"""The calls of PyCUDA that the cuda device makes, played on host memory (fake_cublas plays those of cuBLAS).

Streams are queues that nobody empties before somebody waits, and then in a
random order of which only streams and events are left: the worst that a GPU may
do. Kernels are the host's builds of the same files, fed by the packed arguments.
The fake is strict: it refuses a call without a context, pointers outside of live
memory, a wait without end. It is no GPU and shows nothing about one; it shows
what is asked of it.
"""

import ctypes
import struct
from types import ModuleType, SimpleNamespace

import numpy as np

from rnnopt.devices.host import program

ENTRY = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, ctypes.c_int)

Error = type("Error", (Exception,), {})
LogicError = type("LogicError", (Error,), {})
OutOfMemory = type("MemoryError", (Error,), {})


class Gpu:
    """What there is one of: memory, the context stack, the streams, and a log of all that was issued."""

    def __init__(self, seed=0, capacity=2**30):
        self.random = np.random.default_rng(seed)
        self.capacity, self.live = capacity, {}
        self.depth, self.retained, self.handles = 0, 0, {}
        self.streams, self.log, self.at_exit = [], [], []
        self.fail_at = None  # number of the launch that fails

    def need_context(self):
        if not self.depth:
            raise LogicError("no context is current")

    @property
    def used(self):
        return sum(array.nbytes for array in self.live.values())

    def array(self, address, count):
        """Floats of live memory."""
        for base, array in self.live.items():
            if base <= address and address + 4 * count <= base + array.nbytes:
                return array[(address - base) // 4:][:count]
        raise LogicError(f"{count} floats at {address} are not in live memory")

    def matrix(self, address, rows, cols, ld):
        """Row-major, as a view of live memory."""
        flat = self.array(address, (rows - 1) * ld + cols)
        return np.lib.stride_tricks.as_strided(flat, (rows, cols), (4 * ld, 4))

    def drain(self, until):
        """Run queued work, at random among the streams whose next piece may run, until ``until()``."""
        while not until():
            ready = [stream for stream in self.streams if stream.queue and stream.queue[0].ready()]
            if not ready:
                raise LogicError("every stream waits for another")
            stream = ready[self.random.integers(len(ready))]
            stream.queue.pop(0).run()


class Allocation:
    def __init__(self, gpu, nbytes):
        gpu.need_context()
        if gpu.used + nbytes > gpu.capacity:
            raise OutOfMemory("cuMemAlloc failed: out of memory")
        self._gpu, self._array = gpu, np.full(nbytes // 4, np.nan, np.float32)
        self._address = self._array.ctypes.data
        gpu.live[self._address] = self._array

    def __int__(self):
        return self._address

    def free(self):
        self._gpu.need_context()
        self._array[:] = np.nan
        del self._gpu.live[self._address]


class Stream:
    def __init__(self, gpu, flags):
        gpu.need_context()
        self._gpu, self.flags, self.queue = gpu, flags, []
        gpu.streams.append(self)
        self.handle = 1000 + len(gpu.streams)

    def add(self, run, ready=lambda: True):
        self._gpu.need_context()
        self.queue.append(SimpleNamespace(run=run, ready=ready))

    def wait_for_event(self, event):
        ticket = event.issued  # of the last record before this call; with none, there is nothing to wait for
        self._gpu.log.append(("wait", self, event))
        self.add(lambda: None, lambda: event.done >= ticket)

    def synchronize(self):
        self._gpu.need_context()
        self._gpu.drain(lambda: not self.queue)


class Event:
    def __init__(self, gpu, flags):
        gpu.need_context()
        self._gpu, self.flags = gpu, flags
        self.issued = self.done = 0

    def record(self, stream):
        self.issued += 1
        ticket = self.issued
        self._gpu.log.append(("record", stream, self))
        stream.add(lambda: setattr(self, "done", ticket))

    def synchronize(self):
        self._gpu.drain(lambda: self.done >= self.issued)

    def time_till(self, other):
        if self.flags or other.flags or not self.done or not other.done:
            raise LogicError("these events have no time")
        return 1500.0


class Function:
    def __init__(self, gpu, name):
        self._gpu, self._name = gpu, name

    def prepare(self, arg_format):
        self._format = arg_format
        return self

    def prepared_async_call(self, grid, block, stream, *args):
        gpu = self._gpu
        number = sum(kind == "launch" for kind, *_ in gpu.log)
        if number == gpu.fail_at:
            raise LogicError("cuLaunchKernel failed: launch failure")
        gpu.log.append(("launch", stream, self._name, grid, block, args))
        packed = struct.pack(self._format, *args)
        offsets = [struct.calcsize(self._format[:n + 1]) - struct.calcsize(kind) for n, kind in enumerate(self._format)]

        def run():
            for kind, value in zip(self._format, args, strict=True):
                if kind == "P":
                    gpu.array(value, 1)
            buffer = ctypes.create_string_buffer(packed)
            pointers = (ctypes.c_void_p * len(offsets))(*(ctypes.addressof(buffer) + at for at in offsets))
            ENTRY(program.entry_point(self._name))(pointers, 0, 1)

        stream.add(run)


class Memcpy2D:
    def __init__(self, gpu):
        self._gpu = gpu

    def set_src_device(self, address):
        self._source = address

    def set_dst_device(self, address):
        self._out = address

    def __call__(self, stream):
        gpu, rows, cols = self._gpu, self.height, self.width_in_bytes // 4
        if self.src_pitch < self.width_in_bytes or self.dst_pitch < self.width_in_bytes:
            raise LogicError("cuMemcpy2DAsync failed: a pitch is below the width")
        gpu.log.append(("copy", stream))

        def run():
            gpu.matrix(self._out, rows, cols, self.dst_pitch // 4)[:] = gpu.matrix(
                self._source, rows, cols, self.src_pitch // 4)

        stream.add(run)


class Context:
    """The primary context."""

    def __init__(self, gpu):
        self._gpu = gpu
        gpu.retained += 1

    def push(self):
        self._gpu.depth += 1

    def pop(self):
        self._gpu.need_context()
        self._gpu.depth -= 1

    def detach(self):
        self._gpu.retained -= 1


class Device:
    def __init__(self, gpu):
        self._gpu = gpu

    def name(self):
        return "fake"

    def compute_capability(self):
        return 9, 0

    def total_memory(self):
        return self._gpu.capacity

    def get_attribute(self, attribute):
        return attribute

    def retain_primary_context(self):
        return Context(self._gpu)


def pycuda_driver(gpu):
    """What stands for the module ``pycuda.driver``."""
    device = Device(gpu)

    def get_device():
        gpu.need_context()
        return device

    def synchronize():
        gpu.need_context()
        gpu.drain(lambda: not any(stream.queue for stream in gpu.streams))

    def upload(address, array, stream):
        stream.add(lambda: np.copyto(gpu.array(address, array.size), array.ravel()))

    def download(array, address, stream):
        stream.add(lambda: np.copyto(array.ravel(), gpu.array(address, array.size)))

    module = ModuleType("pycuda.driver")
    vars(module).update(
        Error=Error, LogicError=LogicError, MemoryError=OutOfMemory, init=lambda: None, get_driver_version=lambda: 13000,
        Device=type("Device", (), {"count": staticmethod(lambda: 1), "__new__": lambda cls, number: device}),
        Context=SimpleNamespace(get_device=get_device, synchronize=synchronize),
        device_attribute=SimpleNamespace(L2_CACHE_SIZE=4096), event_flags=SimpleNamespace(DISABLE_TIMING=2),
        Stream=lambda flags=0: Stream(gpu, flags), Event=lambda flags=0: Event(gpu, flags),
        Memcpy2D=lambda: Memcpy2D(gpu), mem_alloc=lambda nbytes: Allocation(gpu, nbytes),
        mem_get_info=lambda: (gpu.capacity - gpu.used, gpu.capacity),
        memset_d32=lambda allocation, value, count: gpu.array(int(allocation), count).fill(value),
        memcpy_htod_async=upload, memcpy_dtoh_async=download,
        module_from_buffer=lambda image: SimpleNamespace(get_function=lambda name: Function(gpu, name)))
    return module
