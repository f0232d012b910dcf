"""How anything is timed, and the record that every measurement leaves.

Networks are compared in groups: each is first checked against the float64
reference in this very process, then all are run in turns, once each per
repeat, so that whatever else the machine does falls on all of them alike. A
record is named by the hash of everything that can change it. Measuring the
same again returns the record; so an interrupted run goes on where it was, and
a change to a figure measures nothing anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from statistics import median, quantiles

import numpy as np

from rnnopt import kernels, paths, provenance, reference
from rnnopt.network import Network

#: Raised when what is done between two readings of the clock changes.
PROTOCOL = 1


#: What a record holds of each network.
FIELDS = {"error", "plan", "seconds", "median", "quartiles", "gflops", "speedup", "speedup_quartiles"}


class WrongResult(RuntimeError):
    """A network does not agree with the reference; its time would mean nothing."""


def sample_inputs(spec, seed: int = 0) -> np.ndarray:
    """Draw float32 inputs from N(0, 1), shape (steps, batch, input_size)."""
    rng = np.random.default_rng([seed, 1])
    return rng.standard_normal((spec.steps, spec.batch, spec.input_size), dtype=np.float32)


def compare(name: str, networks: Mapping[str, Network], inputs: np.ndarray, *, repeats: int = 7,
            data: str = "live") -> dict:
    """Time networks that compute the same, against each other.

    Parameters
    ----------
    name : str
        What the comparison is for; kept in the record.
    networks : mapping of str to Network
        All of one spec; the first is what the others are compared with.
    inputs : ndarray of float32, shape (steps, batch, input_size)
    repeats : int
        Runs of each that count, after one that doesn't.
    data : {"live", "recorded"}
        Measure here, or show the committed record of the same comparison.

    Returns
    -------
    dict
        ``spec``, ``networks`` (label -> plan, error, seconds, statistics),
        ``device``, ``protocol``, ``environment`` and ``key``.

    Raises
    ------
    WrongResult
        If a network's error is above :data:`rnnopt.reference.TOLERANCE`; nothing is timed then.
    LookupError
        If no such record is committed.
    """
    return remembered(name, networks, inputs, repeats, data, lambda: _measure(networks, inputs, repeats), FIELDS.issubset)


def remembered(name, networks, inputs, repeats, data, measured, complete) -> dict:
    """Return the record of a comparison: kept, committed, or else of what `measured` returns.

    `complete` says whether what a record holds of a network is all that it should hold.
    """
    if data not in ("live", "recorded"):
        raise ValueError(f"data must be 'live' or 'recorded', got {data!r}")
    if not isinstance(repeats, int) or repeats < 1:
        raise ValueError(f"repeats must be an integer of at least 1, got {repeats!r}")
    first = next(iter(networks.values()))
    for label, network in networks.items():
        if network.spec != first.spec:
            raise ValueError(f"networks to compare must have one spec; {label} has {network.spec}, not {first.spec}")
    if data == "recorded":
        return _committed(name, networks, first.spec)
    identity = _identity(name, networks, inputs, repeats)
    key = provenance.hash_json(identity)[:24]
    path = paths.build_dir() / "records" / f"{key}.json"
    record = _read(path)
    if not _is_of(record, identity, complete):
        record = {"key": key, **identity, "environment": provenance.environment(), "networks": measured()}
        paths.atomic_write(path, json.dumps(record, indent=1))
    provenance.note("record", f"records/{key}.json", kernels=record["kernels"])
    return record


def _is_of(record, identity, complete):
    """Whether `record` is a whole one of just this comparison: files can be edited, and come from other versions."""
    return (isinstance(record, dict)
            and all(record.get(part) == value for part, value in json.loads(json.dumps(identity)).items())
            and isinstance(record.get("networks"), dict) and record["networks"].keys() == identity["plans"].keys()
            and all(isinstance(result, dict) and complete(result) for result in record["networks"].values())
            and "environment" in record)


def _committed(name, networks, spec):
    for record in recorded(name):
        if record["spec"] == spec.as_dict() and set(networks) <= set(record["networks"]):
            return record
    raise LookupError(f"data/recorded holds no record {name!r} of {spec} with {', '.join(networks)}: "
                      f"use data='live', or the sizes that are recorded")


def _read(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _identity(name, networks, inputs, repeats):
    """All that can change the outcome, as JSON."""
    first = next(iter(networks.values()))
    plans = {label: [network.plan, *([network.backward_plan] if hasattr(network, "backward_plan") else [])]
             for label, network in networks.items()}
    files = sorted({file for passes in plans.values() for plan in passes for file in plan.kernel_files})
    return {
        "name": name,
        "protocol": {"version": PROTOCOL, "repeats": repeats, "warm_up": 1, "cache": "flushed"},
        "spec": first.spec.as_dict(),
        "device": first.device.describe(),
        "device_sources": provenance.hash_folder(kernels.FOLDER.parent / "devices" / first.device.name),
        "versions": provenance.versions(),
        "kernels": kernels.hashes(files),
        "plans": {label: " ".join(plan.fingerprint for plan in passes) for label, passes in plans.items()},
        "data": provenance.hash_arrays({"inputs": inputs, **first.weights}),
    }


def _measure(networks, inputs, repeats):
    first = next(iter(networks.values()))
    outputs, state = reference.forward(first.spec, first.weights, inputs)
    results = {}
    for label, network in networks.items():
        got, got_state = network(inputs)
        error = max(map(reference.relative_error, (got, *got_state), (outputs, *state)))
        if not error <= reference.TOLERANCE["float32"]:
            raise WrongResult(f"{label} differs from the float64 reference by {error:.2g} "
                              f"(relative; {reference.TOLERANCE['float32']:g} is allowed): not timed")
        results[label] = {"error": error, "plan": network.plan.counts(), "seconds": []}
    for _ in range(repeats):
        for label, network in networks.items():
            network.device.flush_cache()
            results[label]["seconds"].append(network.executable.replay())
    base = next(iter(results.values()))["seconds"]
    for label, result in results.items():
        seconds = result["seconds"]
        result["median"], result["quartiles"] = median(seconds), quartiles_of(seconds)
        result["gflops"] = networks[label].spec.paper_flops / median(seconds) / 1e9
        # Repeat by repeat, so that what slowed both cancels.
        ratios = [slow / fast for slow, fast in zip(base, seconds, strict=True)]
        result["speedup"], result["speedup_quartiles"] = median(ratios), quartiles_of(ratios)
    return results


def quartiles_of(values) -> list[float]:
    """Return the first and the third quartile."""
    if len(values) < 2:
        return [values[0], values[0]]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return [low, high]


def frame(record: dict):
    """Return a record as a table, one row per network.

    Columns: ``label``, ``milliseconds`` (median), ``low`` and ``high``
    (quartiles), ``gflops`` (the paper's rule), ``speedup`` over the first
    network (median of the repeats' ratios) with ``speedup_low`` and
    ``speedup_high``, ``error``, and the plan's counts.
    """
    import pandas as pd

    rows = []
    for label, result in record["networks"].items():
        rows.append({
            "label": label, "milliseconds": 1e3 * result["median"],
            "low": 1e3 * result["quartiles"][0], "high": 1e3 * result["quartiles"][1],
            "gflops": result["gflops"], "speedup": result["speedup"],
            "speedup_low": result["speedup_quartiles"][0], "speedup_high": result["speedup_quartiles"][1],
            "error": result["error"], **result["plan"],
        })
    return pd.DataFrame(rows)


def recorded(name: str) -> list[dict]:
    """Return the committed records called `name`, of other machines or other days (``data/recorded``)."""
    found = [_read(path) for path in sorted((paths.data_dir() / "recorded").rglob("*.json"))]
    return [record for record in found if isinstance(record, dict) and record.get("name") == name]
