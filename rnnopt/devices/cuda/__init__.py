"""An NVIDIA GPU as a device: kernels, streams and events through PyCUDA, GEMM from cuBLAS."""

from __future__ import annotations

#: The group of steps that the paper found best on a GPU.
INPUT_GROUP = 2


#: How a plan can be replayed: see :class:`rnnopt.devices.cuda.executable.CudaExecutable`.
REPLAYS = ("graph", "streams")


def open_device(replay: str | None = None):
    """Return the GPU of the CUDA context that is current in this thread, else the first one.

    The environment variable CUDA_VISIBLE_DEVICES says which GPUs there are. No
    context is made before one is needed.

    Parameters
    ----------
    replay : {"graph", "streams"}, optional
        A graph if not given and the package ``cuda-bindings`` is there.

    Raises
    ------
    rnnopt.devices.DeviceUnavailable
        If PyCUDA, the driver, a GPU, nvcc, cuBLAS or what graphs need is missing; the message says which, and what to do.
    ValueError
        If there is no such way of replay.
    """
    from rnnopt.devices import DeviceUnavailable
    from rnnopt.devices.cuda import context, cublas, graph, nvcc, standin

    if replay not in (None, *REPLAYS):
        raise ValueError(f"a GPU replays by {' or '.join(REPLAYS)}, got 'cuda:{replay}'")
    if replay == "graph" and graph.bindings() is None:
        raise DeviceUnavailable("no CUDA graphs: pip install 'cuda-bindings>=13.0.1', or take device 'cuda:streams'")
    gpu = context.gpu()
    if not standin.load_driver():
        nvcc.target(gpu.compute_capability())
    cublas.load()
    return CudaDevice(gpu, replay or ("streams" if graph.bindings() is None else "graph"))


class CudaDevice:
    """A GPU; `gpu` is PyCUDA's ``Device``, `replay` one of :data:`REPLAYS`."""

    name = "cuda"
    reason = "opened directly"

    def __init__(self, gpu, replay="streams"):
        self.gpu, self.replay = gpu, replay

    def describe(self) -> dict:
        from rnnopt.devices.cuda import context, cublas, nvcc, standin

        if standin.load_driver():
            from rnnopt.devices.host.compiler import find_compiler

            return {"device": self.name, "what": standin.NAME, "replay": self.replay, "compiler": find_compiler().version}
        major, minor = self.gpu.compute_capability()
        release = context.driver().get_driver_version()
        target = nvcc.target((major, minor))
        return {"device": self.name, "what": self.gpu.name(), "compute_capability": f"{major}.{minor}", "replay": self.replay,
                "memory": self.gpu.total_memory(), "driver": f"CUDA {release // 1000}.{release % 1000 // 10}",
                "cublas": cublas.version(), "compiler": nvcc.find().version, "flags": " ".join((*nvcc.FLAGS, *target.flags))}

    def input_group(self, spec) -> int:
        """Steps per input GEMM."""
        return min(INPUT_GROUP, spec.steps)

    def flush_cache(self):
        """Write twice what the L2 cache holds, so that the next run finds its data in memory."""
        from rnnopt.devices.cuda import context

        cuda = context.driver()
        with context.of(self.gpu).current():
            words = 2 * self.gpu.get_attribute(cuda.device_attribute.L2_CACHE_SIZE) // 4 or 1
            filler = cuda.mem_alloc(4 * words)
            try:
                cuda.memset_d32(filler, 0, words)
                cuda.Context.synchronize()
            finally:
                filler.free()

    def prepare(self, spec, plan, share=None):
        from rnnopt.devices.cuda import context
        from rnnopt.devices.cuda.executable import CudaExecutable

        return CudaExecutable(plan, context.of(self.gpu), share=share, replay=self.replay)
