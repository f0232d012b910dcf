"""What is measured, the most telling first. Names and networks are the notebooks', so their ``data="recorded"`` finds the records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rnnopt import devices, measure, measure_training, tables
from rnnopt.artifacts import by_id
from rnnopt.network import compile
from rnnopt.schedule import LADDER, TRAINING_LADDER
from rnnopt.spec import NetworkSpec
from rnnopt.weights import init_weights

#: The long case of FlashRNN's benchmark, and what stands for it at toy size.
LONG = {"layers": 1, "hidden_size": 768, "batch": 16, "steps": 1024}
TOY = {"layers": 1, "hidden_size": 24, "batch": 3, "steps": 20}


@dataclass(frozen=True)
class Case:
    """One measurement: what it is called, and what makes its record."""

    title: str
    measure: Callable[[], dict]


def cases(device: str, quick: bool = False) -> Iterator[Case]:
    """Yield all cases.

    Parameters
    ----------
    device : str
        As :func:`rnnopt.devices.resolve` takes it; ``"cuda"`` replays graphs, and the ladder is measured with ``"cuda:streams"`` too.
    quick : bool
        At toy size, to see that everything runs.
    """
    preset = "smoke" if quick else "paper"
    table1 = by_id("03_network").presets[preset]
    for name in dict.fromkeys([device, "cuda:streams" if device == "cuda" else device]):
        for layers in (table1["layers"], 1):
            yield Case(f"ladder, {layers} layers, {name}", lambda name=name, layers=layers: _ladder(name, layers, table1))
    yield Case("long sequence", lambda: _long(device, quick))
    yield from _peers(device, quick)
    yield Case("training ladder", lambda: _training(device, by_id("06_backward").presets[preset], quick))
    yield from _deepbench(device, quick)
    yield from _sizes(device, by_id("04_network_sizes").presets["smoke" if quick else "laptop"], quick)


def _spec(cell, sizes, **changed):
    sizes = {**sizes, **changed}
    return NetworkSpec(cell, sizes["layers"], sizes["hidden_size"], sizes["hidden_size"], sizes["batch"], sizes["steps"])


def _repeats(quick):
    return 2 if quick else 11


def _ladder(device, layers, sizes):
    spec, chosen = _spec("lstm", sizes, layers=layers), devices.resolve(device)
    weights = init_weights(spec)
    networks = {stage: compile(spec, weights, stage=stage, device=chosen) for stage in LADDER}
    return measure.compare(f"ladder, {layers} layers", networks, measure.sample_inputs(spec), repeats=min(11, sizes["repeats"]))


def _training(device, sizes, quick):
    spec, chosen = _spec("lstm", sizes), devices.resolve(device)
    weights, stages = init_weights(spec), {stage: stage for stage in TRAINING_LADDER}
    networks = {stage: compile(spec, weights, stage=stage, device=chosen, training=True) for stage in stages}
    return measure_training.compare("training ladder", networks, measure.sample_inputs(spec), stages=stages, repeats=2 if quick else 5)


def _long(device, quick):
    return _one("long sequence", _spec("lstm", TOY if quick else LONG), device, _repeats(quick))


def _deepbench(device, quick):
    """DeepBench's LSTM and GRU rows, whole layers: its own figures leave the input product out, which our plans hold."""
    rows = tables.published("deepbench").drop_duplicates(["cell", "hidden_size", "batch", "steps"])
    for row in rows[rows.cell.isin(["lstm", "gru"])].itertuples():
        sizes = {"layers": 1, "hidden_size": row.hidden_size, "batch": row.batch, "steps": row.steps}
        if quick:
            if row.Index % 12:
                continue
            sizes |= {"hidden_size": row.hidden_size // 64, "batch": 2, "steps": 5}
        elif row.steps > 400:
            continue  # a GRU's 1500 steps tell no more than 375, and checking them takes most of the time
        spec = _spec(row.cell, sizes)
        yield Case(f"deepbench, {row.cell}, hidden {row.hidden_size}, batch {row.batch}, {row.steps} steps",
                   lambda spec=spec: _one(f"deepbench, {spec.cell}", spec, device, 2 if quick else 5))


def _one(name, spec, device, repeats):
    network = compile(spec, init_weights(spec), device=devices.resolve(device), training=True)
    return measure_training.compare(name, {"wavefront": network}, measure.sample_inputs(spec), stages={"wavefront": "wavefront"},
                                    repeats=repeats)


def _peers(device, quick):
    from rnnopt.gpu_check import cudnn

    table1 = by_id("03_network").presets["smoke" if quick else "paper"]
    for title, sizes in (("Table 1", table1), ("long sequence", TOY if quick else LONG)):
        for cell in ("lstm", "gru"):
            spec = _spec(cell, sizes)
            yield Case(f"beside torch, {title}, {cell}",
                       lambda spec=spec: cudnn.beside_torch(spec, devices.resolve(device), _repeats(quick)))


def _sizes(device, sizes, quick):
    chosen = None
    for batch in sizes["batches"]:
        for hidden in sizes["hidden_sizes"]:
            one_step = NetworkSpec("lstm", sizes["layers"], hidden, hidden, batch, steps=1).paper_flops
            steps = int(min(sizes["max_steps"], max(sizes["min_steps"], sizes["gflop_per_run"] * 1e9 // one_step)))
            spec = NetworkSpec("lstm", sizes["layers"], hidden, hidden, batch, steps)

            def measured(spec=spec):
                nonlocal chosen
                chosen = chosen or devices.resolve(device)
                weights = init_weights(spec)
                networks = {stage: compile(spec, weights, stage=stage, device=chosen) for stage in ("naive", "wavefront")}
                return measure.compare("network sizes", networks, measure.sample_inputs(spec), repeats=2 if quick else 5)

            yield Case(f"network sizes, hidden {hidden}, batch {batch}", measured)
