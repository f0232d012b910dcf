"""Typeset the paper from what the notebooks made: their tables, figures and records.

The text in ``paper/`` holds no result. It asks for tables (``load("NAME")``) and figures (``picture("NAME")``) by name;
these are gathered in one folder, beside the records that they come from and the published numbers, and Typst makes a PDF
of it. It needs no TeX and no network: fonts are those of the typst and matplotlib wheels, whatever the system has.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from rnnopt import paths, reproduce
from rnnopt.artifacts import ITEMS
from rnnopt.reproduce import stamp

#: The PDF, in the build folder.
RESULT = Path("paper") / "rnnopt.pdf"


class PaperError(reproduce.CannotStart):
    """The paper can't be typeset; the message says why, and what to do."""


def build(build_dir: str | os.PathLike | None = None, source: str | os.PathLike | None = None) -> Path:
    """Typeset the paper.

    Parameters
    ----------
    build_dir : path, optional
        Where the runner's results are (``items``, ``tables``, ``figures``, ``records``); where it puts them if not
        told otherwise, $RNNOPT_BUILD or the checkout's ``build``, if not given.
    source : path, optional
        Folder of ``main.typ``; the checkout's ``paper`` if not given.

    Returns
    -------
    Path
        The PDF. The same inputs give the same bytes.

    Raises
    ------
    PaperError
        If an input is missing or older than what it was made from, if Typst or
        the source is missing, or if Typst finds a mistake.
    """
    build_dir = Path(build_dir or os.environ.get("RNNOPT_BUILD") or paths.checkout_root() / "build").absolute()
    source = Path(source) if source is not None else paths.checkout_root() / "paper"
    typst = _typst()
    with TemporaryDirectory(prefix="rnnopt-paper-") as folder:
        stage = Path(folder)
        timestamp = _gather(source, build_dir, stage)
        pdf = _compile(typst, stage, timestamp)
    paths.atomic_write(build_dir / RESULT, pdf)
    return build_dir / RESULT


def inputs(source: str | os.PathLike) -> list[str]:
    """Return the files that the text in `source` asks for, relative to the build folder."""
    main = Path(source) / "main.typ"
    try:
        text = main.read_text(encoding="utf-8")
    except OSError as error:
        raise PaperError(f"the paper's source {main} can't be read ({error.strerror}): typeset it in a checkout") from error
    tables, figures = (re.findall(rf'\b{call}\("(\w+)"', text) for call in ("load", "picture"))
    return [f"tables/{name}.{ending}" for name in tables for ending in ("csv", "json")] + [
        f"figures/{name}.svg" for name in figures]


def _typst():
    try:
        import typst
    except ImportError as error:
        raise PaperError(f"Typst is not installed ({error}): run `make env`, or `pip install 'rnnopt[paper]'`") from error
    return typst


def _up_to_date(build_dir, wanted) -> list[dict]:
    """Return the stamps of the items that make what is `wanted`, if all are up to date."""
    project = reproduce.Project(root=paths.checkout_root(), build=build_dir, package=Path(__file__).parent)
    items = [item for item in ITEMS if set(wanted) & set(item.outputs)]
    if unknown := set(wanted).difference(*(item.outputs for item in items)):
        raise PaperError(f"the paper asks for {min(unknown)}, which no item of rnnopt/artifacts.py makes: correct main.typ")
    stamps, stale = [], defaultdict(list)
    for item in items:
        found = stamp.read(project, item)
        # Whatever preset and device were asked for then are right for the paper: it says which they were.
        then = (found or {}).get("inputs", {})
        now = stamp.inputs(project, item, then.get("parameters"), then.get("device"))
        if why := stamp.why_stale(project, item, found, now):
            stale[why].append(item.id)
        stamps.append(found)
    if stale:
        reasons = "; ".join(f"{', '.join(ids)} ({why})" for why, ids in stale.items())
        raise PaperError(f"the paper needs results that are not up to date, {reasons}: run `make reproduce`")
    return stamps


def _gather(source, build_dir, stage) -> int:
    """Copy all that the paper reads to `stage`; return the time that the PDF bears."""
    wanted = inputs(source)
    stamps = _up_to_date(build_dir, wanted)
    made = {"presets": list(dict.fromkeys(item["preset"] for item in stamps)),
            "figures": {name: alt for item in stamps for name, alt in item["figures"].items()}}
    (stage / "made.json").write_text(json.dumps(made), encoding="utf-8")
    keys, dates = set(), set()
    for name in wanted:
        _copy(build_dir / name, stage / name)
        if name.endswith(".json"):
            about = _read(stage / name, name)
            keys.update(about["records"])
            dates.update(about["dates"])
    for key in sorted(keys):
        _copy(_record(build_dir, key), stage / "records" / f"{key}.json")
    for path in sorted((paths.data_dir() / "published").glob("*.csv")):
        _copy(path, stage / "published" / path.name)
    for path in sorted(source.iterdir()):
        if path.suffix in (".typ", ".bib"):
            _copy(path, stage / path.name)
    # The paper is as old as its last measurement, on whatever day it is typeset.
    return int(os.environ.get("SOURCE_DATE_EPOCH") or datetime.fromisoformat(max(dates)).replace(tzinfo=UTC).timestamp())


def _read(path, name):
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(about["records"], list) and about["dates"] and about["devices"]:
            return about
    except (ValueError, KeyError, TypeError):
        pass
    raise PaperError(f"{name} doesn't say which device measured it, and when: run `make reproduce`")


def _record(build_dir, key):
    """The file of a record: measured here, or committed and replayed."""
    path = build_dir / "records" / f"{key}.json"
    if path.is_file():
        return path
    for committed in sorted((paths.data_dir() / "recorded").rglob("*.json")):
        if json.loads(committed.read_text(encoding="utf-8")).get("key") == key:
            return committed
    raise PaperError(f"the record {path} of a table is missing: run `make reproduce`")


def _copy(path, to):
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, to)


def _compile(typst, stage, timestamp) -> bytes:
    try:
        compiler = typst.Compiler(str(stage / "main.typ"), root=str(stage), font_paths=[_figure_fonts()],
                                  ignore_system_fonts=True)
        pdf, complaints = compiler.compile_with_warnings(format="pdf", timestamp=timestamp)
    except typst.TypstError as error:
        raise PaperError(_located(error)) from error
    for complaint in complaints:
        warnings.warn(_located(complaint), stacklevel=3)
    return pdf


def _figure_fonts() -> str:
    """The folder of the fonts that matplotlib measured the figures' text with; the text in an SVG is drawn here."""
    import matplotlib

    return str(Path(matplotlib.get_data_path()) / "fonts" / "ttf")


def _located(complaint) -> str:
    """Typst's message behind the file and line that it is about, and those that led there."""
    diagnostic = complaint.diagnostic
    # A warning may stand before the error; the message is the error's.
    start = max(diagnostic.find(f": {complaint.message}"), 0)
    places = [f"paper/{Path(file).name}:{line}" for file, line in re.findall(r"┌─ (.+?):(\d+):\d+", diagnostic[start:])]
    reached = f" (reached from {', '.join(places[1:])})" if places[1:] else ""
    return f"{places[0] if places else 'paper/main.typ'}: {complaint.message}{reached}"
