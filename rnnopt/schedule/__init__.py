"""From a network to a plan: the optimisations, each an independent switch.

Each module of this folder named in :data:`SWITCHES` replaces some functions of
:mod:`rnnopt.schedule.naive`; the paper's ladder (:data:`LADDER`) turns them on
one after the other. Any subset gives a plan that computes the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType, SimpleNamespace

from rnnopt.plan import Plan
from rnnopt.spec import NetworkSpec

#: The optimisations, in the paper's order. Each is a module of this folder.
SWITCHES = ("combined_gemms", "streamed_gemms", "fused_pointwise",
            "pretransposed_weights", "batched_inputs", "wavefront")

#: The paper's ladder: stage -> the switches that are on at it.
LADDER = MappingProxyType({
    "naive": frozenset(),
    **{switch: frozenset(SWITCHES[:n + 1]) for n, switch in enumerate(SWITCHES)},
})

#: The group of steps that the paper found best.
PAPER_INPUT_GROUP = 2


def switches_of(stage: str | Iterable[str]) -> frozenset[str]:
    """Return the switches that are on at `stage`.

    Parameters
    ----------
    stage : str or iterable of str
        A rung of :data:`LADDER`, or any set of :data:`SWITCHES`.

    Raises
    ------
    TypeError
        If `stage` is neither.
    ValueError
        If a name is unknown; the nearest known name is suggested.
    """
    if isinstance(stage, str):
        if stage not in LADDER:
            raise ValueError(f"stage must be one of {', '.join(LADDER)}{_nearest(stage, LADDER)}, got {stage!r}")
        return LADDER[stage]
    if not isinstance(stage, Iterable):
        raise TypeError(f"stage must be the name of a rung or a set of switches, got {stage!r}")
    switches = frozenset(stage)
    for unknown in sorted(map(str, switches - set(SWITCHES))):
        raise ValueError(f"a switch must be one of {', '.join(SWITCHES)}{_nearest(unknown, SWITCHES)}, got {unknown!r}")
    return switches


def _nearest(name, known):
    near = get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def schedule(spec: NetworkSpec, stage: str | Iterable[str], input_group: int = PAPER_INPUT_GROUP) -> Plan:
    """Return the plan of a forward pass.

    Parameters
    ----------
    spec : NetworkSpec
    stage : str or iterable of str
        See :func:`switches_of`.
    input_group : int
        Steps per input GEMM where ``batched_inputs`` is on.
    """
    from rnnopt.schedule import naive
    from rnnopt.schedule.network import emit

    if isinstance(input_group, bool) or not isinstance(input_group, int):
        raise TypeError(f"input_group must be an integer of at least 1, got {input_group!r}")
    if input_group < 1:
        raise ValueError(f"input_group must be at least 1, got {input_group}")
    rules = vars(naive).copy()
    for switch in switches_of(stage):
        rules |= {name: value for name, value in vars(import_module(f"{__name__}.{switch}")).items() if name in rules}
    return emit(spec, SimpleNamespace(**rules), input_group)
