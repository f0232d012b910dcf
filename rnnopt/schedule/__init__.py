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

#: The optimisations of a forward pass, in the paper's order. Each is a module of this folder.
SWITCHES = ("combined_gemms", "streamed_gemms", "fused_pointwise",
            "pretransposed_weights", "batched_inputs", "wavefront")

#: Those of training. The additional one changes the backward pass alone.
TRAINING_SWITCHES = (*SWITCHES[:-1], "batched_weight_gradients", "wavefront")


def _ladder(switches):
    return MappingProxyType({"naive": frozenset(), **{switch: frozenset(switches[:n + 1]) for n, switch in enumerate(switches)}})


#: The paper's ladder: stage -> the switches that are on at it.
LADDER = _ladder(SWITCHES)

#: The ladder of training: the same, with a rung for the gradients of the weights.
TRAINING_LADDER = _ladder(TRAINING_SWITCHES)

#: The group of steps that the paper found best.
PAPER_INPUT_GROUP = 2


def switches_of(stage: str | Iterable[str], training: bool = False) -> frozenset[str]:
    """Return the switches that are on at `stage`.

    Parameters
    ----------
    stage : str or iterable of str
        A rung of :data:`LADDER`, or any set of :data:`SWITCHES`.
    training : bool
        Take :data:`TRAINING_LADDER` and :data:`TRAINING_SWITCHES` instead.

    Raises
    ------
    TypeError
        If `stage` is neither.
    ValueError
        If a name is unknown; the nearest known name is suggested.
    """
    ladder, known = (TRAINING_LADDER, TRAINING_SWITCHES) if training else (LADDER, SWITCHES)
    if isinstance(stage, str):
        if stage not in ladder:
            raise ValueError(f"stage must be one of {', '.join(ladder)}, got {stage!r}{did_you_mean(stage, ladder)}"
                             f"{_only_in_training(stage)}")
        return ladder[stage]
    if not isinstance(stage, Iterable):
        raise TypeError(f"stage must be the name of a rung or a set of switches, got {stage!r}")
    switches = tuple(stage)
    for unknown in sorted(str(switch) for switch in switches if switch not in known):
        raise ValueError(f"a switch of stage must be one of {', '.join(known)}, "
                         f"got {unknown!r}{did_you_mean(unknown, known)}{_only_in_training(unknown)}")
    return frozenset(switches)


def _only_in_training(name):
    return "; it changes the backward pass alone: give training=True" if name in TRAINING_SWITCHES else ""


def schedule(spec: NetworkSpec, stage: str | Iterable[str], input_group: int = PAPER_INPUT_GROUP, *,
             training: bool = False) -> Plan:
    """Return the plan of a forward pass.

    Parameters
    ----------
    spec : NetworkSpec
    stage : str or iterable of str
        See :func:`switches_of`.
    input_group : int
        Steps per input GEMM where ``batched_inputs`` is on.
    training : bool
        Keep what a backward pass needs, and drop outputs where the spec says so.
    """
    from rnnopt.schedule import forward

    return forward.emit(spec, _rules(stage, training), positive_integer("input_group", input_group), training)


def schedule_backward(spec: NetworkSpec, stage: str | Iterable[str], input_group: int = PAPER_INPUT_GROUP, *,
                      parts: Iterable[str] = ("data", "weights")) -> Plan:
    """Return the plan of the backward pass that follows ``schedule(spec, ..., training=True)``, whatever the stage of that.

    It finds what the forward pass has left in buffers of the same names, and
    overwrites some of them. Parameters are those of :func:`schedule`; `input_group` is
    the number of steps per GEMM of inputs' gradients. `parts` may be one alone, to be
    measured: the weights' after the data's.
    """
    from rnnopt.schedule import backward

    return backward.emit(spec, _rules(stage, True), positive_integer("input_group", input_group), tuple(parts))


def _rules(stage, training):
    from rnnopt.schedule import naive

    rules = vars(naive).copy()
    for switch in switches_of(stage, training):
        rules |= {name: value for name, value in vars(import_module(f"{__name__}.{switch}")).items() if name in rules}
    return SimpleNamespace(**rules)
