"""Make the items that are to be made, one after the other, and say what happens."""

from __future__ import annotations

import shlex
import shutil
import sys
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from rnnopt import paths
from rnnopt.reproduce import report, stamp
from rnnopt.reproduce.process import events
from rnnopt.reproduce.progress import count, duration


@dataclass(frozen=True)
class Task:
    """An item, what it would be made from now, and why it must be made (None: it is up to date)."""

    item: object
    parameters: dict
    inputs: dict
    before: dict | None
    reason: str | None


class Run:
    """One pass over `tasks`, making those of `todo`; `items` are all that the index lists."""

    def __init__(self, project, items, preset, device, only, tasks, todo, progress):
        self.project, self.items, self.preset, self.device = project, items, preset, device
        self.tasks, self.todo, self.progress = tasks, todo, progress
        self.finished, self.failed, self.cell = [], [], None
        self.again = self.command(only)
        self.report = project.shown(project.build / "report" / "index.html")

    def all(self, force) -> int:
        """Make the items; return the exit status."""
        estimates = [stamp.estimate(task.item, self.preset, task.before, task.inputs) for task in self.todo]
        self.progress.line(f"making {len(self.todo)} of {count(len(self.tasks))}, preset {self.preset}"
                           + (f", in about {duration(sum(estimates))}" if all(estimates) else ""))
        try:
            for number, task in enumerate(self.tasks, start=1):
                if task not in self.todo:
                    self.progress.item(number, task.item.id, "up to date")
                elif not self.one(number, task, force):
                    return 1
        except KeyboardInterrupt:
            kept = len(self.tasks) - len(self.todo) + len(self.finished)
            self.progress.line(f"interrupted; {kept} of {count(len(self.tasks))} finished and kept; resume with: {self.again}")
            raise
        except OSError as error:
            if error.errno not in paths.FULL_DISK:
                raise
            self.stop_for_disk(str(error))
            return 1
        return self.summary()

    def one(self, number, task, force) -> bool:
        """Make one item; False if there is no point in going on."""
        item, project = task.item, self.project
        if force:
            self.forget_records(task)
        stamp.mark(project, item, stamp.RUNNING, task.before)
        self.progress.start(number, item.id, task.reason or "forced",
                            stamp.estimate(item, self.preset, task.before, task.inputs))
        outcome = self.execute(task)
        if outcome["event"] == "done":
            try:
                stamp.finish(project, item, task.inputs, preset=self.preset, device=self.device,
                             seconds=self.progress.seconds, before=task.before)
            except (LookupError, FileNotFoundError) as error:
                outcome = {"event": "failed", "kind": "outputs", "headline": str(error), "lines": [], "log": []}
        if outcome["event"] == "done":
            self.progress.finish("done in")
            self.finished.append(item)
            self.write_index()
            return True
        self.progress.finish("FAILED after")
        self.failed.append(item)
        if outcome["kind"] == "disk":
            self.stop_for_disk(outcome["headline"])
            return False
        self.explain(item, outcome)
        stamp.mark(project, item, stamp.FAILED, task.before)
        return True

    def execute(self, task):
        item, project = task.item, self.project
        job = {"notebook": str(project.notebook(item)), "folder": str(project.root / "notebooks"), "title": item.title,
               "parameters": task.parameters, "partial": str(project.partial(item)),
               "executed": str(project.executed(item)), "report": str(project.report(item))}
        environment = {"RNNOPT_BUILD": str(project.build), "RNNOPT_MANIFEST": str(project.manifest(item))}
        self.cell = None
        with closing(events(job, environment)) as happening:
            for event in happening:
                if event["event"] == "cell":
                    self.cell = event
                    self.progress.cell(event["number"], event["of"])
                elif event["event"] == "tick":
                    self.progress.tick()
        return event

    def forget_records(self, task):
        """Delete the measurements that the item is made of, else they would be found and used."""
        noted = [note["path"] for note in stamp.manifest(self.project, task.item)]
        for name in {*noted, *(task.before or {}).get("files", {})}:
            if name.startswith("records/"):
                (self.project.build / name).unlink(missing_ok=True)

    def explain(self, item, failure):
        where = self.project.shown(self.project.notebook(item))
        if self.cell and failure["kind"] != "outputs":
            where += f", cell {self.cell['number']} of {self.cell['of']}"
        rows = [("notebook", where), ("error", failure["headline"])]
        rows += [("", line) for line in failure["lines"]]
        if failure["kind"] in ("kernel", "process", "other"):
            rows += [("" if n else "it said", line) for n, line in enumerate(failure["log"])]
        if self.project.partial(item).exists():
            rows.append(("so far", self.project.shown(self.project.partial(item))))
        rows.append(("again", self.command([item.id])))
        for name, text in rows:
            self.progress.line(f"    {name:<9} {text}".rstrip())

    def summary(self):
        self.write_index()
        fresh = len(self.tasks) - len(self.todo)
        parts = [f"{count(len(self.finished))} done"] if self.finished else []
        parts += [f"{count(fresh)} up to date"] if fresh else []
        parts += [f"{count(len(self.failed))} failed: {', '.join(item.id for item in self.failed)}"] if self.failed else []
        self.progress.line(f"{'; '.join(parts)}; report: {self.report}")
        return 1 if self.failed else 0

    def write_index(self):
        """Write the page that lists all items, unless it is there and says the same."""
        states = {}
        for item in self.items:
            found = stamp.read(self.project, item)
            states[item.id] = ({stamp.DONE: "made", stamp.RUNNING: "interrupted", stamp.FAILED: "failed"}[found["status"]]
                               if found else "not made yet", found)
        text, path = report.index(self.items, states), self.project.build / "report" / "index.html"
        with suppress(OSError):
            if path.read_text(encoding="utf-8") == text:
                return
        paths.atomic_write(path, text)

    def stop_for_disk(self, why):
        self.progress.line(f"stopped: {why}; finished items are kept; go on with: {self.again}")

    def command(self, only) -> str:
        """The command that makes these items, as it can be typed here."""
        project = self.project
        program = ["rnnopt"] if shutil.which("rnnopt") else [project.shown(Path(sys.executable)), "-m", "rnnopt"]
        device = ["--device", self.device] if self.device != "auto" else []
        build = ["--build", project.shown(project.build)] if project.build != project.root / "build" else []
        return shlex.join([*program, "reproduce", "--preset", self.preset, *device, *(["--only", *only] if only else []), *build])
