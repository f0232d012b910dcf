"""The paper is typeset from what the notebooks made, says where it was measured, and holds no number of its own."""

import csv
import json
import re
import shutil
import sys
import warnings
from itertools import combinations

import pytest

from rnnopt import LADDER, SWITCHES, TRAINING_LADDER, artifacts, paper, paths, provenance
from rnnopt.figures import CELL_LABELS, STAGE_LABELS
from rnnopt.reproduce import stamp
from rnnopt.reproduce.project import Project

DEVICE = "Test CPU (host, 3 cores)"
SOURCE = paths.checkout_root() / "paper"
STAGES = [STAGE_LABELS[stage] for stage in LADDER]

#: Columns of each table, as the notebooks name them.
COLUMNS = {
    "single_cell": ["stage", "GEMMs per cell", "operations per cell", "operations per cell, NVIDIA's sample (derived)", "speed-up"],
    "single_layer": ["stage", "GFLOP/s"],
    "table1": ["stage", "M40 × (second-hand)", "M40 GFLOP/s (derived)", "operations per cell, NVIDIA's sample (derived)",
               "operations per cell", "1 layer: GFLOP/s", "1 layer: ×", "2 layers: GFLOP/s", "2 layers: ×"],
    "network_sizes": ["batch", "hidden", "speed-up"],
    "ablation": ["switch", "main effect", "alone", "worst company", "best company"],
    "ablation_subsets": ["label", "speedup"],
    "backward": ["stage", "backward: GEMMs per cell", "forward: ×", "data: ×", "weights: ×", "backward: ×", "step: ×", "step: GFLOP/s"],
    "cells": ["cell", "naive: operations per cell", "optimised: operations per cell", "forward: GFLOP/s", "forward: ×",
              "backward: GFLOP/s", "step: ms", "step: ×"],
    "training": ["stage", "seconds", "mean loss of the last epoch", "accuracy, people held out"],
    "timeline": ["stage"],
    "model": ["stage", "error"],
    "model_deepbench": ["card", "cell", "pass", "median", "largest"],
    "model_rungs": ["card", "gain"],
}
KERNEL = "lstm.cu"
ROWS = {
    "single_cell": STAGES[:4],
    "single_layer": ["Fused pointwise", "Batched inputs, k = 1", "Batched inputs, k = 2"],
    "table1": STAGES,
    "network_sizes": [(2, 8), (2, 16), (3, 8), (3, 16)],
    "ablation": STAGES[1:],
    "ablation_subsets": ["+".join(some) or "naive" for size in range(7) for some in combinations(SWITCHES, size)],
    "backward": [STAGE_LABELS[stage] for stage in TRAINING_LADDER],
    "cells": list(CELL_LABELS.values()),
    "training": ["naive", "fully optimised"],
    "timeline": STAGES,
    "model": STAGES,
    "model_deepbench": [("p100", "lstm", "forward"), ("v100", "lstm", "forward")],
    "model_rungs": ["h200"],
}


def write_table(build, name, columns=None, **about):
    columns = columns or COLUMNS[name]
    with open(build / "tables" / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(columns)
        for number, row in enumerate(ROWS[name]):
            first = list(row) if isinstance(row, tuple) else [row]
            table.writerow(first + [1.25 + number] * (len(columns) - len(first)))
    about = {"caption": "A test.", "records": ["k0"], "devices": [DEVICE], "dates": ["2024-02-29"], **about}
    (build / "tables" / f"{name}.json").write_text(json.dumps(about))


def stamp_items(build):
    """Stamp all items as the runner does when they are done."""
    project = Project(root=paths.checkout_root(), build=build, package=paths.checkout_root() / "rnnopt")
    for item in artifacts.ITEMS:
        files = [name for name in (*item.outputs, "records/k0.json") if (build / name).is_file()]
        paths.atomic_write(project.stamp(item), json.dumps({
            "status": "done", "preset": "smoke", "inputs": stamp.inputs(project, item, {"repeats": 2}, {"device": "host"}),
            "kernels": {KERNEL: stamp.kernel_hash(project, KERNEL)}, "noted_data": {},
            "files": {name: provenance.sha256_file(build / name) for name in files},
            "figures": {name: "Some bars." for name in files if name.endswith(".svg")},
        }))


@pytest.fixture(autouse=True)
def unchanged_package(monkeypatch):
    """Whether the package is newer than its results is for the tests of stamps; here it never is, even while it is edited."""
    monkeypatch.setattr(stamp, "package_hashes", lambda folder: {})


@pytest.fixture
def build(tmp_path):
    """A build folder as the runner leaves it, the smallest that the paper can be made of."""
    result = {"error": 2e-7, "speedup": 1.5}
    record = {
        "key": "k0", "protocol": {"repeats": 7}, "environment": {"git": {"commit": "0" * 40, "dirty": False}},
        "spec": {"hidden_size": 16, "batch": 2, "steps": 5, "layers": 2},
        "device": {"device": "host", "what": "Test CPU", "cores": 3}, "networks": dict.fromkeys(LADDER, result),
    }
    for folder in ("tables", "records", "figures"):
        (tmp_path / folder).mkdir()
    for name in COLUMNS:
        write_table(tmp_path, name)
        (tmp_path / "figures" / f"{name}.svg").write_text(
            '<svg xmlns="http://www.w3.org/2000/svg" width="99pt" height="40pt">'
            f'<text x="5" y="20" style="font-size: 9px; font-family: \'DejaVu Sans\', sans-serif">{name} ×</text></svg>')
    (tmp_path / "records" / "k0.json").write_text(json.dumps(record))
    stamp_items(tmp_path)
    return tmp_path


@pytest.fixture
def source(tmp_path_factory):
    """A copy of the paper's source, to make mistakes in."""
    return shutil.copytree(SOURCE, tmp_path_factory.mktemp("source") / "paper")


def pages(pdf):
    return int(re.search(rb"<xmpTPg:NPages>(\d+)<", pdf)[1])


def said(build):
    """The text of each figure and table with its caption, as Typst resolved it."""
    found = []

    def query(typst, stage, timestamp):
        found.extend(json.loads(typst.Compiler(str(stage / "main.typ"), root=str(stage)).query("figure")))
        return b""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper, "_compile", query)
        paper.build(build)
    return ["".join(texts(figure)) for figure in found]


def texts(node):
    """All pieces of text in a tree of Typst's content."""
    if isinstance(node, dict):
        if node.get("func") == "space":
            yield " "
        yield from (node[key] for key in ("text", "alt") if isinstance(node.get(key), str))
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from texts(inner)


def test_paper_is_typeset_from_the_smallest_artefacts(build):
    path = paper.build(build)
    pdf = path.read_bytes()
    assert path == build / "paper" / "rnnopt.pdf"
    assert pdf.startswith(b"%PDF-")
    assert pages(pdf) >= 2
    # In the file's description, which isn't compressed.
    assert DEVICE.encode() in pdf


def test_figures_are_drawn_in_the_font_that_they_were_laid_out_with(build):
    assert re.search(rb"/BaseFont/[A-Z]{6}\+DejaVuSans/", paper.build(build).read_bytes())


def test_every_figure_and_table_names_device_and_date(build):
    figures = said(build)
    measured = [figure for figure in figures if "What measured" not in figure]
    assert len(measured) == len(figures) - 1 >= 8
    for figure in measured:
        assert DEVICE in figure
        assert "2024-02-29" in figure


def test_every_picture_has_the_alternative_text_of_its_notebook(build):
    assert sum("Some bars." in figure for figure in said(build)) == 12


def test_published_numbers_are_marked_as_second_hand(build):
    table, = (figure for figure in said(build) if "LSTM.cu" in figure)
    assert "Second-hand" in table
    assert "Shubodh/Optimizing-LSTMs-on-GPU" in table


def test_recorded_columns_are_shown_with_their_device(build):
    write_table(build, "table1", [*COLUMNS["table1"], "recorded, Other card (cuda), 2 layers: ×"])
    stamp_items(build)
    table, = (figure for figure in said(build) if "LSTM.cu" in figure)
    assert "Other card (cuda), 2 layers: ×" in table
    paper.build(build)


def test_same_inputs_give_the_same_bytes(build, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    first = paper.build(build).read_bytes()
    assert paper.build(build).read_bytes() == first
    assert b"D:20240229000000Z" in first  # the day of the last measurement


@pytest.mark.parametrize(("name", "item"), [("tables/table1.csv", "03_network"), ("tables/ablation.json", "05_ablation"),
                                            ("figures/network_sizes.svg", "04_network_sizes")])
def test_missing_artefact_is_named_with_the_command_that_makes_it(build, name, item):
    (build / name).unlink()
    with pytest.raises(paper.PaperError, match=rf" {item} \({name} is missing\): run `make reproduce`"):
        paper.build(build)


def test_changed_artefact_is_stale(build):
    write_table(build, "ablation", devices=["A faster one"])
    with pytest.raises(paper.PaperError, match=r" 05_ablation \(tables/ablation.json was changed\): run `make reproduce`"):
        paper.build(build)


def test_results_of_an_older_kernel_are_stale(build):
    path = build / "items" / "03_network.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "kernels": {KERNEL: "of another day"}}))
    with pytest.raises(paper.PaperError, match=rf" 03_network \(kernel {KERNEL} changed\): run `make reproduce`"):
        paper.build(build)


def test_empty_build_folder_is_one_sentence(tmp_path):
    with pytest.raises(paper.PaperError, match=r" 01_single_cell, .*, 10_model \(not made yet\): run `make") as caught:
        paper.build(tmp_path)
    assert "\n" not in str(caught.value)


def test_missing_record_is_named(build):
    write_table(build, "ablation", records=["k1"])
    stamp_items(build)
    with pytest.raises(paper.PaperError, match=r"records/k1.json of a table is missing: run `make reproduce`"):
        paper.build(build)


def test_table_without_a_device_is_refused(build):
    write_table(build, "ablation", devices=[])
    stamp_items(build)
    with pytest.raises(paper.PaperError, match=r"tables/ablation.json .*which device"):
        paper.build(build)


def test_table_that_no_notebook_makes_is_refused(build, source):
    main = source / "main.typ"
    main.write_text(main.read_text(encoding="utf-8") + '\n#load("nothing")\n', encoding="utf-8")
    with pytest.raises(paper.PaperError, match=r"tables/nothing\.(csv|json), which no item"):
        paper.build(build, source)


def test_missing_column_is_named(build):
    write_table(build, "ablation", ["switch", "main", "alone", "worst company", "best company"])
    stamp_items(build)
    with pytest.raises(paper.PaperError, match="table ablation has no column 'main effect'"):
        paper.build(build)


def test_mistake_in_the_text_is_reported_with_file_and_line(build, source):
    main = source / "main.typ"
    lines = main.read_text(encoding="utf-8").splitlines()
    main.write_text("\n".join([*lines, "#nowhere"]), encoding="utf-8")
    before = paper.build(build).read_bytes()
    with pytest.raises(paper.PaperError, match=rf"paper/main.typ:{len(lines) + 1}: unknown variable: nowhere"):
        paper.build(build, source)
    assert (build / paper.RESULT).read_bytes() == before, "a failure must leave the last paper"


def test_unknown_font_is_a_warning_with_file_and_line(build, source):
    template = source / "template.typ"
    template.write_text(template.read_text(encoding="utf-8").replace("Libertinus Serif", "Nobody's Hand"), encoding="utf-8")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        paper.build(build, source)
    assert re.match(r"paper/template.typ:\d+: unknown font family: nobody's hand", str(caught[0].message))


def test_missing_typst_is_one_line_with_its_remedy(build, monkeypatch):
    monkeypatch.setitem(sys.modules, "typst", None)
    with pytest.raises(paper.PaperError, match="`make env`") as caught:
        paper.build(build)
    assert "\n" not in str(caught.value)


def test_missing_source_is_one_line(build, tmp_path):
    with pytest.raises(paper.PaperError, match=r"main.typ can't be read"):
        paper.build(build, tmp_path / "nowhere")


def test_no_package_is_fetched():
    assert not [path for path in SOURCE.glob("*.typ") if "@preview" in path.read_text(encoding="utf-8")]


def typed_numbers(text):
    """Numbers that stand in the text itself: no part of a name such as float64 or table1, no comment."""
    text = re.sub(r"(?m)^\s*//.*$", "", text)
    return re.findall(r"(?<![\w.])\d+(?:[.,]\d+)*", text)


#: The FLOP rule, an index of the recurrence, names of a card and of a library, a width.
ALLOWED = {"8", "2", "1", "1080", "5", "85"}


def test_no_result_is_typed_into_the_text():
    assert set(typed_numbers((SOURCE / "main.typ").read_text(encoding="utf-8"))) <= ALLOWED


def test_typed_results_would_be_found():
    assert typed_numbers("is 2.55 × as fast, float64, @table1\n// 3.5\nat hidden 512") == ["2.55", "512"]


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_that_the_paper_reads_are_those_that_a_notebook_writes(name):
    sources = ["".join("".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"])
               for path in paths.notebooks_dir().glob("*.ipynb")]
    source, = (text for text in sources if f', "{name}", ' in text and "tables.save" in text and f'save({name}' not in text)
    for column in COLUMNS[name]:
        written = re.sub("^(forward|data|weights|backward|step):", "{key}:", re.sub("^2 layers", "{layers} layers", column))
        assert f'"{column}"' in source or f'"{written}"' in source
