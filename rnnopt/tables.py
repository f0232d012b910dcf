"""Tables: written as CSV with what must be known of them, and shown."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date

from rnnopt import paths, provenance


def save(frame, name: str, caption: str, records: Iterable[dict] = (), device=None):
    """Write a table into the build folder; return it for display.

    Beside ``NAME.csv`` goes ``NAME.json``: the caption, and from the records
    that the table comes from their keys, devices and dates, so that whoever
    shows the table can say where it was measured.

    Parameters
    ----------
    frame : pandas.DataFrame
    name : str
        File name without ending.
    caption : str
    records : iterable of dict
        As :func:`rnnopt.measure.compare` returns them.
    device : device, optional
        Where it was measured today, if not in records.
    """
    records = list(records)
    devices = [device_text(record) for record in records] + ([device_text({"device": device.describe()})] if device is not None else [])
    days = {record["environment"]["date"][:10] for record in records} | ({date.today().isoformat()} if device is not None else set())
    about = {
        "caption": caption,
        "records": [record["key"] for record in records],
        "devices": list(dict.fromkeys(devices)),
        "dates": sorted(days),
    }
    folder = paths.build_dir() / "tables"
    paths.atomic_write(folder / f"{name}.csv", frame.to_csv(index=False, float_format="%.6g", lineterminator="\n"))
    paths.atomic_write(folder / f"{name}.json", json.dumps(about, indent=1) + "\n")
    for ending in ("csv", "json"):
        provenance.note("table", f"tables/{name}.{ending}")
    verb = "Predicted by" if device is not None and device.name == "model" else "Measured on"
    where = f" {verb} {'; '.join(about['devices'])}." if devices else ""
    return frame.style.hide(axis="index").format(precision=3, na_rep="–").set_caption(caption + where)


def device_text(record: dict) -> str:
    """The device of a record, for a caption; ``{"device": device.describe()}`` will do for one."""
    device = record["device"]
    return f"{device['what']} ({device['device']}{', ' + str(device['cores']) + ' cores' if 'cores' in device else ''})"


def published(name: str):
    """Return a committed table of published numbers (``data/published/NAME.csv``), as its sources have them."""
    import pandas as pd

    path = paths.data_dir() / "published" / f"{name}.csv"
    provenance.note("data", f"published/{path.name}")
    return pd.read_csv(path, comment="#")
