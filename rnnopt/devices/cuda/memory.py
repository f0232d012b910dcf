"""The buffers of a plan in GPU memory: all allocated here, all or none."""

from __future__ import annotations

from rnnopt.operations import FLOAT_BYTES, View


class OutOfDeviceMemory(MemoryError):
    """The GPU has too little free memory; the message says how much was needed and how much there is."""


class Memory:
    """GPU memory of each buffer, uninitialised.

    Parameters
    ----------
    cuda : module
        ``pycuda.driver``, with the context current.
    buffers : iterable of Buffer
    share : Memory, optional
        Buffers that it has, by name, are where they are there; it has to outlive this one.

    Raises
    ------
    OutOfDeviceMemory
        If they don't fit; what was allocated is free again.
    """

    def __init__(self, cuda, buffers, share: Memory | None = None):
        shared = {} if share is None else share._addresses
        buffers = [buffer for buffer in buffers if buffer.name not in shared]
        self._allocations = {}
        try:
            for buffer in buffers:
                self._allocations[buffer.name] = cuda.mem_alloc(buffer.nbytes)
        except cuda.MemoryError:
            self.free()
            free, total = cuda.mem_get_info()
            needed = sum(buffer.nbytes for buffer in buffers)
            raise OutOfDeviceMemory(
                f"this plan needs {needed:,} bytes of GPU memory, and {free:,} of {total:,} are free: take fewer steps, "
                f"a smaller batch or hidden_size, {_preset_that_fits(free)}or end other programs on the GPU") from None
        except BaseException:
            self.free()
            raise
        self._addresses = shared | {name: int(allocation) for name, allocation in self._allocations.items()}

    def address(self, view: View) -> int:
        """Address of the first element of `view`."""
        return self._addresses[view.buffer.name] + FLOAT_BYTES * view.offset

    def base(self, name: str) -> int:
        """Address of the buffer called `name`."""
        return self._addresses[name]

    def free(self):
        """Give the memory back; more than once does no harm."""
        while self._allocations:
            self._allocations.popitem()[1].free()


def _preset_that_fits(free):
    """Words about the largest preset at which the whole-network notebook fits into `free` bytes."""
    from rnnopt.artifacts import PRESETS, by_id
    from rnnopt.schedule import schedule
    from rnnopt.spec import NetworkSpec

    for preset in reversed(PRESETS):
        sizes = by_id("03_network").presets[preset]
        spec = NetworkSpec("lstm", sizes["layers"], sizes["hidden_size"], sizes["hidden_size"], sizes["batch"], sizes["steps"])
        if (needed := schedule(spec, "wavefront").memory()) <= free:
            return f"or the preset {preset!r} of notebook 03, which takes {needed:,}, "
    return ""
