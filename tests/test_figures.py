"""Figures look alike, carry their alternative text, and are the same file when they are the same figure."""

from __future__ import annotations

import json

import pytest

from rnnopt import TRAINING_LADDER, cells, figures, measure_training


@pytest.fixture(autouse=True)
def build_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNOPT_BUILD", str(tmp_path / "build"))
    monkeypatch.setenv("RNNOPT_MANIFEST", str(tmp_path / "used.jsonl"))
    return tmp_path / "build"


def bars():
    with figures.axes(grid="x") as (figure, ax):
        ax.barh(["one", "two"], [1, 2], color=figures.STAGE_COLOURS["naive"])
        figures.label_bars(ax, ["1 ×", "2 ×"])
    return figure


def test_every_rung_has_one_label_and_one_colour():
    assert list(figures.STAGE_LABELS) == list(figures.STAGE_COLOURS) == list(TRAINING_LADDER)
    assert len(set(figures.STAGE_LABELS.values())) == len(set(figures.STAGE_COLOURS.values())) == len(TRAINING_LADDER)


def test_figure_is_written_three_times_and_shown_with_its_text(build_folder, tmp_path):
    shown = figures.save(bars(), "bars", "Two bars, the second twice as long.")
    assert {path.name for path in (build_folder / "figures").iterdir()} == {"bars.svg", "bars.pdf", "bars.png"}
    assert shown.alt == "Two bars, the second twice as long."
    noted = [json.loads(line) for line in (tmp_path / "used.jsonl").read_text().splitlines()]
    assert {line["path"] for line in noted} == {"figures/bars.svg", "figures/bars.pdf", "figures/bars.png"}


def test_same_figure_is_the_same_file(build_folder):
    figures.save(bars(), "first", "Bars.")
    figures.save(bars(), "second", "Bars.")
    for kind in ("svg", "pdf", "png"):
        assert (build_folder / "figures" / f"first.{kind}").read_bytes() == (build_folder / "figures" / f"second.{kind}").read_bytes()


def test_text_in_an_svg_stays_text(build_folder):
    figures.save(bars(), "bars", "Bars.")
    assert "2 ×" in (build_folder / "figures" / "bars.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("alt", ["", "  "])
def test_figure_without_alternative_text_is_refused(alt, build_folder):
    with pytest.raises(ValueError, match="needs alternative text"):
        figures.save(bars(), "bars", alt)
    assert not build_folder.exists()


def test_every_cell_has_a_name():
    assert list(figures.CELL_LABELS) == list(cells.CELLS)
    assert list(figures.PASS_LABELS) == list(figures.PASS_COLOURS) == list(measure_training.PASSES)
