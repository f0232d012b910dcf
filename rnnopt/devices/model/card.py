"""Cards: what a data sheet says of a GPU, one small TOML file each (``cards/``)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from math import isfinite
from pathlib import Path

from rnnopt.names import did_you_mean

FOLDER = Path(__file__).parent / "cards"


@dataclass(frozen=True)
class Card:
    """A GPU as its data sheet describes it.

    Attributes
    ----------
    name, architecture, compute_capability : str
    sms : int
        Streaming multiprocessors.
    lanes : int
        Float32 fused multiply-adds per SM and cycle.
    clock : float
        GHz under load.
    bandwidth : float
        Of the memory, GB/s.
    l2 : float
        MiB of L2 cache.
    concurrent_kernels : int
        Grids that can be resident at a time.
    source : str
        Where the figures are from.
    tiles : tuple of (int, int, int)
        Tiles of the library's float32 GEMM, the largest first: rows and columns of the result (the longer side is
        laid along the weights' outputs), and slices that a block shares the inner length in.
    tiles_source : str
    """

    name: str
    architecture: str
    compute_capability: str
    sms: int
    lanes: int
    clock: float
    bandwidth: float
    l2: float
    concurrent_kernels: int
    source: str
    tiles: tuple[tuple[int, int, int], ...]
    tiles_source: str

    @property
    def peak(self) -> float:
        """FLOP/s in float32, a multiply-add counted as two."""
        return 2e9 * self.sms * self.lanes * self.clock


def names() -> list[str]:
    """Names of the cards that are described, from the oldest architecture to the newest."""
    return sorted((path.stem for path in FOLDER.glob("*.toml")), key=lambda name: (load(name).compute_capability, load(name).peak))


@cache
def load(name: str) -> Card:
    """Return a card by its name in ``cards/``, or by the path of a TOML file like those.

    Raises
    ------
    ValueError
        If no card is called so, or the file is not such a description; the message says what is amiss.
    """
    path = Path(name) if str(name).endswith(".toml") else FOLDER / f"{name}.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = sorted(path.stem for path in FOLDER.glob("*.toml"))
        raise ValueError(f"card must be one of {', '.join(known)}, or a TOML file like rnnopt/devices/model/cards/m40.toml, "
                         f"got {name!r}{did_you_mean(str(name), known)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no TOML file: {error}") from None
    gemm = table.pop("gemm", {})
    given = {**table, "tiles": gemm.get("tiles"), "tiles_source": gemm.get("source")}
    return Card(**_checked(path.name, given))


def _checked(file, given):
    expected = {field.name for field in fields(Card)}
    if missing := sorted(key for key in expected if given.get(key) is None):
        raise ValueError(f"{file} says nothing of {', '.join(missing)}: a card needs all of {', '.join(sorted(expected))}")
    if unknown := sorted(given.keys() - expected):
        raise ValueError(f"{file} has an unknown entry {unknown[0]!r}{did_you_mean(unknown[0], expected)}")
    for key in ("sms", "lanes", "concurrent_kernels", "clock", "bandwidth", "l2"):
        whole, value = key in ("sms", "lanes", "concurrent_kernels"), given[key]
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not (isfinite(value) and value > 0):
            raise ValueError(f"{key} of {file} must be {'an integer' if whole else 'a number'} above 0, got {value!r}")
    tiles = given["tiles"]
    if not isinstance(tiles, list) or not tiles or not all(
            isinstance(tile, list) and len(tile) == 3 and all(type(side) is int and side > 0 for side in tile) for tile in tiles):
        raise ValueError(f"tiles of {file} must be a list of [rows, columns, slices], integers above 0, got {tiles!r}")
    return {**given, "tiles": tuple(map(tuple, tiles))}
