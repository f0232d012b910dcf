"""What people would use instead, behind the interface of a network, so that it is checked and timed alike.

``python -m rnnopt.peers`` compares the full ladder with PyTorch on this machine.
"""

from __future__ import annotations

import argparse
from time import perf_counter
from types import SimpleNamespace

from rnnopt import devices, init_weights, measure
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


def against_torch(spec: NetworkSpec, *, repeats: int = 9, seed: int = 0) -> dict:
    """Return the record that compares PyTorch (first) with the full ladder on the host device."""
    import torch

    torch.set_num_threads(core_count())
    device, weights = devices.resolve("host"), init_weights(spec, seed)
    networks = {"torch": TorchLSTM(spec, weights, device), "wavefront": compile(spec, weights, device=device)}
    return measure.compare("against torch", networks, measure.sample_inputs(spec, seed), repeats=repeats)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m rnnopt.peers",
                                     description="Compare the full ladder with PyTorch on this CPU.")
    for name, default in {"layers": 4, "hidden-size": 512, "batch": 64, "steps": 100, "repeats": 9}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args(arguments)
    spec = NetworkSpec("lstm", given.layers, given.hidden_size, given.hidden_size, given.batch, given.steps)
    try:
        rows = measure.frame(against_torch(spec, repeats=given.repeats))
    except ImportError as error:
        parser.exit(2, f"{parser.prog}: {error}; PyTorch is not part of the environment: make peers\n")
    print(spec)
    columns = ["label", "milliseconds", "low", "high", "gflops", "speedup", "error"]
    print(rows[columns].to_string(index=False, float_format="%.4g"))


if __name__ == "__main__":
    main()
