"""Folders are found or refused in words; files are whole or not there."""

import errno
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import platformdirs
import pytest

from rnnopt import paths


def test_checkout_is_the_folder_with_the_notebooks():
    assert (paths.checkout_root() / "notebooks").is_dir()
    assert paths.notebooks_dir() == paths.checkout_root() / "notebooks"
    assert paths.data_dir() == paths.checkout_root() / "data"


def test_package_without_a_checkout_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "rnnopt" / "paths.py"))
    with pytest.raises(FileNotFoundError, match="installed without its checkout.*make env"):
        paths.checkout_root()


def test_build_folder_is_the_one_named_or_that_of_a_person_at_a_notebook(monkeypatch, tmp_path):
    monkeypatch.setenv("RNNOPT_BUILD", str(tmp_path))
    assert paths.build_dir() == tmp_path
    monkeypatch.delenv("RNNOPT_BUILD")
    assert paths.build_dir() == paths.checkout_root() / "build" / "interactive"


def test_relative_build_folder_does_not_move_with_the_current_one(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RNNOPT_BUILD", "out")
    assert paths.build_dir() == tmp_path / "out"


@pytest.mark.parametrize("content", ["text é\r\n", b"\0bytes"])
def test_written_file_holds_exactly_what_was_given(tmp_path, content):
    path = tmp_path / "new folder" / "ä.txt"
    paths.atomic_write(path, content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert [other.name for other in path.parent.iterdir()] == ["ä.txt"]


def test_written_file_has_the_users_usual_permissions(tmp_path):
    usual = tmp_path / "usual"
    usual.touch()
    assert paths.atomic_write(tmp_path / "written", "x").stat().st_mode == usual.stat().st_mode


def test_file_that_could_not_be_written_is_as_it_was(tmp_path, monkeypatch):
    path = paths.atomic_write(tmp_path / "a.txt", "old")

    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"the disk is full: free some space .*a\.txt") as caught:
        paths.atomic_write(path, "new")
    assert caught.value.errno == errno.ENOSPC
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_write_that_the_system_cuts_short_leaves_the_old_file(tmp_path):
    path = paths.atomic_write(tmp_path / "a.txt", "old")
    code = "import resource, signal, sys; from rnnopt import paths\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" \
           f"resource.setrlimit(resource.RLIMIT_FSIZE, (1000, {resource.RLIM_INFINITY}))\n" \
           "paths.atomic_write(sys.argv[1], 'x' * 10_000)"
    answer = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert "File too large" in answer.stderr
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def no_cache_named(monkeypatch, tmp_path):
    for name in ("RNNOPT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return monkeypatch


def test_cache_is_the_users_and_theirs_alone(no_cache_named, tmp_path):
    no_cache_named.setenv("HOME", str(tmp_path / "home"))
    folder = paths.cache_dir()
    assert folder.is_relative_to(tmp_path / "home")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert paths.cache_dir() == folder


@pytest.mark.parametrize("usual", ["/dev/null/.cache/rnnopt", "~/.cache/rnnopt"])
def test_without_a_home_the_cache_is_a_private_temporary_folder(no_cache_named, tmp_path, usual):
    no_cache_named.chdir(tmp_path)
    no_cache_named.setattr(platformdirs, "user_cache_path", lambda *_, **__: Path(usual))
    folder = paths.cache_dir()
    assert folder == tmp_path / f"rnnopt-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_cache_that_others_can_write_is_refused_with_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("RNNOPT_CACHE", str(tmp_path / "cache"))
    for mode in (0o770, 0o707):
        (tmp_path / "cache").mkdir(exist_ok=True)
        (tmp_path / "cache").chmod(mode)
        with pytest.raises(PermissionError, match="can be written by others: run 'chmod 700"):
            paths.cache_dir()
    (tmp_path / "cache").chmod(0o700)
    assert paths.cache_dir() == tmp_path / "cache"


def test_cache_of_another_user_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("RNNOPT_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: Path(tmp_path).stat().st_uid + 1)
    with pytest.raises(PermissionError, match="belongs to user .*set RNNOPT_CACHE"):
        paths.cache_dir()
