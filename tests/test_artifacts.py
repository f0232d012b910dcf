"""The registry and the notebooks agree."""

import pytest

from rnnopt import artifacts, paths
from rnnopt.reproduce import notebook


def test_every_notebook_has_its_entry():
    assert sorted(path.name for path in paths.notebooks_dir().glob("*.ipynb")) == [item.notebook for item in artifacts.ITEMS]


@pytest.mark.parametrize("item", artifacts.ITEMS, ids=lambda item: item.id)
def test_notebook_takes_the_parameters_of_every_preset(item):
    assert set(item.presets) == set(item.seconds) == set(artifacts.PRESETS)
    for parameters in item.presets.values():
        notebook.check(paths.notebooks_dir() / item.notebook, {"device": "auto", **parameters})


@pytest.mark.parametrize("item", artifacts.ITEMS, ids=lambda item: item.id)
def test_laptop_is_what_a_person_gets_who_runs_all_cells(item):
    path = paths.notebooks_dir() / item.notebook
    known = notebook.parameters(notebook.read(path), path)
    assert dict(item.presets["laptop"]) == {name: known[name].default for name in item.presets["laptop"]}


@pytest.mark.parametrize("item", artifacts.ITEMS, ids=lambda item: item.id)
def test_data_that_an_item_names_is_there(item):
    for pattern in item.data:
        assert "*" in pattern or (paths.data_dir() / pattern).is_file()


def test_no_two_items_make_the_same_file():
    made = [name for item in artifacts.ITEMS for name in item.outputs]
    assert len(set(made)) == len(made)
