"""What people would use instead, behind the interface of a network, so that it is checked and timed alike.

``python -m rnnopt.peers`` compares the full ladder with PyTorch on this machine.
"""

from __future__ import annotations

import argparse
from time import perf_counter
from types import SimpleNamespace

from rnnopt import devices, init_weights, measure, measure_training
from rnnopt.network import compile
from rnnopt.provenance import core_count
from rnnopt.spec import NetworkSpec


class TorchLSTM:
    """``torch.nn.LSTM`` on the CPU, without gradients, as a member of :func:`rnnopt.measure.compare`.

    Parameters
    ----------
    spec : NetworkSpec
    weights : dict of str to ndarray
    device : host device
        Whose cache flush and description it shares: both run on the same cores.

    Raises
    ------
    ImportError
        If PyTorch is not installed (``pip install rnnopt[peers]``).
    """

    def __init__(self, spec: NetworkSpec, weights, device):
        import torch

        self.spec, self.weights, self.device = spec, weights, device
        self.plan = SimpleNamespace(kernel_files=(), fingerprint=f"torch {torch.__version__}, "
                                    f"{torch.get_num_threads()} threads", counts=dict)
        self._torch = torch
        self._module = torch.nn.LSTM(spec.input_size, spec.hidden_size, spec.layers)
        self._module.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
        self.executable = self

    def __call__(self, inputs):
        self._inputs = self._torch.from_numpy(inputs)
        self.replay()
        outputs, state = self._results
        return outputs.numpy(), tuple(part.numpy() for part in state)

    def replay(self) -> float:
        with self._torch.no_grad():
            start = perf_counter()
            self._results = self._module(self._inputs)
            return perf_counter() - start


class TorchTraining(TorchLSTM):
    """The same with gradients, as a member of :func:`rnnopt.measure_training.compare`."""

    def __init__(self, spec: NetworkSpec, weights, device):
        super().__init__(spec, weights, device)
        self.backward_plan = self.plan
        self.backward_executable = SimpleNamespace(replay=self._go_back)
        self._d_outputs = None

    def __call__(self, inputs):
        self._inputs = self._torch.from_numpy(inputs).requires_grad_()
        self.replay()

    def replay(self) -> float:
        start = perf_counter()
        self._results = self._module(self._inputs)
        return perf_counter() - start

    def backward(self, d_outputs):
        self._d_outputs = self._torch.from_numpy(d_outputs)
        self._go_back()
        return {"inputs": self._inputs.grad.numpy(), **{name: value.grad.numpy() for name, value in self._module.named_parameters()}}

    def _go_back(self):
        self._module.zero_grad(set_to_none=True)
        self._inputs.grad = None
        start = perf_counter()
        self._results[0].backward(self._d_outputs)
        return perf_counter() - start


def against_torch(spec: NetworkSpec, *, training: bool = False, repeats: int = 9, seed: int = 0) -> dict:
    """Return the record that compares PyTorch (first) with the full ladder on the host device."""
    import torch

    torch.set_num_threads(core_count())
    device, weights = devices.resolve("host"), init_weights(spec, seed)
    peer, compared = (TorchTraining, measure_training) if training else (TorchLSTM, measure)
    networks = {"torch": peer(spec, weights, device), "wavefront": compile(spec, weights, device=device, training=training)}
    name = "training against torch" if training else "against torch"
    return compared.compare(name, networks, measure.sample_inputs(spec, seed), repeats=repeats)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m rnnopt.peers",
                                     description="Compare the full ladder with PyTorch on this CPU.")
    for name, default in {"layers": 4, "hidden-size": 512, "batch": 64, "steps": 100, "repeats": 9}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--training", action="store_true", help="forward and backward passes, instead of inference")
    given = parser.parse_args(arguments)
    spec = NetworkSpec("lstm", given.layers, given.hidden_size, given.hidden_size, given.batch, given.steps)
    try:
        record = against_torch(spec, training=given.training, repeats=given.repeats)
    except ImportError as error:
        parser.exit(2, f"{parser.prog}: {error}; PyTorch is not part of the environment: make peers\n")
    print(spec)
    rows = measure_training.frame(record) if given.training else measure.frame(record)
    columns = ["label", *(["pass"] if given.training else []), "milliseconds", "low", "high", "gflops", "speedup", "error"]
    print(rows[columns].to_string(index=False, float_format="%.4g"))


if __name__ == "__main__":
    main()
