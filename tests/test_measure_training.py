"""A time of training means something only for gradients that are right."""

import numpy as np
import pytest
from helpers import host, sized

import rnnopt
from rnnopt import measure, measure_training


@pytest.fixture(autouse=True)
def build_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNOPT_BUILD", str(tmp_path / "build"))
    monkeypatch.delenv("RNNOPT_MANIFEST", raising=False)
    return tmp_path / "build"


def networks(*stages, cell="lstm"):
    spec = sized(cell=cell)
    weights = rnnopt.init_weights(spec)
    return {stage: rnnopt.compile(spec, weights, stage=stage, device=host(), training=True) for stage in stages}


def compared(made, **options):
    return measure_training.compare("test", made, measure.sample_inputs(next(iter(made.values())).spec), repeats=3, **options)


@pytest.mark.parametrize("cell", ["lstm", "rnn_relu"])
def test_every_pass_is_timed_and_set_in_relation_to_the_first_network(cell):
    record = compared(networks("naive", "wavefront", cell=cell), stages={"naive": "naive", "wavefront": "wavefront"})
    frame = measure_training.frame(record).set_index(["label", "pass"])
    assert set(frame.loc["wavefront"].index) == set(measure_training.PASSES)
    assert (frame.loc["naive"].speedup == 1).all()
    assert (frame.error <= measure_training.tolerance(cell)).all()
    for result in record["networks"].values():
        forward, backward, step = (result["passes"][key]["seconds"] for key in ("forward", "backward", "step"))
        assert step == pytest.approx(np.add(forward, backward))
        assert min(forward + backward) > 0


def test_halves_have_the_operations_of_the_whole(build_folder):
    record = compared(networks("naive"), stages={"naive": "naive"})
    plans = record["networks"]["naive"]["plans"]
    assert plans["data"]["gemms"] + plans["weights"]["gemms"] == plans["backward"]["gemms"]
    assert plans["data"]["launches"] + plans["weights"]["launches"] == plans["backward"]["launches"]


def test_the_same_comparison_is_not_measured_again(build_folder):
    first = compared(networks("naive"))
    assert compared(networks("naive")) == first
    assert len(list(build_folder.rglob("*.json"))) == 1


def test_wrong_gradients_are_not_timed(build_folder, monkeypatch):
    compared_ones = networks("naive")
    kind = type(compared_ones["naive"].backward_executable)
    right = kind.result

    def wrong(self, name):
        array = right(self, name)
        return array + 1 if name == "d_bias_hh_l0" else array

    monkeypatch.setattr(kind, "result", wrong)
    with pytest.raises(measure.WrongResult, match=r"naive has gradients that differ from the float64 reference by .* not timed"):
        compared(compared_ones)
    assert not list(build_folder.rglob("*.json"))
