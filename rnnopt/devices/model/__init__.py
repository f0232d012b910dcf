"""A GPU that is not there: a data sheet and a simulation say how long a plan would take on it.

``rnnopt.compile(..., device="model:m40")`` gives a network whose results are the float64
reference's and whose times are predicted, never measured; whatever shows them says so.
"""

from __future__ import annotations

from rnnopt.devices.model.card import load
from rnnopt.devices.model.simulation import simulate
from rnnopt.devices.reference import ReferenceBackward, ReferenceExecutable

#: The group of steps that the paper found best on a GPU.
INPUT_GROUP = 2


def open_device(card: str = "m40", replay: str = "streams"):
    """Return the model of a card.

    Parameters
    ----------
    card : str
        See :func:`rnnopt.devices.model.card.load`.
    replay : {"streams", "graph"}

    Raises
    ------
    ValueError
        If there is no such card.
    """
    return ModelDevice(load(card), replay)


class ModelDevice:
    """Predicts how long a plan takes on a card; computes by the reference."""

    name = "model"
    reason = "opened directly"

    def __init__(self, card, replay="streams"):
        self.card, self.replay = card, replay

    def describe(self) -> dict:
        return {"device": self.name, "what": f"model of {self.card.name}, times predicted, not measured", "replay": self.replay}

    def input_group(self, spec) -> int:
        """Steps per input GEMM."""
        return min(INPUT_GROUP, spec.steps)

    def flush_cache(self):
        pass

    def timeline(self, plan):
        """Return the :class:`~rnnopt.devices.model.timeline.Timeline` of `plan` on the card."""
        return simulate(plan, self.card, self.replay)

    def prepare(self, spec, plan, share=None):
        return ModelExecutable(self, plan, ReferenceExecutable(spec) if share is None else ReferenceBackward(spec, share.reference))


class ModelExecutable:
    """A plan with its predicted time; the reference is asked for results only where somebody wants them."""

    def __init__(self, device, plan, reference):
        self._device, self._plan, self.reference = device, plan, reference
        self._seconds, self._stale = None, True

    def load(self, arrays):
        self.reference.load(arrays)
        self._stale = True

    def replay(self) -> float:
        """Return the predicted seconds."""
        if self._seconds is None:
            self._seconds = self._device.timeline(self._plan).seconds
        self._stale = True
        return self._seconds

    def result(self, name):
        if self._stale:
            self.reference.replay()
            self._stale = False
        return self.reference.result(name)
