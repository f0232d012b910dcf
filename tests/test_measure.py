"""A time means something only for a result that is right, and is kept with all that it depends on."""

from __future__ import annotations

import json
from time import sleep

import numpy as np
import pytest

import rnnopt
from rnnopt import devices, kernels, measure


@pytest.fixture(autouse=True)
def build_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNOPT_BUILD", str(tmp_path / "build"))
    monkeypatch.delenv("RNNOPT_MANIFEST", raising=False)
    return tmp_path / "build"


@pytest.fixture
def spec():
    return rnnopt.NetworkSpec("lstm", layers=2, input_size=5, hidden_size=8, batch=3, steps=4)


def networks(spec, *stages, device=None, seed=0):
    weights = rnnopt.init_weights(spec, seed)
    return {stage: rnnopt.compile(spec, weights, stage=stage, device=device or devices.resolve("host")) for stage in stages}


class Altered:
    """A device whose replay does something more, around a real one."""

    def __init__(self, extra):
        self._device, self._extra = devices.resolve("host"), extra

    def __getattr__(self, name):
        return getattr(self._device, name)

    def prepare(self, spec, plan):
        executable, extra = self._device.prepare(spec, plan), self._extra
        inner = executable.replay
        executable.replay = lambda: inner() + extra(executable)
        return executable


def test_wrong_result_is_not_timed(spec, build_folder):
    def corrupt(executable):
        executable._arrays["outputs"][0, 0, 0] += 1
        return 0.0

    wrong = networks(spec, "wavefront", device=Altered(corrupt))
    with pytest.raises(measure.WrongResult, match=r"wavefront differs from the float64 reference by .* not timed"):
        measure.compare("test", networks(spec, "naive") | wrong, measure.sample_inputs(spec))
    assert not list(build_folder.rglob("*.json"))


def test_nan_is_wrong(spec):
    def poison(executable):
        executable._arrays["outputs"][0, 0, 0] = np.nan
        return 0.0

    with pytest.raises(measure.WrongResult):
        measure.compare("test", networks(spec, "naive", device=Altered(poison)), measure.sample_inputs(spec))


def test_known_slow_network_is_timed_slow(spec):
    def slow(executable):
        sleep(0.02)
        return 0.02

    members = networks(spec, "naive", device=Altered(slow)) | networks(spec, "wavefront")
    record = measure.compare("test", members, measure.sample_inputs(spec), repeats=3)
    assert record["networks"]["naive"]["median"] >= 0.02
    assert record["networks"]["wavefront"]["speedup"] > 1


def test_same_comparison_is_measured_once(spec, build_folder):
    first = measure.compare("test", networks(spec, "naive", "wavefront"), measure.sample_inputs(spec), repeats=2)
    again = measure.compare("test", networks(spec, "naive", "wavefront"), measure.sample_inputs(spec), repeats=2)
    assert again == json.loads(json.dumps(first))
    assert len(list((build_folder / "records").glob("*.json"))) == 1


@pytest.mark.parametrize("change", ["repeats", "seed", "stage", "kernel", "workers", "name"])
def test_whatever_can_change_a_result_makes_a_new_record(spec, change, monkeypatch):
    inputs = measure.sample_inputs(spec)
    before = measure.compare("test", networks(spec, "naive"), inputs, repeats=2)
    name, repeats, members = "test", 2, networks(spec, "naive")
    if change == "repeats":
        repeats = 3
    elif change == "seed":
        members = networks(spec, "naive", seed=1)
    elif change == "stage":
        members = networks(spec, "fused_pointwise")
    elif change == "workers":
        from rnnopt.devices.host import HostDevice

        members = networks(spec, "naive", device=HostDevice(workers=1))
    elif change == "name":
        name = "other"
    else:
        real = kernels.hashes
        monkeypatch.setattr(kernels, "hashes", lambda files: real(files) | {"elementwise.cu": "edited"})
    assert measure.compare(name, members, inputs, repeats=repeats)["key"] != before["key"]


@pytest.mark.parametrize("content", ["", "[]", "null", '"x"', '{"key": 1}', '{"kernels": {}}', "cut", "other"])
def test_broken_record_is_measured_again(spec, build_folder, content):
    record = measure.compare("test", networks(spec, "naive"), measure.sample_inputs(spec), repeats=2)
    path = build_folder / "records" / f"{record['key']}.json"
    whole = path.read_text()
    path.write_text({"cut": whole[:40], "other": whole.replace('"median"', '"mean"')}.get(content, content))
    assert measure.compare("test", networks(spec, "naive"), measure.sample_inputs(spec), repeats=2)["networks"]
    assert json.loads(path.read_text())["key"] == record["key"]


def test_record_says_where_it_comes_from(spec):
    record = measure.compare("test", networks(spec, "naive", "wavefront"), measure.sample_inputs(spec), repeats=3)
    assert set(record["kernels"]) == {"common.cuh", "elementwise.cu", "lstm.cu", "transpose.cu"}
    assert record["device"]["device"] == "host"
    assert all(record["device"][name] for name in ("compiler", "flags", "blas"))
    assert all(record["environment"][name] for name in ("date", "cpu", "numpy"))
    for result in record["networks"].values():
        assert len(result["seconds"]) == 3
        assert result["quartiles"][0] <= result["median"] <= result["quartiles"][1]
        assert result["gflops"] == pytest.approx(spec.paper_flops / result["median"] / 1e9)


def test_manifest_names_the_record_and_its_kernels(spec, tmp_path, monkeypatch):
    monkeypatch.setenv("RNNOPT_MANIFEST", str(tmp_path / "used.jsonl"))
    record = measure.compare("test", networks(spec, "naive"), measure.sample_inputs(spec), repeats=1)
    line = json.loads((tmp_path / "used.jsonl").read_text())
    assert line["kind"] == "record"
    assert line["path"] == f"records/{record['key']}.json"
    assert line["kernels"] == kernels.hashes(["elementwise.cu"])


def test_networks_of_different_specs_are_refused(spec):
    other = rnnopt.NetworkSpec("lstm", layers=1, input_size=5, hidden_size=8, batch=3, steps=4)
    members = networks(spec, "naive") | {"other": networks(other, "naive")["naive"]}
    with pytest.raises(ValueError, match="must have one spec; other has"):
        measure.compare("test", members, measure.sample_inputs(spec))


@pytest.mark.parametrize(("arguments", "message"), [({"repeats": 0}, "repeats"), ({"data": "alive"}, "data must be")])
def test_bad_arguments_are_named(spec, arguments, message):
    with pytest.raises(ValueError, match=message):
        measure.compare("test", networks(spec, "naive"), measure.sample_inputs(spec), **arguments)


def test_recorded_data_that_is_not_there_is_an_error_with_a_way_out(spec):
    with pytest.raises(LookupError, match="use data='live'"):
        measure.compare("never recorded", networks(spec, "naive"), measure.sample_inputs(spec), data="recorded")


def test_recorded_data_is_shown_instead_of_measured(spec, tmp_path, monkeypatch, build_folder):
    record = measure.compare("test", networks(spec, "naive"), measure.sample_inputs(spec), repeats=1)
    (tmp_path / "data" / "recorded").mkdir(parents=True)
    (tmp_path / "data" / "recorded" / "one.json").write_text(json.dumps(record))
    monkeypatch.setattr(measure.paths, "data_dir", lambda: tmp_path / "data")
    shown = measure.compare("test", networks(spec, "naive"), measure.sample_inputs(spec), data="recorded")
    assert shown["networks"] == record["networks"]


def test_torch_is_checked_and_timed_like_a_network(spec, torch):
    from rnnopt import peers

    rows = measure.frame(peers.against_torch(spec, repeats=2))
    assert list(rows.label) == ["torch", "wavefront"]
    assert (rows.error < 1e-5).all()
