"""Commands, exit statuses, and one line for each error."""

import importlib.metadata
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

import rnnopt
from rnnopt import artifacts, cli, devices, reproduce


@pytest.fixture
def call(capsys, tmp_path):
    """Call the command line; return exit status, output, and errors."""

    def call(*arguments):
        try:
            status = cli.main(list(arguments))
        except SystemExit as end:
            status = end.code
        return status, *capsys.readouterr()

    return call


def test_version_is_that_of_the_package(call):
    assert call("--version") == (0, f"rnnopt {rnnopt.__version__}\n", "")
    assert importlib.metadata.version("rnnopt") == rnnopt.__version__


@pytest.mark.parametrize("arguments", [
    [], ["reprodcue"], ["reproduce", "--preset", "smal"], ["reproduce", "--device", "gpu"], ["reproduce", "--only"], ["list", "x"]])
def test_wrong_usage_is_one_line_and_status_2(call, arguments):
    status, out, errors = call(*arguments)
    assert (status, out) == (2, "")
    assert len(errors.splitlines()) == 1
    assert errors.startswith("rnnopt")
    assert "--help" in errors


def test_unknown_item_is_one_line_with_the_nearest(call, tmp_path):
    status, _, errors = call("reproduce", "--only", "03_netwrok", "--build", str(tmp_path))
    assert status == 2
    assert errors == "rnnopt: there is no item '03_netwrok': did you mean '03_network'?\n"


def test_missing_device_is_one_line_with_its_remedy_and_nothing_is_made(call, tmp_path, monkeypatch):
    def resolve(name):
        raise devices.DeviceUnavailable(f"no {name} here: install it")

    monkeypatch.setattr(devices, "resolve", resolve)
    status, out, errors = call("reproduce", "--device", "cuda", "--build", str(tmp_path / "b"))
    assert (status, out, errors) == (2, "", "rnnopt: no cuda here: install it\n")
    assert not (tmp_path / "b").exists()


def test_unwritable_build_folder_is_one_line(call, tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "resolve", lambda name: SimpleNamespace(name="toy", reason="", describe=dict))
    (tmp_path / "file").touch()
    status, _, errors = call("reproduce", "--build", str(tmp_path / "file"))
    assert status == 2
    assert len(errors.splitlines()) == 1
    assert "--build" in errors


@pytest.mark.parametrize("wanted", [["01", "02"], ["01 02"], ["01,02"], ["01, 02"]])
def test_several_items_may_come_as_words_or_as_one(call, monkeypatch, wanted):
    given = {}
    monkeypatch.setattr(reproduce, "reproduce", lambda *_, **options: given.update(options) or 0)
    assert call("reproduce", "--only", *wanted)[0] == 0
    assert given["only"] == ["01", "02"]


def test_laptop_and_auto_are_the_defaults(call, monkeypatch):
    given = {}
    monkeypatch.setattr(reproduce, "reproduce", lambda *_, **options: given.update(options) or 0)
    call("reproduce")
    assert (given["preset"], given["device"], given["only"], given["force"]) == ("laptop", "auto", [], False)


def test_list_names_every_item_what_it_makes_and_its_state(call, tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "resolve", lambda name: SimpleNamespace(name="toy", reason="", describe=dict))
    for arguments in (["list"], ["reproduce", "--list"]):
        status, out, _ = call(*arguments, "--build", str(tmp_path))
        assert status == 0
        for item in artifacts.ITEMS:
            assert f"{item.id}: {item.title}" in out
        assert "figures/table1 (svg, pdf, png), tables/table1 (csv, json)" in out
        assert out.count("state  not made yet") == len(artifacts.ITEMS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signal_ends_the_run_with_the_shells_status(number):
    # Whoever started the tests may have had the signal ignored (nohup), and children inherit that.
    default = "signal.default_int_handler" if number == signal.SIGINT else "signal.SIG_DFL"
    code = ("import os, signal, sys; from rnnopt import cli, reproduce\n"
            f"signal.signal({number.value}, {default})\n"
            f"reproduce.reproduce = lambda *_, **__: os.kill(os.getpid(), {number.value}) or __import__('time').sleep(60)\n"
            "sys.exit(cli.main(['reproduce']))")
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (answer.returncode, answer.stderr) == (128 + number, "")


def test_reader_that_goes_away_is_no_error():
    command = [sys.executable, "-c", "import os, sys; from rnnopt import cli, reproduce\nos.close(1); os.open(os.devnull, os.O_RDONLY)\n"
               "def gone(*_, **__): raise BrokenPipeError\nreproduce.reproduce = gone\nsys.exit(cli.main(['reproduce']))"]
    answer = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    assert (answer.returncode, answer.stderr) == (128 + signal.SIGPIPE, "")


def test_module_runs_as_a_program_from_any_folder(tmp_path):
    answer = subprocess.run([sys.executable, "-m", "rnnopt", "--version"], cwd=tmp_path, capture_output=True, text=True,
                            env={**os.environ, "LC_ALL": "C"})
    assert answer.stdout == f"rnnopt {rnnopt.__version__}\n"


def test_paper_says_where_it_put_the_pdf(call, tmp_path, monkeypatch):
    from rnnopt import paper

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(paper, "build", lambda folder: tmp_path / folder / "paper.pdf")
    assert call("paper", "--build", "here") == (0, "here/paper.pdf\n", "")
