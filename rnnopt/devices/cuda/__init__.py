"""An NVIDIA GPU as a device: kernels, streams and events through PyCUDA, GEMM from cuBLAS."""

from __future__ import annotations

#: The group of steps that the paper found best on a GPU.
INPUT_GROUP = 2


def open_device():
    """Return the GPU of the CUDA context that is current in this thread, else the first one.

    The environment variable CUDA_VISIBLE_DEVICES says which GPUs there are. No
    context is made before one is needed.

    Raises
    ------
    rnnopt.devices.DeviceUnavailable
        If PyCUDA, the driver, a GPU, nvcc or cuBLAS is missing; the message says which, and what to do.
    """
    from rnnopt.devices.cuda import context, cublas, nvcc

    gpu = context.gpu()
    nvcc.target(gpu.compute_capability())
    cublas.load()
    return CudaDevice(gpu)


class CudaDevice:
    """A GPU; `gpu` is PyCUDA's ``Device``."""

    name = "cuda"
    reason = "opened directly"

    def __init__(self, gpu):
        self.gpu = gpu

    def describe(self) -> dict:
        from rnnopt.devices.cuda import context, cublas, nvcc

        major, minor = self.gpu.compute_capability()
        release = context.driver().get_driver_version()
        target = nvcc.target((major, minor))
        return {"device": self.name, "what": self.gpu.name(), "compute_capability": f"{major}.{minor}",
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

        return CudaExecutable(plan, context.of(self.gpu), share=share)
