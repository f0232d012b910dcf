"""A table is written with its caption, its devices and its dates."""

from __future__ import annotations

import csv
import json

import pandas as pd
import pytest

from rnnopt import LADDER, paths, tables

RECORD = {"key": "abc", "device": {"device": "host", "what": "Some CPU", "cores": 2}, "environment": {"date": "2026-01-02T03:04:05"}}


@pytest.fixture(autouse=True)
def build_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNOPT_BUILD", str(tmp_path / "build"))
    monkeypatch.delenv("RNNOPT_MANIFEST", raising=False)
    return tmp_path / "build"


def test_table_is_csv_with_what_must_be_known_of_it(build_folder):
    tables.save(pd.DataFrame({"stage": ["naive"], "ms": [1.23456789]}), "times", "Times.", [RECORD, RECORD])
    assert (build_folder / "tables" / "times.csv").read_bytes() == b"stage,ms\nnaive,1.23457\n"
    about = json.loads((build_folder / "tables" / "times.json").read_text())
    assert about == {"caption": "Times.", "records": ["abc", "abc"], "devices": ["Some CPU (host, 2 cores)"], "dates": ["2026-01-02"]}


def test_table_is_shown_with_its_caption():
    assert "Times." in tables.save(pd.DataFrame({"ms": [1.0]}), "times", "Times.").to_html()


@pytest.mark.parametrize("path", sorted((paths.data_dir() / "published").glob("*.csv")), ids=lambda path: path.stem)
def test_published_numbers_say_how_they_are_known(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# "), "the head must say where the numbers come from"
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert rows
    assert {row["status"] for row in rows} <= {"first-hand", "second-hand", "derived", "read-off"}


def test_published_ladder_has_every_rung():
    assert list(tables.published("appleyard_m40").stage) == list(LADDER)
    assert list(tables.published("lstm_cu_operations").stage) == list(LADDER)
