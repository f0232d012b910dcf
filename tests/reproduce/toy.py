"""A toy project for the runner's tests: notebooks that take a second, a package of two files, kernels that are only text.

Run as a program, it is the runner on the project in the folder that its first argument names.
"""

import hashlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

from rnnopt import reproduce
from rnnopt.artifacts import Item

PARAMETERS = 'device: str = "auto"  # where\nsteps: int = 1  # how many\nseconds: float = 0.0'

#: What every good notebook does: use a kernel and a header, make a table, a figure and a record, and show a formula.
MAKE = """
import hashlib, json, os, time
from pathlib import Path
from rnnopt import paths, provenance
package = Path(os.environ["TOY_PACKAGE"])
used = {name: hashlib.sha256((package / "kernels" / name).read_text().encode()).hexdigest() for name in KERNELS}
for kind, name in (("table", f"tables/{NAME}.csv"), ("figure", f"figures/{NAME}.png"), ("record", f"records/{NAME}.json")):
    paths.atomic_write(paths.build_dir() / name, f"{steps} steps on {device}")
    provenance.note(kind, name, **({"kernels": used} if kind == "record" else {"alt": "a < b"} if kind == "figure" else {}))
print("made", steps, "of", NAME)
time.sleep(seconds)
"""


def cell(source, *tags, kind="code"):
    extra = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "id": hashlib.sha256(source.encode()).hexdigest()[:8], "metadata": {"tags": list(tags)},
            "source": source, **extra}


def notebook(*cells):
    kernel = {"name": "somebodys-env", "display_name": "Somebody's environment", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": list(cells)}


def good(name, kernels):
    head = cell("# Toy\n\nwith $x_t$", kind="markdown")
    return notebook(head, cell(PARAMETERS, "parameters"), cell(f"NAME, KERNELS = {name!r}, {kernels!r}" + MAKE))


def item(name, outputs=None, data=(), **parameters):
    outputs = (f"tables/{name}.csv", f"figures/{name}.png") if outputs is None else outputs
    return Item(name, f"Toy {name}", "no paper", "2 < 3", outputs, data, {"laptop": parameters}, {"laptop": 5})


def write(root: Path, name: str, content: dict):
    (root / "notebooks").mkdir(parents=True, exist_ok=True)
    (root / "notebooks" / f"{name}.ipynb").write_text(json.dumps(content), encoding="utf-8")


def make(root: Path) -> reproduce.Project:
    """Write the folders of a project whose items are `one` (kernel one.cu and the header) and `two` (two.cu)."""
    kernels, data = root / "package" / "kernels", root / "data"
    for folder in (kernels, data):
        folder.mkdir(parents=True)
    for file in (kernels / "one.cu", kernels / "two.cu", kernels / "common.cuh", root / "package" / "module.py", data / "known.csv"):
        file.write_text(f"{file.name}\n", encoding="utf-8")
    write(root, "one", good("one", ["one.cu", "common.cuh"]))
    write(root, "two", good("two", ["two.cu"]))
    return project(root)


ONE, TWO = item("one", data=("*.csv",), steps=3), item("two", steps=4)


def project(root: Path) -> reproduce.Project:
    return reproduce.Project(root, root / "build", root / "package")


def resolve(name):
    return SimpleNamespace(name="toy", reason="the only one", describe=lambda: {"device": "toy", "what": "a toy"})


if __name__ == "__main__":
    sys.exit(reproduce.reproduce(project(Path(sys.argv[1])), [ONE, TWO], resolve=resolve))
