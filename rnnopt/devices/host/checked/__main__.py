"""``python -m rnnopt.devices.host.checked``: check the kernels of a ``.cu`` file on random inputs."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import numpy as np

from rnnopt import kernels
from rnnopt.devices import DeviceUnavailable
from rnnopt.devices.host import checked, compiler
from rnnopt.devices.host.checked.build import SANITIZERS
from rnnopt.devices.host.checked.report import SanitizerError

# In a file's comments: "x is rows × cols", "c_prev, c  rows × H", "bias_ih  4H"; H is another word for cols. "key  8" has that many.
_DIM = r"(?:rows|\d* ?cols|\d*H|\d+)"
_SHAPE = re.compile(rf"(\w+(?:, \w+)*)(?: is|:)? +({_DIM}(?: × {_DIM})?)(?!\w)")


def main(arguments=None) -> int:
    """Check kernels as the command line says; return 0 if all are clean, 1 if not, 2 if that could not be told."""
    parser = argparse.ArgumentParser(
        prog="python -m rnnopt.devices.host.checked",
        description="Run CUDA kernels with real threads on this CPU and look for accesses outside arrays, races and "
                    "missed barriers. The inputs are random; their shapes are read from the file's comments "
                    "('y is cols × rows'), and are rows × cols where those say nothing.")
    parser.add_argument("file", type=Path, help="a .cu file whose kernels take (int rows, int cols, matrices, scalars)")
    parser.add_argument("--kernel", help="only this one (default: each of the file)")
    parser.add_argument("--block", type=_size, default=33, help="threads of a block (default: 33, a warp and one)")
    parser.add_argument("--grid", type=_pair, default=(2, 2), metavar="XxY", help="blocks in x and in y (default: 2x2)")
    parser.add_argument("--rows", type=_size, default=5)
    parser.add_argument("--cols", type=_size, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs")
    parser.add_argument("--look-for", choices=[*SANITIZERS, "both"], default="both")
    options = parser.parse_args(arguments)
    try:
        source = options.file.read_text(encoding="utf-8")
        known = {kernel.name: kernel for kernel in kernels.parse(options.file.name, source)}
        if not known or options.kernel not in (None, *known):
            raise ValueError(f"{options.file.name} has no kernel {options.kernel!r}; it has {', '.join(known) or 'none'}")
        found = []
        for kernel in [known[options.kernel]] if options.kernel else known.values():
            case = random_case(kernel, source, options.rows, options.cols, options.block, options.grid, options.seed)
            print(case)
            found += [_check(options.file, case, look_for)
                      for look_for in (SANITIZERS if options.look_for == "both" else [options.look_for])]
    except (OSError, ValueError, DeviceUnavailable, compiler.BuildError) as error:
        print(error, file=sys.stderr)
        return 2
    return 1 if True in found else 2 if None in found else 0


def _check(file, case, look_for):
    """Print what comes of `case`; return whether something was found, None where it can't be looked for."""
    print(f"  {look_for}: ", end="", flush=True)
    try:
        after = checked.run(file, [case], look_for)[0]
    except SanitizerError as error:
        print(str(error).replace("\n", "\n  "))
        return True
    except DeviceUnavailable as error:
        print(f"not checked; {error}")
        return None
    bad = [f"    {name}: {np.isnan(array).sum()} of {array.size} elements are NaN; never written, "
           f"or made from shared memory that was not" for name, array in after.items() if np.isnan(array).any()]
    print("\n".join(["NaN in a result", *bad]) if bad else "clean")
    return bool(bad)


def random_case(kernel, source, rows, cols, block, grid, seed) -> checked.Case:
    """Return a launch of `kernel` on random inputs, positive ones since it may take roots; what it writes begins as NaN."""
    rng, documented = np.random.default_rng(seed), shapes(source, rows, cols)
    arrays, lds = {}, {}
    for name, written in kernel.matrices:
        shape = documented.get(name, (rows, cols))
        size = int(np.prod(shape))
        arrays[name] = np.full(size, np.nan, np.float32) if written else rng.uniform(0.1, 1, size).astype(np.float32)
        lds[name] = shape[1] if len(shape) == 2 else 0
    scalars = {name: 1 if kind == "int" else 0.5 for name, kind in kernel.scalars}
    return checked.Case(kernel.name, rows, cols, arrays, lds, block, grid, scalars)


def shapes(source: str, rows: int, cols: int) -> dict[str, tuple[int, ...]]:
    """Read from the comments of `source` the shape of each array of which they speak; one dimension for a repeated row."""
    found = {}
    for line in source.splitlines():
        for names, dimensions in _SHAPE.findall(line) if line.startswith("//") else []:
            shape = tuple(_extent(dimension, rows, cols) for dimension in dimensions.split(" × "))
            found |= dict.fromkeys(names.split(", "), shape)
    return found


def _extent(dimension, rows, cols):
    if dimension.isdigit():
        return int(dimension)
    return rows if dimension == "rows" else int(re.match(r"\d*", dimension)[0] or 1) * cols


def _size(text):
    if not re.fullmatch(r"0*[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return int(text)


def _pair(text):
    found = re.fullmatch(r"(\d+)x(\d+)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"expected two numbers as in 2x3, got {text!r}")
    return int(found[1]), int(found[2])


if __name__ == "__main__":
    raise SystemExit(main())
