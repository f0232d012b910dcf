"""What makes an item stale, and that nothing else does."""

import json

import pytest
import toy

from rnnopt import reproduce
from rnnopt.reproduce import stamp

DEVICE = {"device": "toy", "what": "a toy"}


def reasons(project, items=(toy.ONE, toy.TWO), device=DEVICE):
    return [task.reason for task in reproduce.survey(project, items, preset="laptop", device="auto", description=device)]


def change(path):
    path.write_text(path.read_text(encoding="utf-8") + "changed\n", encoding="utf-8")


def test_all_is_up_to_date_after_a_run(finished):
    assert reasons(finished) == [None, None]


def test_changed_kernel_makes_stale_just_the_items_that_used_it(finished):
    change(finished.package / "kernels" / "two.cu")
    assert reasons(finished) == [None, "kernel two.cu changed"]


def test_changed_header_makes_stale_the_kernels_that_include_it(finished):
    change(finished.package / "kernels" / "common.cuh")
    assert reasons(finished) == ["kernel common.cuh changed", None]


def test_new_or_deleted_kernel_matters_only_to_its_users(finished):
    (finished.package / "kernels" / "three.cu").write_text("new")
    (finished.package / "kernels" / "one.cu").unlink()
    assert reasons(finished) == ["kernel one.cu changed", None]


def test_changed_module_makes_all_stale_but_the_runner_itself_does_not(finished):
    (finished.package / "reproduce").mkdir()
    for name in ("cli.py", "doctor.py", "artifacts.py", "reproduce/run.py"):
        (finished.package / name).write_text("new")
    assert reasons(finished) == [None, None]
    change(finished.package / "module.py")
    assert reasons(finished) == ["package changed: module.py"] * 2


def test_changed_data_file_makes_stale_the_items_that_read_it(finished):
    change(finished.root / "data" / "known.csv")
    assert reasons(finished) == ["data changed: known.csv", None]


def test_new_data_file_counts_where_the_registry_has_a_wildcard(finished):
    (finished.root / "data" / "new.csv").write_text("new")
    assert reasons(finished) == ["data changed: new.csv", None]


def test_notebook_counts_by_what_a_person_wrote_in_it(finished):
    path = finished.notebook(toy.ONE)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["cells"][2] |= {"outputs": [{"output_type": "stream", "name": "stdout", "text": "x"}], "execution_count": 7, "id": "new"}
    notebook["cells"][2]["source"] = notebook["cells"][2]["source"].splitlines(keepends=True)
    path.write_text(json.dumps(notebook, indent=4), encoding="utf-8")
    assert reasons(finished) == [None, None]
    notebook["cells"][2]["source"].append("# changed")
    path.write_text(json.dumps(notebook), encoding="utf-8")
    assert reasons(finished) == ["notebook changed", None]


def test_other_parameters_are_named(finished):
    assert reasons(finished, [toy.item("one", data=("*.csv",), steps=9)]) == ["parameters changed: steps was 3, is 9"]


def test_other_machine_is_named(finished):
    assert reasons(finished, device={**DEVICE, "what": "another"}) == ["device changed: what was 'a toy', is 'another'"] * 2


@pytest.mark.parametrize("name", ["tables/one.csv", "notebooks/one.ipynb", "report/one.html", "records/one.json"])
def test_every_file_made_must_be_there_as_it_was_made(finished, name):
    change(finished.build / name)
    assert reasons(finished) == [f"{name} was changed", None]
    (finished.build / name).unlink()
    assert reasons(finished) == [f"{name} is missing", None]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"status": "unheard of"}', '{"status": "done"}', '{"status": ["done"]}'])
def test_broken_stamp_means_stale(finished, content):
    finished.stamp(toy.ONE).write_text(content)
    assert reasons(finished)[0]
    assert reasons(finished)[1] is None


def test_item_that_was_begun_and_not_finished_is_stale(finished):
    stamp.mark(finished, toy.ONE, stamp.RUNNING, stamp.read(finished, toy.ONE))
    assert reasons(finished) == ["was interrupted", None]


def test_kernel_that_changed_while_it_was_used_leaves_the_item_stale(finished):
    notes = [{"kind": "record", "path": "records/one.json", "kernels": {"one.cu": value}} for value in ("before", "after")]
    finished.manifest(toy.ONE).write_text("".join(json.dumps(note) + "\n" for note in notes))
    made = stamp.finish(finished, toy.item("one", outputs=()), stamp.read(finished, toy.ONE)["inputs"], preset="laptop",
                        device="auto", seconds=1, before=None)
    assert made["kernels"] == {"one.cu": "changed while it was used"}
    assert reasons(finished)[0] == "kernel one.cu changed"


def test_manifest_line_cut_short_by_a_kill_is_left_out(finished):
    with open(finished.manifest(toy.ONE), "a", encoding="utf-8") as file:
        file.write('{"kind": "figure", "pa')
    assert [note["kind"] for note in stamp.manifest(finished, toy.ONE)] == ["table", "figure", "record"]


def test_estimate_is_the_time_of_a_whole_run_not_of_one_that_found_its_records(finished):
    before = stamp.read(finished, toy.ONE)
    quick = stamp.finish(finished, toy.ONE, before["inputs"], preset="laptop", device="auto", seconds=0.1, before=before)
    assert stamp.estimate(toy.ONE, "laptop", quick, before["inputs"]) == before["full_seconds"] > 0.1
    assert stamp.estimate(toy.ONE, "laptop", quick, {**before["inputs"], "parameters": {}}) == 5
