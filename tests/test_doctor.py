"""Every probe gets its line, whatever happens to the others."""

import pytest

from rnnopt import doctor


def found():
    return "found"


def missing():
    raise doctor.Missing("not here:\n install it")


def broken():
    raise ZeroDivisionError


def test_optional_things_may_be_missing(capsys):
    assert doctor.main([("one", found, None), ("two", missing, "it is slow")]) == 0
    one, two, last = capsys.readouterr().out.splitlines()
    assert one.split() == ["one", "OK", "found"]
    assert two.split(maxsplit=2) == ["two", "missing", "not here: install it (without it it is slow)"]
    assert last == "all that is required is there"


@pytest.mark.parametrize(("probe", "text"), [(missing, "not here: install it"), (broken, "ZeroDivisionError")])
def test_required_thing_that_is_missing_or_broken_fails_and_stops_nothing(capsys, probe, text):
    assert doctor.main([("one", probe, None), ("two", found, None)]) == 1
    one, two, _ = capsys.readouterr().out.splitlines()
    assert one.split(maxsplit=2) == ["one", "MISSING", text]
    assert two.split() == ["two", "OK", "found"]


def test_this_machine_has_what_is_required_and_each_line_is_one(capsys):
    assert doctor.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(doctor.PROBES) + 1
    assert all(line.split(" ")[0] for line in lines)


def test_no_compiler_is_explained_and_not_fatal(monkeypatch, capsys):
    from rnnopt.devices.host import compiler

    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    compiler.find_compiler.cache_clear()
    try:
        assert doctor.main([(name, probe, without) for name, probe, without in doctor.PROBES if name == "compiler"]) == 0
    finally:
        compiler.find_compiler.cache_clear()
    assert "the package runs on the NumPy reference" in capsys.readouterr().out
