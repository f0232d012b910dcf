"""How a kernel is launched: its grid, its block, its arguments."""

from __future__ import annotations

import re
from functools import cache

from rnnopt import kernels
from rnnopt.operations import Launch

THREADS = 256
WARP = 32
MAX_GRID_Y = 65535  # what every card allows; kernels loop over the rows beyond

_TILE = re.compile(r"^#define TILE (\d+)$", re.MULTILINE)


def shape(operation: Launch) -> tuple[tuple[int, int], tuple[int, int, int]]:
    """Return grid (x, y) and block (x, y, z).

    A row of blocks per row of the matrix, its threads along the columns; of a
    kernel that works tile by tile, a block per tile.
    """
    rows, cols = operation.rows, operation.cols
    tile = _tile(kernels.get(operation.kernel).file)
    threads = THREADS if tile else min(THREADS, WARP * _ceil(cols, WARP))
    grid = (_ceil(cols, tile), _ceil(rows, tile)) if tile else (_ceil(cols, threads), rows)
    return (grid[0], min(grid[1], MAX_GRID_Y)), (threads, 1, 1)


def argument_format(kernel: str) -> str:
    """Types of the arguments of `kernel`, as PyCUDA's ``prepare`` takes them."""
    found = kernels.get(kernel)
    return "ii" + "Pi" * len(found.matrices) + "".join(kind[0] for _, kind in found.scalars)


def arguments(operation: Launch, address) -> list[int]:
    """Return the arguments; ``address(view)`` says where a matrix is."""
    values = [operation.rows, operation.cols]
    for view in operation.operands:
        values += [address(view), view.ld]
    return values + list(operation.scalars)


def _ceil(count, size):
    return -(-count // size)


@cache
def _tile(file):
    found = _TILE.search(kernels.sources(file)[file])
    return int(found[1]) if found else 0
