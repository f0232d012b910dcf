"""Where things are, and how a file is written so that it is whole or not there."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tempfile
from pathlib import Path

#: A disk without room, or a user without quota.
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)

#: How a file that is not finished ends.
UNFINISHED = ".unfinished"


def checkout_root() -> Path:
    """Return the folder that holds ``notebooks/`` and ``pyproject.toml``.

    Raises
    ------
    FileNotFoundError
        If the package is installed without its checkout.
    """
    root = Path(__file__).resolve().parent.parent
    if not ((root / "notebooks").is_dir() and (root / "pyproject.toml").is_file()):
        raise FileNotFoundError(f"rnnopt is installed without its checkout: expected notebooks and pyproject.toml in {root}; "
                                f"get the repository and run 'make env' in it, or 'pip install --editable .'")
    return root


def notebooks_dir() -> Path:
    return checkout_root() / "notebooks"


def data_dir() -> Path:
    return checkout_root() / "data"


def build_dir() -> Path:
    """Return the folder for what is generated: $RNNOPT_BUILD, else ``build/interactive`` of the checkout."""
    named = os.environ.get("RNNOPT_BUILD")
    return Path(named).expanduser().absolute() if named else checkout_root() / "build" / "interactive"


def cache_dir() -> Path:
    """Return the folder for compiled code, which only its owner can write; make it if need be.

    $RNNOPT_CACHE names it; else it is the user's cache, and where a user has
    none (no home, or one that can't be written) a folder of their own beside
    other temporary files.

    Raises
    ------
    PermissionError
        If others own or can write it: what is loaded from there runs as you.
    OSError
        If it can't be made.
    """
    import platformdirs

    named = os.environ.get("RNNOPT_CACHE")
    folder = Path(named).expanduser().absolute() if named else platformdirs.user_cache_path("rnnopt", appauthor=False)
    try:
        # Without a home, '~' stays in the path and would become a folder where the user happens to be.
        if not folder.is_absolute():
            raise FileNotFoundError(folder)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK) and folder.stat().st_uid == os.getuid():
            raise PermissionError(folder)
    except OSError as error:
        if named:
            raise type(error)(error.errno, f"RNNOPT_CACHE names a folder that can't be used ({error.strerror or error}): "
                                           f"name one of your own that can be written", str(folder)) from None
        folder = Path(tempfile.gettempdir()).absolute() / f"rnnopt-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
    _refuse_if_others_can_write(folder)
    return folder


def _refuse_if_others_can_write(folder):
    # A link is followed where users put one for themselves, but what counts is the folder it leads to; who could
    # exchange the link itself can be told from its own owner.
    for found in (folder.lstat(), folder.stat()):
        if found.st_uid != os.getuid():
            raise PermissionError(f"the cache folder {folder} belongs to user {found.st_uid}, expected {os.getuid()}: "
                                  f"set RNNOPT_CACHE to a folder of your own")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"the cache folder {folder} can be written by others: run 'chmod 700 {folder}' "
                              f"if you trust what is in it, else delete it")


def atomic_write(path: str | os.PathLike, content: bytes | str) -> Path:
    """Write a file so that a reader, or a kill at any moment, finds the old content or the new.

    Parameters
    ----------
    path : path-like
        Its folder is made if need be.
    content : bytes or str
        Text is written as UTF-8.

    Raises
    ------
    OSError
        In one sentence if the disk is full; what was there is then still there.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}{UNFINISHED}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "xb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        if error.errno in FULL_DISK:
            raise OSError(error.errno, "the disk is full: free some space and run again; not written", str(path)) from None
        raise
    return path
