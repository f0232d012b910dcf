"""A toy project, and the same after a run."""

import io
import shutil

import pytest
import toy

from rnnopt import reproduce

#: Spaces, braces and letters that are not ASCII: a folder's name may hold anything.
FOLDER = "täst {run} 1"


@pytest.fixture
def project(tmp_path, monkeypatch):
    made = toy.make(tmp_path / FOLDER)
    monkeypatch.setenv("TOY_PACKAGE", str(made.package))
    return made


@pytest.fixture
def run(project):
    """Run items of the project; return the exit status and what was printed."""

    def run(items, **options):
        out = io.StringIO()
        status = reproduce.reproduce(project, items, resolve=toy.resolve, out=out, **options)
        return status, out.getvalue()

    return run


@pytest.fixture(scope="session")
def finished_once(tmp_path_factory):
    """A project after a run of `one` and `two`: its folder, exit status and output."""
    made = toy.make(tmp_path_factory.mktemp("finished") / FOLDER)
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOY_PACKAGE", str(made.package))
        status = reproduce.reproduce(made, [toy.ONE, toy.TWO], resolve=toy.resolve, out=out)
    return made.root, status, out.getvalue()


@pytest.fixture
def finished(finished_once, project):
    """A fresh copy of the finished project, to change."""
    shutil.copytree(finished_once[0], project.root, dirs_exist_ok=True)
    return project
