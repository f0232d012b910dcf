"""Notebooks are thin, parameterised and committed without outputs; the runner's smoke preset executes them."""

from __future__ import annotations

import ast
import json
import re

import pytest

from rnnopt import paths

NOTEBOOKS = sorted(paths.notebooks_dir().glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return json.loads(request.param.read_text(encoding="utf-8"))


def code_of(notebook):
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_no_outputs_are_committed(notebook):
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook["cells"])


def test_kernel_is_that_of_the_environment(notebook):
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"


def test_cell_ids_are_there_and_differ(notebook):
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len(set(ids))


def test_one_parameters_cell_with_typed_commented_literals(notebook):
    tagged = [cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", [])]
    assert len(tagged) == 1
    source = "".join(tagged[0]["source"])
    for statement, line in zip(ast.parse(source).body, source.splitlines(), strict=True):
        assert isinstance(statement, ast.AnnAssign), f"not typed: {line}"
        ast.literal_eval(statement.value)
        assert re.search(r"  # \w", line), f"no comment: {line}"


def test_functions_are_short_and_nothing_is_magic(notebook):
    for source in code_of(notebook):
        assert "%" not in source.split("\n", 1)[0][:1]
        assert not re.search(r"sys\.path|^\s*!|\bopen\(|/home|Path\(", source, re.MULTILINE)
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 10, f"{node.name} is longer than ten lines"


def test_device_is_named_first_and_a_claim_is_asserted(notebook):
    code = code_of(notebook)
    assert "status_line" in code[1]
    assert any("assert " in source for source in code)
