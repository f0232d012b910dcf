"""Pictures of a plan in time show what the timeline says."""

from __future__ import annotations

import numpy as np
import pytest

import rnnopt
from rnnopt import figures, timelines
from rnnopt.devices.model.card import load
from rnnopt.devices.model.simulation import simulate
from rnnopt.schedule import schedule


@pytest.fixture
def line():
    spec = rnnopt.NetworkSpec("lstm", 3, input_size=64, hidden_size=64, batch=8, steps=6)
    return simulate(schedule(spec, "wavefront"), load("m40"))


def test_every_cell_of_the_network_is_in_the_grid_once(line):
    grid = timelines.cells(line)
    assert sorted(zip(grid.layer, grid.step, strict=True)) == [(layer, step) for layer in range(3) for step in range(6)]
    assert (grid.end > grid.start).all()
    assert grid.end.max() <= 1e6 * line.seconds


def test_cell_waits_for_the_step_before_and_the_layer_below(line):
    grid = timelines.cells(line).set_index(["layer", "step"])
    for layer, step in grid.index:
        if step:
            assert grid.start[layer, step] >= grid.end[layer, step - 1]
        if layer:
            assert grid.start[layer, step] >= grid.end[layer - 1, step]


def test_bars_are_where_the_operations_are(line):
    with figures.axes() as (_, ax):
        timelines.draw_streams(ax, line)
    frame = line.frame()
    spans = sum(len(bars.get_paths()) for bars in ax.collections)
    assert spans == len(frame) + frame.critical.sum()
    assert len(ax.get_yticks()) == line.plan.streams


def test_wavefront_is_all_waiting_at_first_and_all_done_at_last(line):
    from matplotlib.colors import to_rgba

    grid = timelines.cells(line)
    for at, state in ((0, "waiting"), (grid.end.max(), "done")):
        with figures.axes() as (_, ax):
            timelines.draw_wavefront(ax, grid, at)
        colours = np.vstack([points.get_facecolor() for points in ax.collections])
        np.testing.assert_allclose(colours, [to_rgba(timelines.CELL_COLOURS[state])] * len(grid))


def test_sliders_offer_every_card_and_stage():
    from rnnopt.devices.model.card import names

    sliders = {widget.description: widget for widget in timelines.explore().children[:-1]}
    assert list(sliders["card"].options) == names()
    assert list(sliders["stage"].options) == list(rnnopt.LADDER)


def test_timeline_that_sliders_ask_for_is_shown(capsys):
    timelines.show(hidden_size=32, batch=2, layers=1, stage="naive", card="h200", replay="graph", steps=2)
    assert "Figure" in capsys.readouterr().out
