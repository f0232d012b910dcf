"""Whether the files of a folder are whole: their SHA-256, as ``sha256sum`` writes and checks them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

NAME = "SHA256SUMS"

_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")


def verify(folder: Path, checksums: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Compare the files of `folder` with what they should be, and return the names of those compared.

    Parameters
    ----------
    folder : Path
    checksums : mapping of str to str, optional
        SHA-256, in hexadecimal digits, by the name of the file within the folder. If not given, they are those in the
        folder's file ``SHA256SUMS``; without it, nothing is compared.

    Raises
    ------
    ValueError
        If a file is missing or another, or ``SHA256SUMS`` is no list of checksums.
    """
    folder = Path(folder)
    if checksums is None:
        if not (folder / NAME).is_file():
            return ()
        checksums = read_checksums(folder / NAME)
    return compare(checksums, lambda name: (folder / name).read_bytes(), folder)


def read_checksums(path: Path) -> dict[str, str]:
    """Return the checksums in a file that ``sha256sum`` wrote, by the names of the files."""
    checksums = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").split("\n"), 1):
        line = line.rstrip("\r")
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if not match:
            raise ValueError(f"{path}, line {number}: 64 hexadecimal digits, two spaces and a name were expected, got {line[:80]!r}: "
                             f"write it with sha256sum")
        checksums[match[2].removeprefix("./")] = match[1]
    if not checksums:
        raise ValueError(f"{path} holds no checksum, but a line for each file was expected: write it with sha256sum, or remove it")
    return checksums


def compare(checksums: Mapping[str, str], read: Callable[[str], bytes], where) -> tuple[str, ...]:
    """Compare what `read` gives for each name with its checksum, as :func:`verify` does; `where` is for messages."""
    for name, expected in checksums.items():
        # A list of checksums is no reason to open what lies elsewhere.
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ValueError(f"a checksum is for {name!r}, but names of files within {where} were expected: leave it out")
        if not isinstance(expected, str) or not re.fullmatch("[0-9a-fA-F]{64}", expected):
            raise ValueError(f"the checksum of {name!r} must be 64 hexadecimal digits, got {expected!r}: it is what sha256sum prints first")
        try:
            found = hashlib.sha256(read(name)).hexdigest()
        except OSError:
            raise ValueError(f"{name} is not in {where}, but a checksum is for it: get the file again, or leave the checksum out") from None
        if found != expected.lower():
            raise ValueError(f"{name} in {where} has the SHA-256 {found}, but {expected.lower()} was expected: "
                             f"the file is damaged or another, get it again")
    return tuple(checksums)
