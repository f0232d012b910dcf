"""The GPU's primary context, and what lives as long as it does.

The primary context is the one that CUDA's runtime, and so PyTorch or CuPy, use
too: beside them there is one context, not two. It is current only inside a
``with`` block; whatever was current before is so again afterwards, whether the
block ends well or not.
"""

from __future__ import annotations

import atexit
import os
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from threading import Lock, RLock

from rnnopt.devices import DeviceUnavailable
from rnnopt.devices.cuda import cublas, modules, standin

NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: no order with the default stream, on which others may work

_contexts: dict = {}
_making = Lock()


def driver():
    """Return the module ``pycuda.driver``, initialised.

    Raises
    ------
    rnnopt.devices.DeviceUnavailable
        If PyCUDA or a working driver is missing, or this process was forked from one that uses CUDA.
    """
    if _initialise() != os.getpid():
        raise DeviceUnavailable("this process was forked from one that uses CUDA, and CUDA does not survive a fork: "
                                "start processes with multiprocessing's method 'spawn'")
    from pycuda import driver as cuda

    return cuda


@cache
def _initialise() -> int:
    """Initialise the driver; return the number of the process in which that was done."""
    standin.load_driver()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyCUDA warns of some of the errors that it then raises
            from pycuda import driver as cuda
    except ModuleNotFoundError as error:
        raise DeviceUnavailable(f"no PyCUDA ({error}): install the extra 'cuda', which builds it with the CUDA toolkit, "
                                f"or make the conda environment of environment-gpu.yml; without a GPU, 'make pycuda-standin'") from None
    except ImportError as error:
        raise DeviceUnavailable(f"PyCUDA finds no NVIDIA driver ({error}): install one at least as new as the CUDA toolkit "
                                f"that PyCUDA was built with, and see that nvidia-smi lists a GPU; without a GPU, "
                                f"'make pycuda-standin'") from None
    try:
        cuda.init()
    except cuda.Error as error:
        raise DeviceUnavailable(f"the NVIDIA driver finds no GPU that it can use ({error}): see what nvidia-smi says, "
                                f"and that CUDA_VISIBLE_DEVICES hides none") from None
    return os.getpid()


def gpu():
    """Return the GPU of the context that is current in this thread, else the first, as PyCUDA's ``Device``."""
    cuda = driver()
    try:
        return cuda.Context.get_device()
    except cuda.Error:  # no context is current
        pass
    if not cuda.Device.count():
        raise DeviceUnavailable("the NVIDIA driver lists no GPU: see what nvidia-smi says, "
                                "and that CUDA_VISIBLE_DEVICES hides none")
    return cuda.Device(0)


def of(gpu) -> Context:
    """Return the primary context of `gpu`: the same to whoever asks in this process."""
    driver()
    with _making:
        if gpu not in _contexts:
            _contexts[gpu] = Context(gpu)
        return _contexts[gpu]


@dataclass(frozen=True)
class Lane:
    """A stream and the cuBLAS handle that issues to it.

    A handle of its own gives each stream its own workspace, without which
    cuBLAS repeats its bits on a single stream only.
    """

    stream: object
    cublas: int


class Context:
    """A primary context with its streams and modules, for one thread at a time.

    Attributes
    ----------
    gpu : pycuda.driver.Device
    """

    def __init__(self, gpu):
        self.gpu = gpu
        self._primary = gpu.retain_primary_context()
        self._owner = os.getpid()
        self._lock = RLock()
        self._lanes, self._modules = [], {}
        atexit.register(self._close)

    @property
    def usable(self) -> bool:
        """Whether this is the process that made it, and it isn't closed."""
        return self._primary is not None and self._owner == os.getpid()

    @contextmanager
    def current(self):
        """Make the context current in this thread; others wait."""
        driver()
        with self._lock:
            self._primary.push()
            try:
                yield
            finally:
                self._primary.pop()

    def lanes(self, count: int) -> list[Lane]:
        """Return the first `count` lanes; all executables share them, since they run one at a time."""
        while len(self._lanes) < count:
            stream = driver().Stream(NON_BLOCKING)
            self._lanes.append(Lane(stream, cublas.open_handle(stream.handle)))
        return self._lanes[:count]

    def function(self, file: str, name: str):
        """Return kernel `name` of the ``.cu`` file called `file`, compiled and loaded on first use."""
        if file not in self._modules:
            self._modules[file] = modules.load(file, self.gpu.compute_capability())
        return self._modules[file].get_function(name)

    def _close(self):
        if not self.usable:
            return
        # The process ends and the driver takes back what is left; after a failed kernel all these calls fail.
        with suppress(Exception), self.current():
            for lane in self._lanes:
                cublas.close_handle(lane.cublas)
            self._lanes.clear()
            self._modules.clear()
        primary, self._primary = self._primary, None
        with suppress(Exception):
            primary.detach()
