"""Regenerate every figure and table: ``rnnopt reproduce``.

Before anything runs, every selected notebook and the device are inspected.
What is up to date is left alone. Each of the others is executed in a process of
its own, one after the other, because they measure time; whatever ends the run, an
item that is finished stays finished, and the next run goes on from there.
"""

from __future__ import annotations

import importlib.util
import shlex
import sys
from difflib import get_close_matches

from rnnopt.reproduce import notebook, stamp
from rnnopt.reproduce.notebook import CannotStart
from rnnopt.reproduce.progress import Progress, count
from rnnopt.reproduce.project import Project
from rnnopt.reproduce.run import Run, Task

__all__ = ["CannotStart", "Project", "reproduce", "select", "survey"]


def select(items, wanted) -> list:
    """Return the items that `wanted` names, in the registry's order: by id, by the head of an id, or all for none.

    Raises
    ------
    CannotStart
        If a name fits none or several; the nearest is named.
    """
    ids = [item.id for item in items]
    chosen = set()
    for name in wanted or ids:
        fits = [name] if name in ids else [item_id for item_id in ids if item_id.startswith(name)]
        if len(fits) > 1:
            raise CannotStart(f"{name!r} may be {' or '.join(fits)}: write more of it")
        if not fits:
            near = get_close_matches(name, ids, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(ids)}"
            raise CannotStart(f"there is no item {name!r}: {hint}")
        chosen |= set(fits)
    return [item for item in items if item.id in chosen]


def survey(project: Project, items, *, preset: str, device: str, description: dict) -> list[Task]:
    """Inspect the notebooks of `items` and say which of them must be made again, and why.

    Raises
    ------
    CannotStart
        If a notebook would not take its parameters.
    """
    from rnnopt import devices

    tasks = []
    for item in items:
        parameters = {"device": item.device or device, **item.presets[preset]}
        notebook.check(project.notebook(item), parameters)
        now = stamp.inputs(project, item, parameters, devices.resolve(item.device).describe() if item.device else description)
        before = stamp.read(project, item)
        tasks.append(Task(item, parameters, now, before, stamp.why_stale(project, item, before, now)))
    return tasks


def reproduce(project: Project, items, *, preset="laptop", device="auto", only=(), force=False, resolve=None, out=None) -> int:
    """Make every selected item that is not up to date; return the exit status.

    Parameters
    ----------
    project : Project
    items : sequence of Item
        The registry.
    preset, device : str
        A preset of the items, and a device as :func:`rnnopt.devices.resolve` takes it.
    only : sequence of str
        Items to make; all if empty.
    force : bool
        Measure and make them anew, up to date or not.
    resolve : callable, optional
        Instead of :func:`rnnopt.devices.resolve`.
    out : file, optional
        Where progress is written, standard output if not given.

    Returns
    -------
    int
        0 if all selected items are up to date at the end, else 1.

    Raises
    ------
    CannotStart, rnnopt.devices.DeviceUnavailable, ValueError
        Before anything ran.
    KeyboardInterrupt
        After the running notebook was ended.
    """
    from rnnopt import devices

    selected = select(items, only)
    chosen = (resolve or devices.resolve)(device)
    out = sys.stdout if out is None else out
    with project.lock():
        tasks = survey(project, selected, preset=preset, device=device, description=chosen.describe())
        todo = [task for task in tasks if force or task.reason]
        run = Run(project, items, preset, device, only, tasks, todo, Progress(out, len(tasks)))
        if not todo:
            run.write_index()
            run.progress.line(f"nothing to do: {count(len(tasks))} up to date ({preset}, {chosen.name}); report: {run.report}")
            return 0
        _require_jupyter()
        run.progress.line(devices.status_line(chosen))
        return run.all(force)


def _require_jupyter():
    missing = [name for name in ("ipykernel", "papermill", "nbconvert") if importlib.util.find_spec(name) is None]
    if missing:
        raise CannotStart(f"this Python has no {', '.join(missing)}, which executing notebooks takes: run 'make env', "
                          f"or '{shlex.quote(sys.executable)} -m pip install {' '.join(missing)}'")
