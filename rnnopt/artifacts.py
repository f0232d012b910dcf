"""The registry: each item of the paper, the notebook that makes it, the files that must come out, and the claim.

Everything that depends on this list (the runner, its report, the tests)
reads it from here, so an item is added by adding an entry and a notebook.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PRESETS = ("smoke", "laptop", "paper")


@dataclass(frozen=True)
class Item:
    """One item of the paper and how it is made.

    Attributes
    ----------
    id : str
        Also the name of its notebook, without ending.
    title, paper_item, claim : str
        What it shows, which part of which paper it answers, and what that paper says.
    outputs : tuple of str
        Files that must come out, relative to the build folder.
    data : tuple of str
        Files that it reads, relative to ``data/``; may hold wildcards.
    presets : mapping
        Preset -> parameters of the notebook. ``device`` is added by the runner.
    seconds : mapping
        Preset -> about how long it takes on two cores, until a run on this machine tells better.
    device : str, optional
        What it is about, whatever device is asked for: the model of a card.
    """

    id: str
    title: str
    paper_item: str
    claim: str
    outputs: tuple[str, ...]
    data: tuple[str, ...]
    presets: Mapping[str, Mapping]
    seconds: Mapping[str, float] = field(default_factory=dict)
    device: str | None = None

    @property
    def notebook(self) -> str:
        return f"{self.id}.ipynb"


def _both(*names):
    return tuple(f"{folder}/{name}.{ending}" for name in names
                 for folder, ending in (("figures", "svg"), ("figures", "pdf"), ("figures", "png"),
                                        ("tables", "csv"), ("tables", "json")))


def _figure(name):
    return tuple(f"figures/{name}.{ending}" for ending in ("svg", "pdf", "png"))


def _table(name):
    return tuple(f"tables/{name}.{ending}" for ending in ("csv", "json"))


_TINY = {"hidden_size": 24, "batch": 3, "steps": 5, "repeats": 2}
_TABLE1 = {"hidden_size": 512, "batch": 64, "steps": 100}
_M40 = ("published/appleyard_m40.csv", "published/lstm_cu_operations.csv")

ITEMS = (
    Item(
        "01_single_cell", "Inside one cell",
        "Appleyard et al. 2016, optimisations of a single cell",
        "Combining GEMMs, running them side by side and fusing pointwise operations make one layer several times faster.",
        _both("single_cell"), _M40,
        {"smoke": _TINY, "laptop": {**_TABLE1, "repeats": 7}, "paper": {**_TABLE1, "repeats": 31}},
        {"smoke": 8, "laptop": 30, "paper": 120},
    ),
    Item(
        "02_single_layer", "Along one layer",
        "Appleyard et al. 2016, optimisations of a single layer",
        "Pre-transposed weights and inputs batched over steps help further; groups of two steps were best (second-hand).",
        _both("single_layer"), (),
        {"smoke": {**_TINY, "groups": [1, 2]},
         "laptop": {**_TABLE1, "groups": [1, 2, 4, 8, 16, 32], "repeats": 5},
         "paper": {**_TABLE1, "groups": [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 100], "repeats": 31}},
        {"smoke": 8, "laptop": 40, "paper": 240},
    ),
    Item(
        "03_network", "The whole network",
        "Appleyard et al. 2016, Table 1",
        "All optimisations together make a four-layer LSTM about eleven times faster on a Tesla M40 (second-hand).",
        _both("table1"), (*_M40, "recorded/**/*.json"),
        {"smoke": {**_TINY, "layers": 2}, "laptop": {**_TABLE1, "layers": 4, "repeats": 5},
         "paper": {**_TABLE1, "layers": 4, "repeats": 31}},
        {"smoke": 9, "laptop": 95, "paper": 600},
    ),
    Item(
        "04_network_sizes", "Across network sizes",
        "Appleyard et al. 2016, abstract",
        "The gain is an order of magnitude across a range of network sizes.",
        _both("network_sizes"), (),
        {"smoke": {"hidden_sizes": [16, 24], "batches": [2, 3], "layers": 2, "max_steps": 5, "min_steps": 2, "gflop_per_run": 0.01,
                   "repeats": 2},
         "laptop": {"hidden_sizes": [64, 128, 256, 512, 1024, 2048], "batches": [32, 64, 128], "layers": 4,
                    "max_steps": 100, "min_steps": 10, "gflop_per_run": 10.0, "repeats": 3},
         "paper": {"hidden_sizes": [64, 128, 256, 512, 1024, 2048], "batches": [32, 64, 128], "layers": 4,
                   "max_steps": 100, "min_steps": 100, "gflop_per_run": 1000.0, "repeats": 11}},
        {"smoke": 9, "laptop": 160, "paper": 3600},
    ),
    Item(
        "05_ablation", "Which optimisation does what",
        "beyond the papers: all 64 subsets of the optimisations",
        "The optimisations are independent: each subset computes the same, and each has an effect of its own.",
        (*_both("ablation"), "tables/ablation_subsets.csv", "tables/ablation_subsets.json"), (),
        {"smoke": {**_TINY, "layers": 2},
         "laptop": {"hidden_size": 256, "batch": 64, "steps": 20, "layers": 4, "repeats": 7},
         "paper": {**_TABLE1, "layers": 4, "repeats": 11}},
        {"smoke": 15, "laptop": 90, "paper": 3600},
    ),
    Item(
        "06_backward", "Backwards",
        "Appleyard et al. 2016, backward pass and weight update",
        "The weights' gradients of all steps can be one GEMM, since no step waits for them; the paper's own figures are not known.",
        _both("backward"), ("published/gtx1080_backward.csv", "published/m40_cudnn5.csv"),
        {"smoke": {**_TINY, "layers": 2}, "laptop": {**_TABLE1, "steps": 50, "layers": 4, "repeats": 3},
         "paper": {**_TABLE1, "layers": 4, "repeats": 31}},
        {"smoke": 12, "laptop": 90, "paper": 1800},
    ),
    Item(
        "07_cells", "Four cells on one ladder",
        "Appleyard et al. 2016, the four cells of cuDNN 5",
        "The optimisations are not the LSTM's alone: GRU and plain RNNs gain from them too.",
        _both("cells"), ("published/m40_cudnn5.csv",),
        {"smoke": {**_TINY, "layers": 2}, "laptop": {**_TABLE1, "steps": 20, "layers": 2, "repeats": 5},
         "paper": {**_TABLE1, "layers": 4, "repeats": 31}},
        {"smoke": 12, "laptop": 20, "paper": 1800},
    ),
    Item(
        "08_training", "Training on real data",
        "Appleyard et al. 2016, training",
        "Training takes weeks to months (abstract): the same losses come sooner when its parallelism is exposed.",
        _both("training"), (),
        {"smoke": {"window": 32, "layers": 2, "hidden_size": 12, "batch": 10, "epochs": 1, "most": 60},
         "laptop": {"window": 128, "layers": 2, "hidden_size": 64, "batch": 50, "epochs": 4, "most": 2000},
         "paper": {"window": 128, "layers": 4, "hidden_size": 256, "batch": 50, "epochs": 30, "most": 2000}},
        {"smoke": 10, "laptop": 20, "paper": 900},
    ),
    Item(
        "09_timeline", "A plan in time",
        "Appleyard et al. 2016, the pictures of streams and of the wavefront",
        "Streams run GEMMs side by side, fusing removes what is between them, and the wavefront keeps a diagonal of cells busy.",
        (*_both("timeline"), *_figure("timeline_streams"), *_figure("timeline_wavefront")), ("published/appleyard_m40.csv",),
        {"smoke": {"layers": 2, "steps": 4, "interactive": False},
         "laptop": {"layers": 4, "steps": 12, "interactive": False}, "paper": {"layers": 4, "steps": 12, "interactive": False}},
        {"smoke": 6, "laptop": 10, "paper": 10}, device="model:m40",
    ),
    Item(
        "10_model", "A model of the card, and what it predicts",
        "Appleyard et al. 2016, Table 1, on cards of then and now",
        "A four-layer LSTM becomes about eleven times faster on a Tesla M40 (second-hand); "
        "published times of other cards test what explains it.",
        (*_both("model", "model_deepbench", "model_rungs"), *_figure("model_roofline")),
        ("published/appleyard_m40.csv", "published/deepbench.csv", "published/m40_cudnn5.csv", "published/gtx1080_forward.csv"),
        {"smoke": {"tested": ["m40", "p100", "v100"], "every_cell": False, "modern": ["h200"], "hidden_sizes": [256, 1024], "steps": 6},
         "laptop": {"tested": ["m40", "titan_x_maxwell", "titan_x_pascal", "p100", "v100"], "every_cell": True,
                    "modern": ["v100", "a100", "h200"], "hidden_sizes": [64, 128, 256, 512, 1024, 2048, 4096], "steps": 20},
         "paper": {"tested": ["m40", "titan_x_maxwell", "titan_x_pascal", "p100", "v100"], "every_cell": True,
                   "modern": ["v100", "a100", "h200"], "hidden_sizes": [64, 128, 256, 512, 1024, 2048, 4096], "steps": 100}},
        {"smoke": 20, "laptop": 120, "paper": 400}, device="model:m40",
    ),
    Item(
        "11_mgrit", "Parallel along time",
        "Moon & Cyr 2022: the implicit GRU, multigrid in time, inexact gradients",
        "Training along time is up to 6.5 times faster than serial on HMDB51 (abstract; ranks unknown). Here: errors, steps, one machine.",
        (*_figure("mgrit_cell"), *_figure("mgrit_convergence"),
         *_table("mgrit_gradients"), *_table("mgrit_steps"), *_table("mgrit_time")), (),
        {"smoke": {"steps": 32, "hidden_size": 8, "batch": 2, "iterations": 4, "timed_steps": 64, "timed_hidden": [8, 12], "repeats": 2},
         "laptop": {"steps": 128, "hidden_size": 100, "batch": 20, "iterations": 5, "timed_steps": 2048,
                    "timed_hidden": [256, 512, 1024, 2048], "repeats": 3},
         "paper": {"steps": 128, "hidden_size": 100, "batch": 20, "iterations": 5, "timed_steps": 2048,
                   "timed_hidden": [128, 256, 512, 1024, 2048], "repeats": 11}},
        {"smoke": 9, "laptop": 60, "paper": 200},
    ),
)


def by_id(item_id: str) -> Item:
    """Return the item called `item_id`; `KeyError` if there is none."""
    return {item.id: item for item in ITEMS}[item_id]
