"""The one place for how figures look: palette, labels, order, sizes, alternative text."""

from __future__ import annotations

import io
from contextlib import contextmanager

from rnnopt import paths, provenance
from rnnopt.schedule import TRAINING_LADDER

#: Width of a text column and of a page, in inches.
COLUMN, PAGE = 3.4, 7.0

#: What a rung of the ladder is called in figures and tables, in their order.
STAGE_LABELS = {
    "naive": "Naive",
    "combined_gemms": "Combined GEMMs",
    "streamed_gemms": "GEMM streaming",
    "fused_pointwise": "Fused pointwise",
    "pretransposed_weights": "Pre-transposed weights",
    "batched_inputs": "Batched inputs",
    "batched_weight_gradients": "Batched weight gradients",
    "wavefront": "Wavefront",
}

#: A colour per rung (seaborn's colour-blind palette), the same in every figure.
STAGE_COLOURS = dict(zip(
    TRAINING_LADDER, ("#949494", "#56b4e9", "#0173b2", "#de8f05", "#cc78bc", "#029e73", "#ca9161", "#d55e00"), strict=True))

#: What a pass of training is called, and its colour.
PASS_LABELS = {"forward": "forward", "data": "data", "weights": "weights", "backward": "backward, both as one", "step": "whole step"}
PASS_COLOURS = dict(zip(PASS_LABELS, ("#56b4e9", "#de8f05", "#029e73", "#cc78bc", "#d55e00"), strict=True))

#: What a cell is called.
CELL_LABELS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN, tanh", "rnn_relu": "RNN, ReLU", "implicit_gru": "Implicit GRU"}

#: Colour and marker of the first, second, … batch size that a figure compares.
BATCH_STYLES = (("#56b4e9", "o"), ("#0173b2", "s"), ("#d55e00", "^"), ("#029e73", "D"), ("#949494", "v"))

_STYLE = {
    "figure.dpi": 150, "savefig.bbox": "tight", "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9,
    "legend.fontsize": 8, "legend.frameon": False, "axes.spines.top": False, "axes.spines.right": False,
    "pdf.fonttype": 42, "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "rnnopt",  # the same figure is the same file
}


@contextmanager
def axes(width=COLUMN, height=2.6, grid="both", **subplots):
    """Give a figure and its axes in the project's style: ``with axes() as (figure, ax)``.

    `grid` names the lines to draw: ``"x"``, ``"y"`` or ``"both"``.
    """
    import matplotlib as mpl
    import seaborn as sns
    from matplotlib.figure import Figure

    with mpl.rc_context({**sns.axes_style("whitegrid"), **_STYLE, "axes.grid.axis": grid}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(**subplots)


def save(figure, name: str, alt: str):
    """Write a figure as SVG, PDF and PNG into the build folder; return it for display.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    name : str
        File name without ending.
    alt : str
        What a reader who can't see the picture should be told.

    Returns
    -------
    IPython.display.Image

    Raises
    ------
    ValueError
        If there is no alternative text.
    """
    import matplotlib as mpl
    from IPython.display import Image

    if not alt.strip():
        raise ValueError(f"figure {name!r} needs alternative text: say what it shows in a sentence")
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    data = {}
    for kind, metadata in dates.items():
        stream = io.BytesIO()
        with mpl.rc_context(_STYLE):
            figure.savefig(stream, format=kind, metadata=metadata, dpi=200)
        data[kind] = stream.getvalue()
        path = paths.build_dir() / "figures" / f"{name}.{kind}"
        paths.atomic_write(path, data[kind])
        provenance.note("figure", f"figures/{path.name}", alt=alt)
    return Image(data["png"], alt=alt, width=int(72 * 1.6 * figure.get_figwidth()))


def label_bars(ax, texts):
    """Write a text at the end of each horizontal bar of `ax`, and make room for it."""
    bars = [bar for container in ax.containers for bar in getattr(container, "patches", [])]
    for bar, text in zip(bars, texts, strict=True):
        ax.annotate(text, (bar.get_width(), bar.get_y() + bar.get_height() / 2), xytext=(3, 0),
                    textcoords="offset points", va="center", fontsize=8)
    ax.set_xlim(0, (1 + 0.055 * max(map(len, texts))) * max(bar.get_width() for bar in bars))
