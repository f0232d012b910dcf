"""The build cache: what is in it is whole, belongs to what was asked for, and is repaired."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from helpers import host

from rnnopt.devices.host import compiler

SOURCE = 'extern "C" int answer() { return 42; }\n'


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, for this process and those it starts."""
    host()
    folder = tmp_path / "cache"
    monkeypatch.setenv("RNNOPT_CACHE", str(folder))
    return folder


def answer(library):
    """What the library says; it is copied first, since a loaded one would be found again by its path."""
    copy = library.with_name(f"copy-{time.monotonic_ns()}.so")
    shutil.copy(library, copy)
    try:
        return ctypes.CDLL(str(copy)).answer()
    finally:
        copy.unlink()


def build(source=SOURCE, **headers):
    return compiler.build("demo", source, headers)


def entries(cache):
    return sorted(path.name for path in (cache / "host").iterdir())


def test_a_build_is_found_again_and_not_made_again(cache, monkeypatch):
    library = build()
    assert answer(library) == 42
    with monkeypatch.context() as context:
        context.setattr(compiler, "_build", lambda *_: pytest.fail("built again"))
        assert build() == library
    assert entries(cache) == [library.parent.name]
    assert sorted(path.name for path in library.parent.iterdir()) == ["demo.so", "sha256"]


def test_headers_are_found_and_a_program_can_be_built(cache):
    library = build('#include "value.h"\nextern "C" int answer() { return VALUE; }\n', **{"value.h": "#define VALUE 7\n"})
    assert answer(library) == 7
    program = compiler.build("program", "int main() { return 3; }", {}, flags=("-O0",))
    assert program.name == "program"
    assert subprocess.run([program]).returncode == 3


def test_whatever_decides_the_content_changes_the_entry(cache, monkeypatch):
    found = compiler.find_compiler()
    made = [build(), build(SOURCE + "\n"), build(**{"a.h": "1"}), build(**{"a.h": "2"}), build(**{"b.h": "1"}),
            compiler.build("demo", SOURCE, {}, (*compiler.FLAGS, "-O1")), compiler.build("other", SOURCE, {})]
    wrapper = cache / "another-compiler"
    wrapper.write_text(f'#!/bin/sh\nexec "{found.command[0]}" "$@"\n')
    wrapper.chmod(0o700)
    for other in (replace(found, version="another"), replace(found, flags=(*found.flags, "-O1")),
                  replace(found, command=(str(wrapper), *found.command[1:]))):
        with monkeypatch.context() as context:
            context.setattr(compiler, "find_compiler", lambda other=other: other)
            made.append(build())
    with monkeypatch.context() as context:
        context.setattr(compiler, "cpu", lambda: "another CPU")
        made.append(build())
    assert len({library.parent for library in made}) == len(made)
    assert all(answer(library) == 42 for library in made)


def truncate(path, keep=0.5):
    path.write_bytes(path.read_bytes()[:int(keep * path.stat().st_size)])


@pytest.mark.parametrize("spoil", [
    lambda entry: truncate(entry / "demo.so"),
    lambda entry: truncate(entry / "demo.so", 0),
    lambda entry: truncate(entry / "sha256"),
    lambda entry: truncate(entry / "sha256", 0),
    lambda entry: (entry / "sha256").write_bytes(b"\xff\xfe" * 32),
    lambda entry: (entry / "sha256").unlink(),
    lambda entry: (entry / "demo.so").unlink(),
    lambda entry: (entry / "demo.so").write_bytes(b"\0" * (entry / "demo.so").stat().st_size),
    lambda entry: [path.unlink() for path in entry.iterdir()],
    lambda entry: (shutil.rmtree(entry), entry.write_text("a file, not a folder")),
    lambda entry: ((entry / "demo.so").unlink(), (entry / "demo.so").mkdir()),
    lambda entry: shutil.rmtree(entry),
], ids=["truncated library", "empty library", "truncated checksum", "empty checksum", "garbled checksum", "no checksum",
        "no library", "zeroed library", "empty entry", "file as entry", "folder as library", "no entry"])
def test_a_broken_entry_is_rebuilt(cache, spoil):
    library = build()
    spoil(library.parent)
    assert build() == library
    assert answer(library) == 42
    assert entries(cache) == [library.parent.name]


def in_processes(count, cache):
    script = dedent(f"""
        import ctypes
        from rnnopt.devices.host import compiler
        print(ctypes.CDLL(str(compiler.build("demo", {SOURCE!r}, {{}}))).answer())
    """)
    started = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
               for _ in range(count)]
    return [process.communicate(timeout=120) for process in started]


@pytest.mark.parametrize("before", ["nothing", "a truncated library"])
def test_processes_that_build_at_once_all_get_a_whole_library(cache, before):
    if before != "nothing":
        truncate(build())
    assert in_processes(4, cache) == [("42\n", "")] * 4
    assert len(entries(cache)) == 1


@pytest.mark.parametrize("other", ["has put a whole one there", "has moved the broken one away"])
def test_builders_that_repair_at_the_same_moment_end_with_a_whole_entry(cache, monkeypatch, other):
    """One is about to move the broken entry away, and another was just faster."""
    library = build()
    truncate(library)
    right, done = os.rename, []

    def late(source, target):
        if Path(source) == library.parent and not done:
            done.append(other)
            if other == "has put a whole one there":
                build()
            else:
                shutil.rmtree(library.parent)
        right(source, target)
    monkeypatch.setattr(os, "rename", late)
    assert build() == library
    assert done == [other]
    assert answer(library) == 42
    assert entries(cache) == [library.parent.name]


def test_a_builder_that_is_killed_leaves_nothing_that_matters(cache, tmp_path):
    found = compiler.find_compiler()
    slow = tmp_path / "slow-compiler"
    slow.write_text(f'#!/bin/sh\ncase "$*" in *" -o "*) sleep 60;; esac\nexec "{found.command[0]}" "$@"\n')
    slow.chmod(0o700)
    script = f"from rnnopt.devices.host import compiler; compiler.build('demo', {SOURCE!r}, {{}})"
    process = subprocess.Popen([sys.executable, "-c", script], env=os.environ | {"CXX": str(slow)}, start_new_session=True)
    deadline = time.monotonic() + 60
    while not list(cache.glob("host/.building-*/demo.cpp")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    left = entries(cache)
    assert [name.startswith(".building-") for name in left] == [True]
    library = build()
    assert answer(library) == 42
    assert entries(cache) == sorted([*left, library.parent.name])


def test_an_error_names_the_file_and_shows_its_first_lines_and_leaves_nothing(cache):
    with pytest.raises(compiler.BuildError) as caught:
        build("int x;\nint broken( {\n" + "undeclared();\n" * 100)
    message = str(caught.value)
    assert compiler.find_compiler().command[0] in message.splitlines()[0]
    assert "demo" in message.splitlines()[0]
    assert "demo.cpp:2:" in message
    assert len(message.splitlines()) <= 13
    assert entries(cache) == []
    with pytest.raises(compiler.BuildError, match=r"kernel\.cu:1:"):
        build('#include "kernel.cu"\n', **{"kernel.cu": "not a kernel\n"})


def test_the_cache_can_be_written_by_its_owner_only(cache):
    previous = os.umask(0)
    try:
        library = build()
    finally:
        os.umask(previous)
    for folder in (cache, cache / "host"):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert library.parent.is_relative_to(cache)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_cache_that_others_can_write_is_refused(cache, mode):
    """Else they could have this process run what they put there."""
    build()
    cache.chmod(mode)
    with pytest.raises(PermissionError, match="can be written by others"):
        build()


def test_a_cache_that_cannot_be_made_is_an_error_that_names_it(cache, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RNNOPT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(OSError, match="file/cache"):
        build()
