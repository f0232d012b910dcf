"""What a run makes, what it leaves alone, and what it says when something fails."""

import errno
import io
import json
import os
import re
from dataclasses import replace

import pytest
import toy

from rnnopt import paths, reproduce
from rnnopt.reproduce import progress, stamp
from rnnopt.reproduce.run import Run

PARAMETERS = toy.cell(toy.PARAMETERS, "parameters")


def executed(project, name):
    return json.loads((project.build / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))


def test_a_run_makes_every_file_and_says_so_line_by_line(finished_once, finished):
    _, status, text = finished_once
    assert status == 0
    assert (finished.build / "tables" / "one.csv").read_text() == "3 steps on auto"
    lines = text.splitlines()
    assert "[1/2] one  started (not made yet; estimate 5 s)" in lines
    assert any(re.fullmatch(r"\[2/2\] two  done in \d+ s  \(estimate 5 s\)", line) for line in lines)
    assert re.match("2 items done; report: .*index.html$", lines[-1])
    assert "\x1b" not in text
    assert "\r" not in text


def test_second_run_does_nothing_and_says_so(finished, run, monkeypatch):
    monkeypatch.setattr(Run, "execute", lambda *_: pytest.fail("executed a notebook"))
    before = {path: path.stat().st_mtime_ns for path in finished.build.rglob("*") if path.is_file() and path.name != ".lock"}
    status, text = run([toy.ONE, toy.TWO])
    assert status == 0
    assert text.startswith("nothing to do: 2 items up to date")
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_executed_copy_names_the_kernel_that_ran_and_no_path(finished):
    notebook = executed(finished, "one")
    version = notebook["metadata"]["language_info"]["version"]
    assert notebook["metadata"]["kernelspec"] == {
        "name": "python3", "display_name": f"Python {version}", "language": "python"}
    assert str(finished.root.parent.parent) not in json.dumps(notebook["metadata"])


def test_report_shows_outputs_and_parameters_but_no_code(finished):
    page = (finished.build / "report" / "one.html").read_text(encoding="utf-8")
    assert "made 3 of one" in page
    assert re.search("<code>steps</code></td><td>3</td><td>how many</td>", page)
    assert "import hashlib" not in page
    assert "# Parameters" not in page
    assert 'alt="x_t"' in page, "a formula is a picture, and needs neither script nor network"
    assert "<script" not in page


def test_index_lists_items_with_links_and_escapes_their_texts(finished):
    page = (finished.build / "report" / "index.html").read_text(encoding="utf-8")
    assert '<img src="../figures/one.png" alt="a &lt; b">' in page
    assert "2 &lt; 3" in page
    for target in re.findall('href="([^"]+)"', page):
        assert (finished.build / "report" / target).exists(), target


def test_failing_cell_is_named_and_the_others_go_on(project, run):
    toy.write(project.root, "bad", toy.notebook(PARAMETERS, toy.cell("good = 1"), toy.cell("wrong = 1\nwrong / 0\n")))
    status, text = run([toy.item("bad"), toy.TWO])
    assert status == 1
    assert re.search(r"notebook .*bad\.ipynb, cell 3 of 3\n", text)
    assert "ZeroDivisionError: division by zero" in text
    assert "----> 2 wrong / 0" in text
    assert "\x1b" not in text
    assert executed(project, "bad.partial")["cells"][3]["outputs"][0]["ename"] == "ZeroDivisionError"
    assert re.search("again .*reproduce --preset laptop --only bad", text)
    assert text.splitlines()[-1].startswith("1 item done; 1 item failed: bad; report: ")

    toy.write(project.root, "bad", toy.good("bad", []))
    status, text = run([toy.item("bad"), toy.TWO])
    assert status == 0
    assert "bad  started (failed last time" in text
    assert "two  up to date" in text
    assert not project.partial(toy.item("bad")).exists()


def test_dead_kernel_is_explained(project, run):
    toy.write(project.root, "dead", toy.notebook(PARAMETERS, toy.cell("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")))
    status, text = run([toy.item("dead")])
    assert status == 1
    assert "the kernel died: signal 9, SIGKILL (killed, most often by the system for want of memory; " in text
    assert "--preset smoke" in text
    assert "dead.ipynb, cell 2 of 2" in text


def test_item_that_misses_a_promised_file_has_failed(project, run):
    status, text = run([replace(toy.TWO, outputs=("tables/other.csv",))])
    assert status == 1
    assert "did not make tables/other.csv" in text


def test_full_disk_in_a_notebook_is_one_line_and_stops_the_run(project, run):
    source = "import errno\nraise OSError(errno.ENOSPC, 'the disk is full: free some space and run again; not written', 'x.csv')"
    toy.write(project.root, "full", toy.notebook(PARAMETERS, toy.cell(source)))
    status, text = run([toy.item("full"), toy.TWO])
    assert status == 1
    stopped = [line for line in text.splitlines() if line.startswith("stopped: ")]
    assert len(stopped) == 1
    assert "the disk is full" in stopped[0]
    assert not project.executed(toy.TWO).exists()


def test_full_disk_of_the_runner_keeps_what_is_finished(finished, run, monkeypatch):
    write = paths.atomic_write

    def full(path, content):
        if "two" in str(path):
            raise OSError(errno.ENOSPC, "the disk is full: free some space and run again; not written", str(path))
        return write(path, content)

    monkeypatch.setattr(paths, "atomic_write", full)
    finished.executed(toy.TWO).unlink()
    status, text = run([toy.ONE, toy.TWO])
    assert status == 1
    assert sum("the disk is full" in line for line in text.splitlines()) == 1
    monkeypatch.undo()
    assert stamp.read(finished, toy.ONE)["status"] == stamp.DONE


def test_force_measures_anew(finished, monkeypatch, run):
    seen = []
    monkeypatch.setattr(Run, "execute", lambda self, task: seen.append(
        (task.item.id, (finished.build / "records" / "one.json").exists())) or {"event": "done"})
    run([toy.ONE, toy.TWO], only=["one"], force=True)
    assert seen == [("one", False)]


def test_device_that_is_missing_stops_before_anything_runs(project):
    from rnnopt.devices import DeviceUnavailable

    def resolve(name):
        raise DeviceUnavailable(f"no {name}: install it")

    with pytest.raises(DeviceUnavailable, match="no cuda: install it"):
        reproduce.reproduce(project, [toy.ONE], device="cuda", resolve=resolve)
    assert not project.build.exists()


@pytest.mark.parametrize(("wanted", "found"), [
    ([], ["01_cell", "02_layer", "12_more"]), (["02"], ["02_layer"]), (["12_more", "01_cell"], ["01_cell", "12_more"])])
def test_items_are_selected_by_name_or_its_head(wanted, found):
    items = [toy.item(name) for name in ("01_cell", "02_layer", "12_more")]
    assert [item.id for item in reproduce.select(items, wanted)] == found


@pytest.mark.parametrize(("wanted", "message"), [
    ("01_sell", "did you mean '01_cell'"), ("0", "01_cell or 02_layer"), ("table", "there are 01_cell, 02_layer")])
def test_item_that_is_unknown_or_unclear_is_refused_with_names(wanted, message):
    with pytest.raises(reproduce.CannotStart, match=message):
        reproduce.select([toy.item(name) for name in ("01_cell", "02_layer")], [wanted])


def test_terminal_gets_one_changing_line_no_wider_than_itself(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    out = Terminal()
    shown = progress.Progress(out, 1)
    shown.start(1, "an_item", "not made yet", 60)
    shown.cell(3, 12)
    shown.finish("done in")
    parts = out.getvalue().split("\r\x1b[K")
    assert parts[2] == "[1/1] an_item  cell 3 of 12  0 s of abo"
    assert parts[-1] == "[1/1] an_item  done in 0 s  (estimate 1 min 0 s)\n"


def test_another_kernel_named_in_the_notebook_or_registered_by_a_user_is_not_used(project, run, tmp_path, monkeypatch):
    foreign = tmp_path / "share" / "kernels" / "python3"
    foreign.mkdir(parents=True)
    (foreign / "kernel.json").write_text('{"argv": ["false"], "display_name": "Foreign", "language": "python"}')
    startup = tmp_path / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00.py").write_text("raise SystemExit('a user\\'s start-up file ran')")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("HOME", os.devnull)
    status, text = run([toy.TWO])
    assert status == 0, text
