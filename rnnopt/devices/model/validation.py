"""Predicted times beside published ones.

Each function returns a table with ``published``, ``predicted`` and ``error`` (predicted / published - 1).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from rnnopt import tables
from rnnopt.devices.model.card import Card, load
from rnnopt.devices.model.costs import CONSTANTS, Constants
from rnnopt.devices.model.simulation import simulate
from rnnopt.plan import Plan
from rnnopt.schedule import LADDER, schedule, schedule_backward
from rnnopt.spec import NetworkSpec

#: Everything on, as NVIDIA's library has it.
LIBRARY = "wavefront"

#: Milliseconds of NVIDIA's LSTM.cu with all optimisations on a Tesla M40, from its header: 100 steps, 4 layers, hidden 512, batch 64.
LSTM_CU = 27.807743

#: Most steps of a sequence that are simulated where only the time per step is asked for.
LONGEST = 150


def lstm(layers: int, steps: int = 100, hidden_size: int = 512, batch: int = 64) -> NetworkSpec:
    """The network of Appleyard et al.'s ladder."""
    return NetworkSpec(cell="lstm", layers=layers, input_size=hidden_size, hidden_size=hidden_size, batch=batch, steps=steps)


def ladder(card: Card | None = None, constants: Constants = CONSTANTS, steps: int = 100):
    """The paper's ladder on a Tesla M40, as speed-ups over its naive stage; the last row has four layers.

    Further columns: ``stage``, ``layers``, ``milliseconds`` and ``gflops`` (predicted, the paper's rule), ``status``.
    """
    published = tables.published("appleyard_m40")
    predicted = [_forward(lstm(row.layers, steps), row.stage, card or load("m40"), constants) for row in published.itertuples()]
    gflops = [lstm(row.layers, steps).paper_flops / seconds / 1e9 for row, seconds in zip(published.itertuples(), predicted, strict=True)]
    frame = published[["stage", "layers", "status"]].assign(
        published=published.speedup.astype(float), predicted=[rate / gflops[0] for rate in gflops],
        milliseconds=[1e3 * seconds for seconds in predicted], gflops=gflops)
    return _with_error(frame)


def full_ladder_milliseconds(constants: Constants = CONSTANTS):
    """The one absolute time that is known of the paper's own code: :data:`LSTM_CU`."""
    import pandas as pd

    seconds = _forward(lstm(4), LIBRARY, load("m40"), constants)
    return _with_error(pd.DataFrame([{"published": LSTM_CU, "predicted": 1e3 * seconds}]))


def cudnn_sample(constants: Constants = CONSTANTS):
    """NVIDIA's cuDNN 5 sample on a Tesla M40: four cells, GFLOP/s of the forward pass and of both halves of the backward pass."""
    import pandas as pd

    rows = []
    for published in tables.published("m40_cudnn5").itertuples():
        spec = NetworkSpec(cell=published.cell, layers=2, input_size=512, hidden_size=512, batch=64, steps=20)
        for part in ("forward", "data", "weights"):
            seconds = simulate(_plan(spec, part), load("m40"), constants=constants).seconds
            rows.append({"cell": published.cell, "pass": part, "published": float(getattr(published, part)),
                         "predicted": spec.cudnn_flops / seconds / 1e9})
    return _with_error(pd.DataFrame(rows))


def gtx1080(constants: Constants = CONSTANTS):
    """An independent replication on a GTX 1080, forward, four layers: speed-ups over the naive stage."""
    published = tables.published("gtx1080_forward")
    switches = {"combined GEMMs alone": ["combined_gemms"], "streams alone": ["streamed_gemms"],
                "fused pointwise alone": ["fused_pointwise"],
                "pre-transposed alone": ["pretransposed_weights"], "many layers alone": ["wavefront"],
                "combined + streams": LADDER["streamed_gemms"], "combined + streams + fused": LADDER["fused_pointwise"],
                "combined + streams + fused + pre-transposed": LADDER["pretransposed_weights"], "all": LADDER["wavefront"]}
    base = _forward(lstm(4), "naive", load("gtx_1080"), constants)
    predicted = [base / _forward(lstm(4), tuple(switches[name]), load("gtx_1080"), constants) for name in published.optimisations]
    return _with_error(published.rename(columns={"speedup": "published"}).assign(predicted=predicted))


def deepbench(card: str, cells=("lstm",), passes=("forward", "data", "weights"), constants: Constants = CONSTANTS):
    """DeepBench's rows of a card, in microseconds per step, one row per size and pass.

    One layer whose input product is left out (DeepBench's ``CUDNN_SKIP_INPUT``).
    """
    import pandas as pd

    published, rows = tables.published("deepbench"), []
    for row in published[(published.card == card) & published.cell.isin(cells)].itertuples():
        sizes = {"hidden_size": row.hidden_size, "batch": row.batch, "steps": row.steps}
        spec = NetworkSpec(cell=row.cell, layers=1, input_size=row.hidden_size, **sizes)
        for part in passes:
            # Steps are alike: of very long sequences, so many tell the time per step. The weights' pass has one GEMM for all.
            short = spec if part == "weights" else replace(spec, steps=min(spec.steps, LONGEST))
            seconds = simulate(_recurrent_plan(short, part), load(card), constants=constants).seconds
            rows.append({"card": card, "cell": row.cell, **sizes, "pass": part,
                         "published": 1e3 * getattr(row, part) / row.steps, "predicted": 1e6 * seconds / short.steps})
    return _with_error(pd.DataFrame(rows))


def summary(frame, by):
    """Median, quartiles and largest of the absolute errors, and their median with sign, for each of `by`."""
    error = frame.assign(absolute=frame.error.abs()).groupby(by, sort=False)
    return error.agg(rows=("error", "size"), median=("absolute", "median"),
                     lower_quartile=("absolute", lambda errors: errors.quantile(0.25)),
                     upper_quartile=("absolute", lambda errors: errors.quantile(0.75)),
                     largest=("absolute", "max"), bias=("error", "median")).reset_index()


def _forward(spec, stage, card, constants):
    return simulate(_schedule(spec, stage if isinstance(stage, str) else tuple(sorted(stage))), card, constants=constants).seconds


@cache
def _schedule(spec, stage):
    return schedule(spec, stage)


@cache
def _plan(spec, part):
    if part == "forward":
        return schedule(spec, LIBRARY, training=True)
    return schedule_backward(spec, LIBRARY, parts=[part])


@cache
def _recurrent_plan(spec, part):
    plan = _plan(spec, part)
    left_out = ("input_products", "weight_ih", "d_weight_ih", "d_inputs", "d_bias")
    operations = [op for op in plan.operations if not any(view.buffer.name.startswith(left_out) for view in op.writes)]
    return Plan(plan.buffers, tuple(operations), plan.cells)


def _with_error(frame):
    return frame.assign(error=frame.predicted / frame.published - 1)
