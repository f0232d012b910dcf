"""PyTorch's LSTM and GRU (cuDNN on a GPU) beside the full ladder, in one process, with TF32 off and on."""

from __future__ import annotations

import json
from statistics import median
from time import perf_counter

import numpy as np

from rnnopt import measure, measure_training, paths, provenance, reference
from rnnopt.devices.cuda import standin
from rnnopt.network import compile
from rnnopt.weights import init_weights

NAME = "beside torch"


class NoPeer(RuntimeError):
    """There is no PyTorch to compare with here; the message says what is missing."""


def beside_torch(spec, device, repeats: int) -> dict:
    """Return the record of torch's module and of this project's training network, timed in turns.

    Each network's error is that of the outputs and of the weights' gradients against the float64 reference. TF32 rounds
    products' factors to 10 bits, so its error is larger; it is recorded, not refused.

    Raises
    ------
    NoPeer
        If PyTorch is not installed, or has no GPU where the device is one, or the device is the stand-in for one.
    rnnopt.measure.WrongResult
        If a network without TF32 does not agree with the reference.
    """
    try:
        import torch
    except ImportError as error:
        raise NoPeer(f"PyTorch is not installed: {error}") from None
    on = "cuda" if device.name == "cuda" else "cpu"
    if on == "cuda" and standin.chosen():
        raise NoPeer("the stand-in driver's CPU and PyTorch's GPU have nothing to compare")
    if on == "cuda" and not torch.cuda.is_available():
        raise NoPeer(f"this PyTorch ({torch.__version__}) uses no GPU: install one that was built for CUDA")
    weights, inputs = init_weights(spec), measure.sample_inputs(spec)
    d_outputs = measure_training.sample_gradients(spec)
    ours = compile(spec, weights, device=device, training=True)
    peers = {"torch, TF32 off": _Torch(torch, spec, weights, inputs, d_outputs, on, tf32=False)}
    if on == "cuda":
        peers["torch, TF32 on"] = _Torch(torch, spec, weights, inputs, d_outputs, on, tf32=True)
    networks = {**peers, "wavefront": _Ours(ours, inputs, d_outputs)}
    outputs, _ = reference.forward(spec, weights, inputs)
    exact = {"outputs": outputs, **reference.backward(spec, weights, inputs, d_outputs)}
    results = {}
    for label, network in networks.items():
        error = max(reference.relative_error(value, exact[name]) for name, value in network.results().items())
        if label != "torch, TF32 on" and not error <= reference.TOLERANCE["float32"]:
            raise measure.WrongResult(f"{label} differs from the float64 reference by {error:.2g}: not timed")
        results[label] = {"error": error, "seconds": {"forward": [], "backward": []}}
    for _ in range(repeats):
        for label, network in networks.items():
            for name, seconds in zip(("forward", "backward"), network.step(), strict=True):
                results[label]["seconds"][name].append(seconds)
    for result in results.values():
        result["median"] = {name: median(seconds) for name, seconds in result["seconds"].items()}
    identity = {"name": NAME, "spec": spec.as_dict(), "device": device.describe(), "versions": provenance.versions() | {
        "torch": torch.__version__, "cudnn": torch.backends.cudnn.version() if on == "cuda" else None}, "repeats": repeats}
    record = {"key": provenance.hash_json(identity)[:24], **identity, "environment": provenance.environment(), "networks": results}
    paths.atomic_write(paths.build_dir() / "records" / f"{record['key']}.json", json.dumps(record, indent=1))
    return record


class _Ours:
    def __init__(self, network, inputs, d_outputs):
        self._network, self._inputs, self._d_outputs = network, inputs, d_outputs

    def results(self):
        outputs, _ = self._network(self._inputs)
        gradients = self._network.backward(self._d_outputs)
        return {"outputs": outputs.copy(), **{name: value for name, value in gradients.items() if name.startswith(("weight", "bias"))}}

    def step(self):
        return self._network.executable.replay(), self._network.backward_executable.replay()


class _Torch:
    def __init__(self, torch, spec, weights, inputs, d_outputs, on, tf32):
        self._torch, self._on, self._tf32 = torch, on, tf32
        module = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[spec.cell]
        self._module = module(spec.input_size, spec.hidden_size, spec.layers).to(on)
        self._module.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in weights.items()})
        self._inputs = torch.from_numpy(inputs).to(on).requires_grad_()
        self._d_outputs = torch.from_numpy(d_outputs).to(on)

    def results(self):
        self.step()
        gradients = {name: value.grad.cpu().numpy() for name, value in self._module.named_parameters()}
        return {"outputs": self._outputs.detach().cpu().numpy(), **gradients}

    def step(self):
        torch = self._torch
        self._module.zero_grad(set_to_none=True)
        before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = self._tf32
        try:
            return self._timed(self._forward), self._timed(lambda: self._outputs.backward(self._d_outputs))
        finally:
            torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before

    def _forward(self):
        self._outputs, _ = self._module(self._inputs)

    def _timed(self, run):
        if self._on == "cpu":
            start = perf_counter()
            run()
            return perf_counter() - start
        start, stop = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) / 1e3
