"""The check of a GPU: everything is tried, a failure does not stop the rest, time is kept, and only records are imported."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import monotonic

import pytest
from helpers import host

from rnnopt import measure, paths
from rnnopt.gpu_check import __main__ as check
from rnnopt.gpu_check import bootstrap
from rnnopt.gpu_check.cases import cases
from rnnopt.gpu_check.importing import BadRecord, import_records


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """What the check leaves when it is run on the host at toy size, torch or not."""
    host()
    out = tmp_path_factory.mktemp("check")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RNNOPT_BUILD", "")
        status = check.main(["--device", "host", "--quick", "--no-tests", "--out", str(out)])
    return out, status, json.loads((out / "summary.json").read_text(encoding="utf-8"))


def test_every_case_is_done_and_leaves_its_record(checked):
    out, _, summary = checked
    done = {result["what"] for result in summary["results"] if result["verdict"] == "done"}
    wanted = {case.title for case in cases("host", quick=True)}
    assert {title for title in wanted - done if "torch" not in title} == set()
    keys = {result["told"] for result in summary["results"] if result["what"] in wanted and result["verdict"] == "done"}
    assert {path.stem for path in (out / "records").glob("*.json")} == keys


def test_summary_says_on_what_and_how_much(checked):
    _, status, summary = checked
    assert summary["device"]["device"] == "host"
    assert status == 0
    assert summary["counts"]["failed"] == 0
    assert sum(summary["counts"].values()) == len(summary["results"])


def test_beside_torch_agrees_with_the_reference_in_the_same_process(checked, torch):
    out = checked[0]
    records = [json.loads(path.read_text(encoding="utf-8")) for path in (out / "records").glob("*.json")]
    peers = [record for record in records if record["name"] == "beside torch"]
    assert {record["spec"]["cell"] for record in peers} == {"lstm", "gru"}
    for record in peers:
        assert set(record["networks"]) == {"torch, TF32 off", "wavefront"}
        assert all(network["error"] < 1e-5 for network in record["networks"].values())


def test_a_failure_is_written_down_and_the_rest_goes_on(tmp_path, capsys):
    kept = check.Check(tmp_path, monotonic() + 60)
    kept.run("breaks", lambda: 1 / 0)
    kept.run("works", lambda: "fine")
    results = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    told = [(result["verdict"], result["told"]) for result in results]
    assert told == [("failed", "ZeroDivisionError: division by zero"), ("done", "fine")]
    assert "division by zero" in capsys.readouterr().out


def test_a_comparison_without_its_peer_is_no_failure_and_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    kept = check.Check(tmp_path, monotonic() + 60)
    peers = [case for case in cases("host", quick=True) if "torch" in case.title]
    for case in peers:
        kept.run(case.title, case.measure)
    assert kept.finish(host()) == 0
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert summary["counts"] == {"done": 0, "failed": 0, "no time": 0, "no peer": len(peers)}
    assert all("PyTorch is not installed" in result["told"] for result in summary["results"])


def test_nothing_is_begun_when_the_time_is_out(tmp_path):
    kept = check.Check(tmp_path, monotonic() - 1)
    kept.run("late", lambda: pytest.fail("begun"))
    assert json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))[0]["verdict"] == "no time"


def test_device_that_is_not_there_is_said_and_nothing_is_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pycuda", None)
    monkeypatch.setattr("rnnopt.devices.cuda.context._initialise", _missing)
    assert check.main(["--quick", "--out", str(tmp_path)]) == 2
    assert "cuda is not there: no GPU in this test" in capsys.readouterr().err
    assert not (tmp_path / "records").exists()


def _missing():
    from rnnopt.devices import DeviceUnavailable

    raise DeviceUnavailable("no GPU in this test")


def test_full_cases_are_those_of_the_notebooks_and_of_deepbench():
    titles = [case.title for case in cases("cuda")]
    assert titles[:2] == ["ladder, 4 layers, cuda", "ladder, 1 layers, cuda"]
    assert "ladder, 4 layers, cuda:streams" in titles
    assert sum(title.startswith("deepbench, lstm") for title in titles) == 22
    assert sum(title.startswith("deepbench, gru") for title in titles) == 9
    assert len(titles) == len(set(titles))


# Importing

def test_records_are_copied_as_they_are_and_found_by_name(checked, tmp_path, monkeypatch):
    made = import_records(checked[0], "toy-machine", tmp_path / "recorded")
    assert {path.parent for path in made} == {tmp_path / "recorded" / "toy-machine"}
    assert {path.read_bytes() for path in made} == {path.read_bytes() for path in (checked[0] / "records").glob("*.json")}
    monkeypatch.setattr(paths, "data_dir", lambda: tmp_path)
    assert measure.recorded("training ladder")


@pytest.mark.parametrize("machine", ["", "H200", "../h200", "a b", "a/b", "-a"])
def test_machine_needs_a_plain_name(checked, tmp_path, machine):
    with pytest.raises(ValueError, match="short name of lower-case letters"):
        import_records(checked[0], machine, tmp_path / "recorded")


@pytest.mark.parametrize(("text", "message"), [
    ("no", "is not JSON"), ("[]", "lacks key, name"), ('{"key": "other"}', "lacks name, spec"),
    (json.dumps({"key": "x", "name": "", "spec": {}, "device": {}, "environment": {}, "networks": {}}), "doesn't say which device"),
    (json.dumps({"key": "x", "name": "", "spec": {}, "device": {"device": "cuda", "what": "a"}, "environment": {}, "networks": {}}),
     "named by its key")])
def test_file_that_is_no_record_stops_all(tmp_path, text, message):
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "bad.json").write_text(text, encoding="utf-8")
    with pytest.raises(BadRecord, match=message):
        import_records(tmp_path, "m", tmp_path / "recorded")
    assert not (tmp_path / "recorded").exists()


def record_of(folder, key, what, device="cuda"):
    (folder / "records").mkdir(exist_ok=True)
    record = {"key": key, "name": "n", "spec": {}, "device": {"device": device, "what": what}, "environment": {}, "networks": {}}
    (folder / "records" / f"{key}.json").write_text(json.dumps(record), encoding="utf-8")


def test_records_of_two_devices_are_not_mixed_and_predictions_are_refused(tmp_path):
    record_of(tmp_path, "one", "H200")
    record_of(tmp_path, "two", "A100")
    with pytest.raises(ValueError, match="several devices"):
        import_records(tmp_path, "m", tmp_path / "recorded")
    (tmp_path / "records" / "one.json").unlink()
    record_of(tmp_path, "two", "model of H200", "model")
    with pytest.raises(ValueError, match="predictions"):
        import_records(tmp_path, "m", tmp_path / "recorded")


def test_folder_without_records_says_what_was_expected(tmp_path):
    with pytest.raises(ValueError, match="holds no records"):
        import_records(tmp_path, "m")


# The environment

def test_what_the_bootstrap_installs_is_what_the_package_needs():
    import tomllib

    project = tomllib.loads((paths.checkout_root() / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    bounds = {*project["dependencies"], *extras["test"], *extras["cuda"]}
    for requirement in (bootstrap.CUBLAS, *bootstrap.TESTS, *bootstrap.CORE):
        assert requirement in bounds or requirement in ("ipython", "jinja2"), requirement


@pytest.mark.parametrize("script", [bootstrap.__file__, bootstrap.BUILD_PYCUDA], ids=["bootstrap", "build_pycuda"])
def test_what_makes_an_environment_needs_nothing_but_python(script):
    import ast

    tree = ast.parse(Path(script).read_text(encoding="utf-8"))
    imported = {name.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= {*sys.stdlib_module_names}
