"""``rnnopt import-records``: put the records of another machine's check under ``data/recorded``."""

from __future__ import annotations

import json
import re
from pathlib import Path

from rnnopt import paths

#: What every record has, whatever it measures.
NEEDED = ("key", "name", "spec", "device", "environment", "networks")


class BadRecord(ValueError):
    """A file is no record of a measurement; the message says which, and what it lacks."""


def import_records(folder: Path, machine: str, root: Path | None = None) -> list[Path]:
    """Copy the records of `folder` to ``data/recorded/MACHINE``; return where they are now.

    Parameters
    ----------
    folder : Path
        As ``make gpu-check`` leaves it; records are in its subfolder ``records``.
    machine : str
        A short name of the machine: letters, digits and dashes.
    root : Path, optional
        Instead of ``data/recorded``.

    Raises
    ------
    ValueError
        If the name is not such a name, there are no records, or they are of several devices or of a device that only predicts.
    BadRecord
        If a file is no record. Nothing is copied then.
    """
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", machine):
        raise ValueError(f"machine must be a short name of lower-case letters, digits and dashes, such as 'h200', got {machine!r}")
    found = sorted((folder / "records").glob("*.json"))
    if not found:
        raise ValueError(f"{folder / 'records'} holds no records: expected what `make gpu-check` leaves")
    texts = {path: path.read_text(encoding="utf-8") for path in found}
    records = {path: _checked(path, text) for path, text in texts.items()}
    whats = sorted({record["device"]["what"] for record in records.values()})
    if len(whats) > 1:
        raise ValueError(f"{folder} holds records of several devices ({', '.join(whats)}): import each from a folder of its own")
    if any(record["device"]["device"] == "model" for record in records.values()):
        raise ValueError(f"{folder} holds predictions of {whats[0]}, which are no measurements")
    target = (root or paths.data_dir() / "recorded") / machine
    return [paths.atomic_write(target / path.name, texts[path]) for path in found]


def _checked(path, text):
    try:
        record = json.loads(text)
    except ValueError as error:
        raise BadRecord(f"{path} is not JSON: {error}") from None
    missing = [part for part in NEEDED if not isinstance(record, dict) or part not in record]
    if missing:
        raise BadRecord(f"{path} lacks {', '.join(missing)}: it is no record of a measurement")
    if not all(isinstance(record["device"].get(part), str) for part in ("device", "what")):
        raise BadRecord(f"{path} doesn't say which device it is of")
    if path.stem != record["key"]:
        raise BadRecord(f"{path} is of the record {record['key']}: a record's file is named by its key")
    return record
