"""How training is timed: as :mod:`rnnopt.measure` times a forward pass, with a time for each pass.

The passes are ``forward``; ``data``, the gradients of inputs and states alone;
``weights``, the gradients of weights alone (the paper's weight update); and ``backward``, the two as one plan, where
they overlap. All GFLOP/s follow the rule of NVIDIA's cuDNN 5 sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

import numpy as np

from rnnopt import measure, reference
from rnnopt.network import TrainingNetwork
from rnnopt.schedule import schedule_backward

#: Passes, and how many times the FLOPs of a forward pass each takes.
PASSES = {"forward": 1, "data": 1, "weights": 1, "backward": 2, "step": 3}


def tolerance(cell: str) -> float:
    """Return the largest accepted error of a gradient, relative to the float64 reference.

    A ReLU whose argument is 0 but for rounding may be open in float32 and closed in float64. Among a
    million there is about one, and it changes the gradient by as much as that unit's share.
    """
    return 1e-2 if cell == "rnn_relu" else reference.TOLERANCE["float32"]


def sample_gradients(spec, seed: int = 0) -> np.ndarray:
    """Draw gradients of the outputs, float32, from N(0, 1)."""
    return np.random.default_rng([seed, 4]).standard_normal((*spec.rows, spec.output_size), dtype=np.float32)


def compare(name: str, networks: Mapping[str, TrainingNetwork], inputs: np.ndarray, *, stages: Mapping[str, object] | None = None,
            repeats: int = 5, seed: int = 0, data: str = "live") -> dict:
    """Time training networks that compute the same, against each other.

    Parameters
    ----------
    name : str
    networks : mapping of str to TrainingNetwork
        All of one spec; the first is what the others are compared with.
    inputs : ndarray of float32, shape (steps, batch, input_size)
    stages : mapping of str to stage, optional
        Label -> stage of the networks whose ``data`` and ``weights`` are to be timed alone too.
    repeats : int
    seed : int
        Of the gradients of the outputs.
    data : {"live", "recorded"}

    Returns
    -------
    dict
        As :func:`rnnopt.measure.compare`, with the seconds of each pass under ``passes``.

    Raises
    ------
    rnnopt.measure.WrongResult
        If a gradient's error is above :func:`tolerance`; nothing is timed then.
    LookupError
        If no such record is committed.
    """
    return measure.remembered(name, networks, inputs, repeats, data, lambda: _measure(networks, inputs, stages or {}, repeats, seed),
                              complete=lambda result: result.keys() >= {"error", "passes"})


def _measure(networks, inputs, stages, repeats, seed):
    first = next(iter(networks.values()))
    d_outputs = sample_gradients(first.spec, seed)
    expected = reference.backward(first.spec, first.weights, inputs, d_outputs)
    results, passes = {}, {}
    for label, network in networks.items():
        network(inputs)
        gradients = network.backward(d_outputs)
        error = max(reference.relative_error(gradients[key], value) for key, value in expected.items() if key != "state")
        if not error <= tolerance(first.spec.cell):
            raise measure.WrongResult(f"{label} has gradients that differ from the float64 reference by {error:.2g} "
                                      f"(relative; {tolerance(first.spec.cell):g} is allowed): not timed")
        passes[label], plans = _passes(network, stages.get(label))
        results[label] = {"error": error, "plans": {key: plan.counts() for key, plan in plans.items()}, "seconds": {}}
    for _ in range(repeats):
        for label, network in networks.items():
            seconds = results[label]["seconds"]
            for key, replay in passes[label]:
                if key in ("forward", "again"):
                    network.device.flush_cache()
                taken = replay()
                if key != "again":
                    seconds.setdefault(key, []).append(taken)
            seconds["step"] = [sum(pair) for pair in zip(seconds["forward"], seconds["backward"], strict=True)]
    base = next(iter(results.values()))["seconds"]
    for label, result in results.items():
        result["passes"] = {key: _statistics(networks[label].spec, key, taken, base.get(key))
                            for key, taken in result.pop("seconds").items()}
    return results


def _passes(network, stage):
    """Replays in the order of a repeat, and their plans. A backward pass overwrites: each has a forward pass of its own."""
    executables = {"forward": network.executable, "backward": network.backward_executable}
    plans = {"forward": network.plan, "backward": network.backward_plan}
    order = ["forward", "backward"]
    if stage is not None:
        for part in ("data", "weights"):
            plans[part] = schedule_backward(network.spec, stage, network.device.input_group(network.spec), parts=[part])
            executables[part] = network.device.prepare(network.spec, plans[part], network.executable)
        order += ["again", "data", "weights"]
        executables["again"] = network.executable
    return [(key, executables[key].replay) for key in order], {key: plan for key, plan in plans.items() if plan is not None}


def _statistics(spec, key, seconds, base):
    ratios = [slow / fast for slow, fast in zip(base or seconds, seconds, strict=True)]
    return {"seconds": seconds, "median": median(seconds), "quartiles": measure.quartiles_of(seconds),
            "gflops": PASSES[key] * spec.cudnn_flops / median(seconds) / 1e9,
            "speedup": median(ratios), "speedup_quartiles": measure.quartiles_of(ratios)}


def frame(record: dict):
    """Return a record as a table, one row per network and pass.

    Columns: ``label``, ``pass``, ``milliseconds`` (median), ``low`` and ``high`` (quartiles),
    ``gflops``, ``speedup`` over the first network's pass with ``speedup_low`` and
    ``speedup_high``, ``error``, and the counts of the pass's plan.
    """
    import pandas as pd

    rows = []
    for label, result in record["networks"].items():
        for key, part in result["passes"].items():
            rows.append({
                "label": label, "pass": key, "milliseconds": 1e3 * part["median"],
                "low": 1e3 * part["quartiles"][0], "high": 1e3 * part["quartiles"][1], "gflops": part["gflops"],
                "speedup": part["speedup"], "speedup_low": part["speedup_quartiles"][0],
                "speedup_high": part["speedup_quartiles"][1], "error": result["error"], **result["plans"].get(key, {}),
            })
    return pd.DataFrame(rows)

