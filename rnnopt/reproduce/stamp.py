"""What an item was made from, what came out, and whether both are still so.

A stamp holds the parts by name rather than one hash over all, so that the runner can say why an item is stale.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

from rnnopt import paths, provenance
from rnnopt.reproduce import notebook

#: Modules that no notebook runs: a change to them changes no result.
NOT_RUN_BY_NOTEBOOKS = ("__main__.py", "artifacts.py", "cli.py", "doctor.py", "paper", "paper.py", "reproduce")

#: Kernels count only for the items whose records used them.
_KERNELS = (".cu", ".cuh")

DONE, RUNNING, FAILED = "done", "running", "failed"

#: What a finished stamp must hold; one without is as good as none.
_NEEDED = {"preset", "inputs", "kernels", "noted_data", "files", "figures"}


def inputs(project, item, parameters: dict, device: dict) -> dict:
    """Return all that decides what an item becomes, as JSON, but for the kernels, which only a run can tell."""
    parts = {
        "notebook": notebook.source_hash(notebook.read(project.notebook(item))),
        "parameters": parameters,
        "package": package_hashes(project.package),
        "device": device,
        "versions": provenance.versions(),
        "data": data_hashes(project, item.data),
    }
    return json.loads(json.dumps(parts))


def package_hashes(folder) -> dict[str, str]:
    """SHA-256 of each file of the package that notebooks run, kernels apart."""
    files = {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name.as_posix(): provenance.sha256_file(path) for name, path in files.items()
            if name.parts[0] not in NOT_RUN_BY_NOTEBOOKS and "__pycache__" not in name.parts
            and path.suffix not in _KERNELS and not name.name.startswith(".") and not name.name.endswith("~")}


def data_hashes(project, patterns) -> dict[str, str]:
    """SHA-256 of each file under ``data/`` that `patterns` name."""
    folder = project.root / "data"
    found = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})
    return {path.relative_to(folder).as_posix(): provenance.sha256_file(path) for path in found}


def kernel_hash(project, name: str) -> str | None:
    """SHA-256 of a kernel file's text, as records hold it; None if it is gone."""
    try:
        return hashlib.sha256((project.package / "kernels" / name).read_text(encoding="utf-8").encode()).hexdigest()
    except OSError:
        return None


def read(project, item) -> dict | None:
    """Return the stamp of an item, or None if it has none that is whole."""
    try:
        stamp = json.loads(project.stamp(item).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(stamp, dict) or stamp.get("status") not in (DONE, RUNNING, FAILED):
        return None
    return None if stamp["status"] == DONE and not stamp.keys() >= _NEEDED else stamp


def why_stale(project, item, stamp: dict | None, now: dict) -> str | None:
    """Say in a few words why an item must be made again; None if it is up to date."""
    if stamp is None:
        return "not made yet"
    if stamp["status"] != DONE:
        return {RUNNING: "was interrupted", FAILED: "failed last time"}[stamp["status"]]
    then = stamp["inputs"]
    for part, value in now.items():
        if then.get(part) != value:
            return _difference(part, then.get(part), value)
    for name, value in stamp["kernels"].items():
        if kernel_hash(project, name) != value:
            return f"kernel {name} changed"
    if (value := data_hashes(project, stamp["noted_data"])) != stamp["noted_data"]:
        return _difference("data", stamp["noted_data"], value)
    for name, value in stamp["files"].items():
        path = project.build / name
        if not path.is_file():
            return f"{name} is missing"
        if provenance.sha256_file(path) != value:
            return f"{name} was changed"
    return None


def _difference(part, then, now):
    if not isinstance(then, dict) or not isinstance(now, dict):
        return f"{part} changed"
    changed = sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    if part in ("parameters", "device", "versions"):
        name = changed[0]
        return f"{part} changed: {name} was {then.get(name)!r}, is {now.get(name)!r}{more}"
    return f"{part} changed: {changed[0]}{more}"


def mark(project, item, status: str, before: dict | None):
    """Say that an item is being made or has failed: the build folder may hold half of the new and half of the old."""
    if status == RUNNING:
        project.manifest(item).unlink(missing_ok=True)
    known = {part: before[part] for part in ("full_seconds", "inputs") if part in before} if before else {}
    _write(project, item, {"status": status, **known})


def estimate(item, preset: str, before: dict | None, now: dict) -> float | None:
    """Seconds that an item will take: as it took here with the same parameters, else as the registry says."""
    return _full_seconds(before, now) or item.seconds.get(preset)


def finish(project, item, made_from: dict, *, preset: str, device: str, seconds: float, before: dict | None) -> dict:
    """Write the stamp of a finished item from what its notebook noted; return it.

    Raises
    ------
    LookupError
        If a file that the registry promises was not made.
    """
    notes = manifest(project, item)
    made = [note for note in notes if note["kind"] != "data"]
    files = [note["path"] for note in made]
    if missing := [name for name in item.outputs if name not in files]:
        raise LookupError(f"the notebook did not make {', '.join(missing)}, which the registry (rnnopt/artifacts.py) promises")
    files += [path.relative_to(project.build).as_posix() for path in (project.executed(item), project.report(item))]
    kernels = {}
    for note in made:
        for name, value in note.get("kernels", {}).items():
            # Two values: the file was changed while the item was made, and no hash fits both halves.
            kernels[name] = value if kernels.get(name, value) == value else "changed while it was used"
    stamp = {
        "status": DONE, "item": item.id, "title": item.title, "preset": preset, "asked_device": device,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"), "seconds": round(seconds, 1),
        "full_seconds": round(max(seconds, _full_seconds(before, made_from)), 1), "inputs": made_from, "kernels": kernels,
        "noted_data": data_hashes(project, [note["path"] for note in notes if note["kind"] == "data"]),
        "files": {name: provenance.sha256_file(project.build / name) for name in dict.fromkeys(files)},
        "figures": {note["path"]: note.get("alt", "") for note in made if note["kind"] == "figure"},
        "tables": list(dict.fromkeys(note["path"] for note in made if note["kind"] == "table")),
    }
    _write(project, item, stamp)
    return stamp


def _full_seconds(before, made_from):
    """How long the item took when nothing of it was already measured, as far as known."""
    same = before and before.get("inputs", {}).get("parameters") == made_from["parameters"]
    return before.get("full_seconds", 0) if same else 0


def manifest(project, item) -> list[dict]:
    """Return what the notebook noted; a line cut short by a kill is left out."""
    notes = []
    try:
        lines = project.manifest(item).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    for line in lines:
        try:
            note = json.loads(line)
        except ValueError:
            continue
        if isinstance(note, dict) and {"kind", "path"} <= note.keys():
            notes.append(note)
    return notes


def _write(project, item, stamp):
    paths.atomic_write(project.stamp(item), json.dumps(stamp, indent=1) + "\n")
