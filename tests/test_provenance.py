"""Hashes change with what they stand for and with nothing else; notes reach the runner whole."""

import json
import re
import subprocess

import numpy as np
import pytest

from rnnopt import paths, provenance


def test_hash_of_json_ignores_the_order_of_keys_and_nothing_else():
    assert provenance.hash_json({"a": 1, "b": [1, 2]}) == provenance.hash_json({"b": [1, 2], "a": 1})
    different = [{"a": 1}, {"a": 1.5}, {"a": "1"}, {"a": [1]}, {"b": 1}, ["a", 1], {"a": None}, {}]
    assert len({provenance.hash_json(value) for value in different}) == len(different)


@pytest.mark.parametrize("value", [float("nan"), {"a": float("inf")}])
def test_hash_of_a_number_that_is_not_finite_is_refused(value):
    with pytest.raises(ValueError, match="JSON compliant"):
        provenance.hash_json(value)


def test_hash_of_arrays_sees_names_types_shapes_and_values_but_not_memory_order():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    base = provenance.hash_arrays({"a": array})
    assert provenance.hash_arrays({"a": np.asfortranarray(array)}) == base
    assert provenance.hash_arrays({"a": np.repeat(array, 2, axis=1)[:, ::2]}) == base
    others = [{"b": array}, {"a": array.astype(np.float64)}, {"a": array.reshape(3, 2)}, {"a": array + 1},
              {"a": array, "b": np.zeros(0)}]
    hashes = [provenance.hash_arrays(arrays) for arrays in others]
    assert len({base, *hashes}) == 1 + len(others)


def test_hash_of_a_folder_sees_names_and_contents_but_not_compiled_copies(tmp_path):
    (tmp_path / "a.py").write_text("1")
    base = provenance.hash_folder(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("2")
    assert provenance.hash_folder(tmp_path) == base
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert provenance.hash_folder(tmp_path) != base


def test_environment_is_json_and_says_what_ran_where_and_when():
    found = provenance.environment()
    assert json.loads(json.dumps(found)) == found
    assert found["numpy"] == np.__version__
    assert all(found[name] for name in ("python", "cores", "cpu", "platform", "blas"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", found["date"])


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "checkout_root", lambda: tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True, text=True).stdout

    return git


def test_commit_and_whether_it_is_dirty(repository, tmp_path):
    assert provenance.git_state() is None, "there is no repository"
    repository("init")
    assert provenance.git_state() is None, "there is no commit"
    (tmp_path / "a").write_text("1")
    repository("add", "a")
    repository("commit", "-m", "one")
    commit = repository("rev-parse", "HEAD").strip()
    assert provenance.git_state() == {"commit": commit, "dirty": False}
    (tmp_path / "b").write_text("2")
    assert provenance.git_state() == {"commit": commit, "dirty": True}


def test_no_git_on_the_path_is_no_error(repository, monkeypatch, tmp_path):
    repository("init")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.git_state() is None


def test_notes_are_lines_of_json_where_a_runner_asks_for_them(tmp_path, monkeypatch):
    monkeypatch.delenv("RNNOPT_MANIFEST", raising=False)
    provenance.note("table", "tables/a.csv")
    monkeypatch.setenv("RNNOPT_MANIFEST", str(tmp_path / "used.jsonl"))
    provenance.note("table", "tables/ä.csv")
    provenance.note("record", "records/1.json", kernels={"a.cu": "0"})
    assert list(map(json.loads, (tmp_path / "used.jsonl").read_text(encoding="utf-8").splitlines())) == [
        {"kind": "table", "path": "tables/ä.csv"},
        {"kind": "record", "path": "records/1.json", "kernels": {"a.cu": "0"}}]


@pytest.mark.parametrize(("quota", "granted"), [("150000 100000", 1), ("50000 100000", 1), ("max 100000", None), ("", None),
                                                ("99900000 100000", None)])
def test_container_quota_limits_the_cores(quota, granted, tmp_path, monkeypatch):
    free = provenance.core_count()
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(provenance, "CPU_QUOTA", tmp_path / "cpu.max")
    assert provenance.core_count() == (granted or free)
