"""Pictures of a plan in time: streams, occupancy and the wavefront, as a profiler would show them."""

from __future__ import annotations

import re

import numpy as np

#: What an operation is called in pictures, and its colour.
KIND_LABELS = {"gemm": "GEMM", "pointwise": "pointwise", "transpose": "transpose", "copy": "copy"}
KIND_COLOURS = dict(zip(KIND_LABELS, ("#029e73", "#cc78bc", "#d55e00", "#949494"), strict=True))

#: What bounds an operation, and its colour.
BOUND_LABELS = {"latency": "waiting for operands", "arithmetic": "arithmetic", "memory": "memory", "launch": "nothing runs (launches)"}
BOUND_COLOURS = dict(zip(BOUND_LABELS, ("#de8f05", "#029e73", "#0173b2", "#949494"), strict=True))

#: Of a cell in the picture of the wavefront.
CELL_COLOURS = {"done": "#949494", "active": "#d55e00", "waiting": "#e8f3ee"}


def draw_streams(ax, timeline, start=0.0, stop=None):
    """Draw a row per stream, a bar per operation, from `start` to `stop` in microseconds; the critical path is underlined.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    timeline : rnnopt.devices.model.timeline.Timeline
    start, stop : float
    """
    stop = 1e6 * timeline.seconds if stop is None else stop
    frame = timeline.frame()
    frame = frame[(frame.end > start) & (frame.start < stop)]
    streams = {stream: row for row, stream in enumerate(sorted(frame.stream.unique()))}
    for (kind, stream), bars in frame.groupby(["kind", "stream"]):
        ax.broken_barh(_spans(bars), (streams[stream] - 0.4, 0.7), facecolors=KIND_COLOURS[kind], edgecolors=KIND_COLOURS[kind], lw=0.4)
    for stream, bars in frame[frame.critical].groupby("stream"):
        ax.broken_barh(_spans(bars), (streams[stream] + 0.34, 0.1), facecolors="black", edgecolors="black", lw=0.4)
    ax.set(xlim=(start, stop), ylim=(len(streams) - 0.5, -0.5), yticks=range(len(streams)), yticklabels=streams, ylabel="Stream",
           xlabel="Time, µs")
    ax.grid(visible=False, axis="y")


def _spans(bars):
    return list(zip(bars.start, bars.end - bars.start, strict=True))


def draw_occupancy(ax, timeline, start=0.0, stop=None):
    """Draw how many SMs have a block, over time in microseconds."""
    times, busy = map(np.array, zip(*timeline.busy, strict=True))
    ax.fill_between(1e6 * times, busy, step="post", color="#56b4e9", lw=0)
    ax.set(xlim=(start, 1e6 * timeline.seconds if stop is None else stop), ylim=(0, timeline.card.sms), ylabel="Busy SMs",
           xlabel="Time, µs")


def kind_legend(where, **options):
    """Say what the colours of :func:`draw_streams` mean, in the legend of an axes or a figure."""
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, label=KIND_LABELS[kind]) for kind, colour in KIND_COLOURS.items()]
    handles.append(Patch(color="black", label="critical path"))
    where.legend(handles=handles, **options)


def cells(timeline):
    """Return when each cell of the network runs: ``layer``, ``step``, ``start`` and ``end`` in microseconds.

    A cell starts with the first operation of its recurrence, but not before the layer below is done with the step, and
    ends when its hidden state is there. For plans of a forward pass in one direction.
    """
    import pandas as pd

    layers = sum(bool(re.fullmatch(r"weight_hh_l\d+", name)) for name in timeline.plan.buffers)
    begun, steps, ends, rows = {}, dict.fromkeys(range(layers), 0), {}, []
    for number, operation in enumerate(timeline.plan.operations):
        for name in {view.buffer.name for view in operation.writes}:
            if product := re.fullmatch(r"recurrent_products_l(\d+)", name):
                begun.setdefault(int(product[1]), timeline.start[number])
            elif name == "outputs" or re.fullmatch(r"h_l\d+", name):
                layer = layers - 1 if name == "outputs" else int(name[3:])
                step = steps[layer]
                start = max(begun.pop(layer, timeline.start[number]), ends.get((layer - 1, step), 0))
                ends[layer, step] = timeline.end[number]
                rows.append({"layer": layer, "step": step, "start": 1e6 * start, "end": 1e6 * timeline.end[number]})
                steps[layer] += 1
    return pd.DataFrame(rows)


def draw_wavefront(ax, frame, at):
    """Draw the grid of layers and steps as it is `at` microseconds: which cells are done, active and waiting.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    frame : pandas.DataFrame
        See :func:`cells`.
    at : float
    """
    for cell in frame.itertuples():
        state = "done" if cell.end <= at else "active" if cell.start <= at else "waiting"
        ax.scatter(cell.step, cell.layer, s=90, marker="s", color=CELL_COLOURS[state], edgecolors="#444444", linewidths=0.5, zorder=2)
    ax.set(xlim=(-0.6, frame.step.max() + 0.6), ylim=(-0.6, frame.layer.max() + 0.6), yticks=range(frame.layer.max() + 1),
           xlabel="Step", ylabel="Layer")
    ax.grid(visible=False)


def explore(seed_card="m40"):
    """Return sliders for hidden size, batch, layers, stage and card, and the timeline that they ask for.

    Returns
    -------
    ipywidgets.Widget
        To be shown in JupyterLab. Eight steps of an LSTM are predicted at each change.
    """
    import ipywidgets as widgets

    from rnnopt.devices.model.card import names
    from rnnopt.schedule import LADDER

    powers = [2**n for n in range(5, 12)]
    wide = {"continuous_update": False, "style": {"description_width": "7em"}}
    return widgets.interactive(
        show,
        hidden_size=widgets.SelectionSlider(options=powers, value=512, description="hidden size", **wide),
        batch=widgets.SelectionSlider(options=[1, 2, 4, 8, 16, 32, 64, 128, 256], value=64, description="batch", **wide),
        layers=widgets.IntSlider(4, 1, 8, description="layers", **wide),
        stage=widgets.Dropdown(options=list(LADDER), value="wavefront", description="stage", style=wide["style"]),
        card=widgets.Dropdown(options=names(), value=seed_card, description="card", style=wide["style"]),
        replay=widgets.Dropdown(options=["streams", "graph"], description="replay", style=wide["style"]))


def show(hidden_size, batch, layers, stage, card, replay="streams", steps=8):
    """Display the predicted timeline of an LSTM on a card, its occupancy, and what bounds it."""
    from IPython.display import display

    from rnnopt import figures
    from rnnopt.devices.model.card import load
    from rnnopt.devices.model.simulation import simulate
    from rnnopt.schedule import schedule
    from rnnopt.spec import NetworkSpec

    spec = NetworkSpec("lstm", layers, input_size=hidden_size, hidden_size=hidden_size, batch=batch, steps=steps)
    timeline = simulate(schedule(spec, stage), load(card), replay)
    with figures.axes(figures.PAGE, 4.2, nrows=2, sharex=True, height_ratios=(3, 1)) as (figure, (above, below)):
        draw_streams(above, timeline)
        kind_legend(above, loc="lower center", bbox_to_anchor=(0.5, 1.1), ncols=5)
        draw_occupancy(below, timeline)
        above.set(xlabel="", title=headline(timeline, spec))
    display(figure)


def headline(timeline, spec) -> str:
    """A line about a timeline: the card, time, rate, occupancy and what bounds most of it."""
    bounds = timeline.bounds()
    most = max(bounds, key=bounds.get)
    return (f"{timeline.card.name}, predicted: {1e6 * timeline.seconds:,.0f} µs, {spec.paper_flops / timeline.seconds / 1e9:,.0f} GFLOP/s, "
            f"{timeline.occupancy:.0%} of the SMs have a block; {BOUND_LABELS[most]} {bounds[most] / timeline.seconds:.0%}")
