"""The README's results table, written from a committed record: ``python -m rnnopt.readme``."""

from __future__ import annotations

import re

from rnnopt import figures, measure, paths, tables

RECORD = "ladder, 4 layers"
BEGIN, END = "<!-- results: written by python -m rnnopt.readme -->", "<!-- end of results -->"


def results() -> str:
    """Return the ladder of the committed record as a Markdown table, its device and date below."""
    record = measure.recorded(RECORD)[0]
    published = tables.published("appleyard_m40").set_index("stage")
    rows = ["| stage | operations per cell | GFLOP/s | speed-up | M40, second-hand |", "|---|--:|--:|--:|--:|"]
    for row in measure.frame(record).itertuples():
        rows.append(f"| {figures.STAGE_LABELS[row.label]} | {row.operations / row.cells:.3g} | {row.gflops:.0f} "
                    f"| {row.speedup:.2f} × | {published.speedup[row.label]:.3g} × |")
    spec = record["spec"]
    size = f"LSTM, {spec['layers']} layers, hidden {spec['hidden_size']}, batch {spec['batch']}, {spec['steps']} steps, forward, float32"
    where = f"{tables.device_text(record)}, {record['environment']['date'][:10]}, medians of {record['protocol']['repeats']}"
    about = f"{size}; {where}. The last column was published for a Tesla M40; its last entry has four layers, the others one."
    return "\n".join([*rows, "", about])


def rewritten(text: str) -> str:
    """Return the README's `text` with its results as they are now."""
    pattern = re.escape(BEGIN) + ".*?" + re.escape(END)
    return re.sub(pattern, lambda _: f"{BEGIN}\n{results()}\n{END}", text, flags=re.DOTALL)


if __name__ == "__main__":
    path = paths.checkout_root() / "README.md"
    paths.atomic_write(path, rewritten(path.read_text(encoding="utf-8")))
