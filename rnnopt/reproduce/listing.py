"""What there is to make, and the state of each item."""

from __future__ import annotations

from collections.abc import Iterator

from rnnopt import devices
from rnnopt.reproduce import stamp, survey


def lines(project, items, preset: str | None = None, device: str | None = None, resolve=devices.resolve) -> Iterator[str]:
    """Yield what ``rnnopt list`` prints.

    Without a preset and a device, each item is compared with what it was last
    asked to be; with them, with what a run would make.
    """
    described = {}
    for item in items:
        before = stamp.read(project, item)
        done = before if before and before["status"] == stamp.DONE else {}
        asked = device or done.get("asked_device", "auto")
        if asked not in described:
            described[asked] = _describe(resolve, asked)
        size = preset or done.get("preset", "laptop")
        (task,) = survey(project, [item], preset=size, device=asked, description=described[asked])
        state = f"stale: {task.reason}" if done and task.reason else task.reason or "up to date"
        when = f" (made {done['finished'][:10]}, preset {done['preset']}, in {done['seconds']:.0f} s)" if done else ""
        yield f"{item.id}: {item.title} ({item.paper_item})"
        yield f"    makes  {_files(item.outputs)}"
        yield f"    state  {state}{when}"


def _files(names):
    endings = {}
    for name in names:
        stem, _, ending = name.rpartition(".")
        endings.setdefault(stem, []).append(ending)
    return ", ".join(f"{stem} ({', '.join(found)})" for stem, found in endings.items())


def _describe(resolve, name):
    try:
        return resolve(name).describe()
    except devices.DeviceUnavailable as error:
        return {"device": name, "missing": str(error)}
