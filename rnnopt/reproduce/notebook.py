"""What a notebook says of itself before it runs: its parameters, its language, its hash.

papermill injects a parameter that a notebook doesn't know, and only warns; it
does the same where no cell is tagged. Here both stop, before anything runs.
"""

from __future__ import annotations

import ast
import io
import json
import tokenize
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from rnnopt import provenance


class CannotStart(RuntimeError):
    """Something is wrong that can be seen before anything runs; the message is one sentence with a remedy."""


@dataclass(frozen=True)
class Parameter:
    """One line of a parameters cell.

    Attributes
    ----------
    name : str
    default : object
        The literal's value, or None where it is an expression.
    comment : str
        What follows ``#`` on its line.
    """

    name: str
    default: object
    comment: str


def read(path: Path) -> dict:
    """Return a notebook as JSON; `CannotStart` if it is not there, is not a notebook or is not in Python."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            cell["source"] = "".join(cell["source"])  # a file may hold it as a list of lines
            cell["metadata"].get("tags", [])
        language = notebook.get("metadata", {}).get("kernelspec", {}).get("language", "python").lower()
    except FileNotFoundError:
        raise CannotStart(f"there is no notebook {path}: the registry (rnnopt/artifacts.py) names it") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CannotStart(f"{path} is not a notebook of format 4: open it in JupyterLab and save it again") from None
    if language != "python":
        raise CannotStart(f"{path} is written in {language}, expected Python: the kernel is always this interpreter's")
    return notebook


def source_hash(notebook: dict) -> str:
    """Return the hash of what a person wrote: cells and their tags, not outputs, counts or ids."""
    return provenance.hash_json([[cell["cell_type"], cell["source"], cell["metadata"].get("tags", [])]
                                 for cell in notebook["cells"]])


def parameters(notebook: dict, path: Path) -> dict[str, Parameter]:
    """Return the parameters of a notebook by name.

    Raises
    ------
    CannotStart
        If there is not exactly one code cell tagged ``parameters``, or it is not Python.
    """
    tagged = [cell["source"] for cell in notebook["cells"]
              if cell["cell_type"] == "code" and "parameters" in cell["metadata"].get("tags", [])]
    if len(tagged) != 1:
        raise CannotStart(f"{path} has {len(tagged) or 'no'} code cells tagged 'parameters', expected one: "
                          f"tag the cell that sets the parameters (in JupyterLab: property inspector, Cell Tags)")
    try:
        statements = ast.parse(tagged[0]).body
    except SyntaxError as error:
        raise CannotStart(f"the parameters cell of {path} is not Python (its line {error.lineno}: {error.msg}): "
                          f"correct it") from None
    comments = _comments(tagged[0])
    found = {}
    for statement in statements:
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else getattr(statement, "targets", [])
        for target in targets:
            if isinstance(target, ast.Name):
                comment = comments.get(statement.end_lineno, "")
                found[target.id] = Parameter(target.id, _literal(statement.value), comment)
    return found


def _comments(source):
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}


def _literal(node):
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return None


def check(path: Path, given: dict) -> dict:
    """Read a notebook and make sure that it takes the parameters `given`; return it.

    Raises
    ------
    CannotStart
        If it doesn't know one of them (the nearest that it knows is named), or one has another type than its default.
    """
    notebook = read(path)
    known = parameters(notebook, path)
    for name, value in given.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it knows {', '.join(known)}"
            raise CannotStart(f"{path} has no parameter {name!r}: {hint}")
        default = known[name].default
        if default is not None and not _fits(value, default):
            raise CannotStart(f"parameter {name!r} of {path} takes {type(default).__name__} (as in {default!r}), "
                              f"got {value!r}: correct it in rnnopt/artifacts.py")
    return notebook


def _fits(value, default):
    return type(value) is type(default) or (isinstance(default, float) and type(value) is int)
