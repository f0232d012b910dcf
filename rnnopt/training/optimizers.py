"""Optimisers, by torch's rules: one fused kernel for each parameter, which changes it in place."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rnnopt import devices
from rnnopt.schedule.builder import Builder

#: Floats in the kernels' ``settings``.
SETTINGS = 8


class _Optimizer:
    """What the optimisers share.

    Attributes
    ----------
    steps : int
        Updates made so far.
    state : dict of str to ndarray
        ``"PARAMETER.SLOT"`` -> what is kept of a parameter. With `steps`, all that a run resumes from.
    """

    #: Kernel, and what it keeps of each parameter.
    kernel: str
    slots: tuple[str, ...]

    def __init__(self, device="auto"):
        self.device = devices.resolve(device) if isinstance(device, str) else device
        self.steps, self.state = 0, {}
        self._prepared = None

    def update(self, weights: Mapping[str, np.ndarray], gradients: Mapping[str, np.ndarray], *, scale: float = 1.0):
        """Change `weights` in place, one step along `gradients`.

        Parameters
        ----------
        weights : mapping of str to ndarray of float32, C-contiguous
        gradients : mapping of str to ndarray of float32
            One for each weight, of its shape; others are left alone.
        scale : float
            Factor of all gradients (see :func:`rnnopt.training.clip_by_norm`).

        Raises
        ------
        TypeError
            If a weight is not float32.
        ValueError
            If a gradient is missing or has another shape, or a weight can't be written to. Nothing is changed then.
        """
        for name, weight in weights.items():
            if weight.dtype != np.float32:
                raise TypeError(f"weights[{name!r}] must be float32, got {weight.dtype}: convert it with .astype(np.float32)")
            if not weight.flags.writeable:  # a kernel has but its address, and would write
                raise ValueError(f"weights[{name!r}] is read-only, and an update changes it in place: give a copy of it")
            if name not in gradients or gradients[name].shape != weight.shape:
                got = gradients[name].shape if name in gradients else "none"
                raise ValueError(f"gradients[{name!r}] must have the shape {weight.shape} of the weight, got {got}")
        for name, weight in weights.items():
            for slot in self.slots:
                self.state.setdefault(f"{name}.{slot}", np.zeros_like(weight))
        self.steps += 1
        settings = np.zeros(SETTINGS, np.float32)
        settings[:len(self.settings(scale))] = self.settings(scale)
        if self.device.name == "reference":
            for name, weight in weights.items():
                self.rule(settings, gradients[name], *(self.state[f"{name}.{slot}"] for slot in self.slots), weight)
        else:
            self._run(settings, weights, gradients)

    def _run(self, settings, weights, gradients):
        shapes = {name: weight.shape for name, weight in weights.items()}
        if self._prepared is None or self._prepared[0] != shapes:
            self._prepared = shapes, self.device.prepare(None, self._plan(shapes))
        executable = self._prepared[1]
        arrays = dict(weights) | {
            f"{name}.{slot}": self.state[f"{name}.{slot}"] for name in weights for slot in self.slots}
        executable.load({"settings": settings} | {name: array.reshape(_matrix(array.shape)) for name, array in arrays.items()}
                        | {f"{name}.gradient": np.ascontiguousarray(gradients[name]).reshape(_matrix(shapes[name])) for name in weights})
        executable.replay()
        for name, array in arrays.items():
            after = executable.result(name)
            if not np.shares_memory(after, array):  # a device with memory of its own
                array[...] = after.reshape(array.shape)

    def _plan(self, shapes):
        builder = Builder()
        settings = builder.buffer("settings", (SETTINGS,), "input")[:]
        for name, shape in shapes.items():
            gradient, *kept, weight = (builder.buffer(buffer, _matrix(shape), role)[:, :] for buffer, role in (
                (f"{name}.gradient", "input"), *((f"{name}.{slot}", "state") for slot in self.slots), (name, "state")))
            # On streams of their own: parameters have nothing to do with each other.
            builder.launch(self.kernel, weight, (settings, gradient, *kept, weight, *kept, weight), name)
        return builder.plan(cells=max(1, len(shapes)))


def _matrix(shape):
    return (1, *shape)[-2:] if len(shape) < 3 else (int(np.prod(shape[:-1])), shape[-1])


class SGD(_Optimizer):
    """Gradient descent with momentum (``torch.optim.SGD``).

    Parameters
    ----------
    learning_rate, momentum, weight_decay : float
    device : str or device
    """

    kernel, slots = "sgd", ("velocity",)

    def __init__(self, learning_rate: float, momentum: float = 0.0, weight_decay: float = 0.0, device="auto"):
        super().__init__(device)
        self.learning_rate, self.momentum, self.weight_decay = learning_rate, momentum, weight_decay

    def settings(self, scale):
        return self.learning_rate, self.momentum, self.weight_decay, scale

    @staticmethod
    def rule(settings, gradient, velocity, weight):
        """The kernel's rule in NumPy, in place."""
        rate, momentum, decay, factor = settings[:4]
        velocity[...] = momentum * velocity + factor * gradient + decay * weight
        weight -= rate * velocity


class Adam(_Optimizer):
    """Adam (``torch.optim.Adam``).

    Parameters
    ----------
    learning_rate : float
    betas : tuple of float
    epsilon, weight_decay : float
    device : str or device
    """

    kernel, slots = "adam", ("mean", "square")

    def __init__(self, learning_rate: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-8,
                 weight_decay: float = 0.0, device="auto"):
        super().__init__(device)
        self.learning_rate, self.betas, self.epsilon, self.weight_decay = learning_rate, betas, epsilon, weight_decay

    def settings(self, scale):
        first, second = (1 - beta**self.steps for beta in self.betas)
        return (self.learning_rate / first, *self.betas, self.epsilon, self.weight_decay, scale, 1 / np.sqrt(second))

    @staticmethod
    def rule(settings, gradient, mean, square, weight):
        """The kernel's rule in NumPy, in place."""
        rate, beta1, beta2, epsilon, decay, factor, correction = settings[:7]
        d = factor * gradient + decay * weight
        mean[...] = beta1 * mean + (1 - beta1) * d
        square[...] = beta2 * square + (1 - beta2) * d * d
        weight -= rate * mean / (np.sqrt(square) * correction + epsilon)


