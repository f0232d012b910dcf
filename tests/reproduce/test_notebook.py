"""What is refused before anything runs."""

import json

import pytest
import toy

from rnnopt.reproduce import CannotStart
from rnnopt.reproduce import notebook as inspection

PARAMETERS = toy.cell(toy.PARAMETERS, "parameters")


@pytest.fixture
def check(tmp_path):
    def check(content, **given):
        path = tmp_path / "a.ipynb"
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return inspection.check(path, given)

    return check


def test_unknown_parameter_is_refused_with_the_nearest_name(check):
    with pytest.raises(CannotStart, match=r"a\.ipynb has no parameter 'step': did you mean 'steps'\?"):
        check(toy.notebook(PARAMETERS), step=3)


def test_unknown_parameter_like_no_other_is_refused_with_all_names(check):
    with pytest.raises(CannotStart, match="'layers': it knows device, steps, seconds"):
        check(toy.notebook(PARAMETERS), layers=3)


@pytest.mark.parametrize("cells", [[], [toy.cell(toy.PARAMETERS)], [toy.cell("steps", "parameters", kind="markdown")],
                                   [PARAMETERS, PARAMETERS]])
def test_notebook_without_just_one_tagged_cell_is_refused(check, cells):
    with pytest.raises(CannotStart, match="code cells tagged 'parameters', expected one"):
        check(toy.notebook(*cells), steps=3)


@pytest.mark.parametrize("value", ["3", 3.0, True, [3]])
def test_value_of_another_type_than_the_default_is_refused(check, value):
    with pytest.raises(CannotStart, match="parameter 'steps' of .* takes int"):
        check(toy.notebook(PARAMETERS), steps=value)


def test_whole_number_fits_a_real_parameter(check):
    check(toy.notebook(PARAMETERS), seconds=2)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"cells": 3}', '{"worksheets": []}', "\0"])
def test_file_that_is_no_notebook_is_refused(check, content):
    with pytest.raises(CannotStart, match="is not a notebook of format 4"):
        check(content)


def test_missing_notebook_is_refused(tmp_path):
    with pytest.raises(CannotStart, match="there is no notebook .*nowhere.ipynb"):
        inspection.check(tmp_path / "nowhere.ipynb", {})


def test_notebook_in_another_language_is_refused(check):
    content = toy.notebook(PARAMETERS)
    content["metadata"]["kernelspec"]["language"] = "julia"
    with pytest.raises(CannotStart, match="written in julia, expected Python"):
        check(content)


def test_parameters_cell_that_is_not_python_is_refused_with_the_line(check):
    with pytest.raises(CannotStart, match="its line 2"):
        check(toy.notebook(toy.cell("a = 1\nb = = 2", "parameters")))


def test_names_defaults_and_comments_are_read_from_the_cell():
    cell = toy.cell('a: int = 1  # first\nb = [1, "#"]  # second # of two\nc = 2 * 3\nd: list = [\n    1,\n]  # third', "parameters")
    found = inspection.parameters(toy.notebook(cell), "a.ipynb")
    assert [(p.name, p.default, p.comment) for p in found.values()] == [
        ("a", 1, "first"), ("b", [1, "#"], "second # of two"), ("c", None, ""), ("d", [1], "third")]
