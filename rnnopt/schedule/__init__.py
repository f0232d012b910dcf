"""From a network to a plan: the optimisations, each an independent switch.

Each module of this folder named in :data:`SWITCHES` replaces some functions of
:mod:`rnnopt.schedule.naive`; the paper's ladder (:data:`LADDER`) turns them on
one after the other. Any subset gives a plan that computes the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from types import MappingProxyType, SimpleNamespace

from rnnopt.names import did_you_mean
from rnnopt.plan import Plan
from rnnopt.spec import NetworkSpec, positive_integer

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
            raise ValueError(f"stage must be one of {', '.join(LADDER)}, got {stage!r}{did_you_mean(stage, LADDER)}")
        return LADDER[stage]
    if not isinstance(stage, Iterable):
        raise TypeError(f"stage must be the name of a rung or a set of switches, got {stage!r}")
    switches = tuple(stage)
    for unknown in sorted(str(switch) for switch in switches if switch not in SWITCHES):
        raise ValueError(f"a switch of stage must be one of {', '.join(SWITCHES)}, "
                         f"got {unknown!r}{did_you_mean(unknown, SWITCHES)}")
    return frozenset(switches)


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

    input_group = positive_integer("input_group", input_group)
    rules = vars(naive).copy()
    for switch in switches_of(stage):
        rules |= {name: value for name, value in vars(import_module(f"{__name__}.{switch}")).items() if name in rules}
    return emit(spec, SimpleNamespace(**rules), input_group)
