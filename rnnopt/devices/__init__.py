"""Devices execute plans and know nothing of networks.

A device has a ``name``, a ``describe()`` of what it is, ``flush_cache()``, and
``prepare(spec, plan, share)``, which returns an executable: ``load(arrays)`` gives it inputs and
weights by buffer name, ``replay()`` runs the plan once and returns the seconds
that took by the device's own clock, ``result(name)`` returns an output. Buffers
that the executable `share` has too are the same memory: so a backward pass
finds what the forward pass has left.
"""

from __future__ import annotations

from importlib import import_module

from rnnopt.names import did_you_mean

#: Name of a device -> the module that defines it, in the order of preference.
DEVICES = {"cuda": "rnnopt.devices.cuda", "host": "rnnopt.devices.host", "reference": "rnnopt.devices.reference",
           "model": "rnnopt.devices.model"}


class DeviceUnavailable(RuntimeError):
    """A device was asked for by name and is not there; the message is its remedy."""


def resolve(name: str = "auto"):
    """Return the device called `name`.

    ``"auto"`` is the first of :data:`DEVICES` that is there; the attribute
    ``reason`` of what is returned says in a line why it was chosen. ``"model:CARD"``
    is the model of a card: see :mod:`rnnopt.devices.model`; ``"cuda:streams"`` issues a plan operation
    by operation, as in 2016, where ``"cuda:graph"``, the default, launches one graph.

    Raises
    ------
    DeviceUnavailable
        If `name` is a device that is not there.
    ValueError
        If there is no such device.
    """
    if name == "auto":
        missing = []
        for candidate in DEVICES:
            if candidate == "cuda" and import_module("rnnopt.devices.cuda.standin").chosen():
                missing.append("no GPU: the stand-in driver is there for who asks for 'cuda'")
                continue
            try:
                device = import_module(DEVICES[candidate]).open_device()
            except DeviceUnavailable as error:
                missing.append(str(error))
            else:
                device.reason = "chosen by auto" + "".join(f"; {why}" for why in missing)
                return device
    known, card = split(name)
    device = import_module(DEVICES[known]).open_device(*card)
    device.reason = "asked for by name"
    return device


def split(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the entry of :data:`DEVICES` that `name` asks for, and what comes after its colon: a card, or a way of replay.

    Raises
    ------
    ValueError
        If there is none.
    """
    known, colon, card = name.partition(":") if isinstance(name, str) else (name, "", "")
    if known not in DEVICES or (colon and (known not in ("model", "cuda") or not card)):
        raise ValueError(f"device must be 'auto' or one of {', '.join(map(repr, DEVICES))}, 'cuda:streams', 'model:CARD', "
                         f"got {name!r}{did_you_mean(name, ('auto', *DEVICES))}")
    return known, (card,) if card else ()


def status_line(device) -> str:
    """One line for the head of a notebook or a run: the device, why it, and what would change it."""
    what, reason = device.describe()["what"], device.reason
    if device.name not in ("reference", "model"):  # nothing is amiss: how to get what is not there, `rnnopt doctor` tells
        reason = "; ".join(part.split(": ")[0] for part in reason.split("; "))
    return f"device {device.name!r}: {what} ({reason}; choose with device={' | '.join(map(repr, DEVICES))})"
