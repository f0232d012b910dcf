"""Which C++ compiler is taken, and what is said where there is none."""

import os

import pytest

from rnnopt.devices import DeviceUnavailable
from rnnopt.devices.host import compiler


@pytest.fixture
def search(monkeypatch):
    """Look for the compiler anew, before the test and after it."""
    compiler.find_compiler.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    compiler.find_compiler.cache_clear()


@pytest.fixture
def nothing_on_path(search, tmp_path):
    search.delenv("CXX", raising=False)
    search.setenv("PATH", str(tmp_path))
    return search


def script(path, text):
    path.write_text(text)
    path.chmod(0o700)
    return str(path)


def test_without_a_compiler_the_remedy_is_one_line(nothing_on_path):
    with pytest.raises(DeviceUnavailable, match="^no compiler; the host device needs .*apt install g.*xcode-select.*CXX$") as caught:
        compiler.find_compiler()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "text"), [
    ("absent", None), ("failing", "#!/bin/sh\nexit 1\n"), ("silent", "#!/bin/sh\nexit 0\n"), ("no program", "\0\1\2"),
    ("old", '#!/bin/sh\n[ "$1" = --version ] && { echo "old C++ 3.4"; exit 0; }\necho "unrecognized -std=c++20" >&2; exit 1\n')])
def test_a_compiler_named_by_cxx_that_does_not_work_is_said_by_name(nothing_on_path, tmp_path, name, text):
    command = tmp_path / name.replace(" ", "-")
    if text is not None:
        script(command, text)
    nothing_on_path.setenv("CXX", str(command))
    with pytest.raises(DeviceUnavailable, match=f"^CXX={command} does not work; .*install g"):
        compiler.find_compiler()


def test_one_that_does_not_work_on_the_path_is_passed_over(search, tmp_path):
    search.delenv("CXX", raising=False)
    real = compiler.find_compiler().command[0]
    compiler.find_compiler.cache_clear()
    script(tmp_path / "c++", "#!/bin/sh\nexit 1\n")
    (tmp_path / "g++").symlink_to(real)
    search.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert compiler.find_compiler().command == (str(tmp_path / "g++"),)


def test_cxx_may_hold_options(search):
    real = compiler.find_compiler().command[0]
    compiler.find_compiler.cache_clear()
    search.setenv("CXX", f"{real} -DEXTRA=1")
    found = compiler.find_compiler()
    assert found.command == (real, "-DEXTRA=1")
    assert found.version
    assert set(compiler.FLAGS) <= set(found.flags)


def test_the_cpu_is_described():
    assert len(compiler.cpu()) > 3
    assert "\n" not in compiler.cpu()
