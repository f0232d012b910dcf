"""A network whose sequence is shared by ranks, each of which has a part of its steps."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np

from rnnopt.devices.host import HostDevice
from rnnopt.network import Network
from rnnopt.spec import NetworkSpec
from rnnopt.time_parallel.hierarchy import Hierarchy
from rnnopt.time_parallel.mgrit import MGRIT
from rnnopt.time_parallel.network import SolvedNetwork, SolvedTrainingNetwork, refuse
from rnnopt.time_parallel.ranks import shares
from rnnopt.time_parallel.segments import Post
from rnnopt.time_parallel.solve import PARTS, Iterated, Plans, Solve
from rnnopt.time_parallel.transport import Transport
from rnnopt.weights import checked_array, weight_shapes


def compile_shared(spec: NetworkSpec, weights, solver: MGRIT, device, training: bool, comm) -> SharedNetwork:
    """Return the network of :func:`rnnopt.compile` with a solver and a communicator.

    Raises
    ------
    TypeError, ValueError
        If the solver, the network or the device is none for it.
    """
    refuse(spec, solver, training)
    if device.name not in ("host", "cuda"):
        raise ValueError(f"device must be 'host' or 'cuda' where ranks share a sequence, got {device.name!r}")
    if not isinstance(comm, Transport):
        from rnnopt.time_parallel.mpi import MPITransport

        comm = MPITransport(comm)
    if device.name == "host" and device.cores is None:
        device = HostDevice(device.workers, comm.cores)
    return (SharedTrainingNetwork if training else SharedNetwork)(spec, weights, solver, device, comm)


class SharedNetwork:
    """A rank's part of a network. Every rank makes its own from the same weights, and calls it when the others do.

    Parameters
    ----------
    spec : NetworkSpec
        Of the whole sequence.
    weights : dict of str to ndarray
    solver : MGRIT
    device
    transport : rnnopt.time_parallel.transport.Transport

    Attributes
    ----------
    first, end : int
        The steps that this rank has: none, if there are more ranks than points of the coarsest level.
    """

    network = SolvedNetwork

    def __init__(self, spec, weights, solver, device, transport):
        self.spec, self.weights, self.solver, self.device, self.transport = spec, weights, solver, device, transport
        self.hierarchy = hierarchy = solver.hierarchy(spec.steps)
        self._shares = shares(hierarchy, transport.size)
        unit = hierarchy.padded // hierarchy.units
        if transport.rank < len(self._shares):
            share = self._shares[transport.rank]
            self.first, self.end = unit * share.first, min(unit * share.end, spec.steps)
            own = replace(spec, steps=self.end - self.first)
            self._part = self.network(own, weights, solver, device, partial(RankedSolve, transport=transport, share_of=share),
                                      hierarchy=Hierarchy(own.steps, hierarchy.factors), share=share)
        else:
            self.first = self.end = spec.steps
            self._part = None
            self._idle = [Idle(spec, solver, hierarchy, transport, backward) for backward in (False, True)]

    def __call__(self, inputs, state=None):
        """Apply the network to a sequence.

        Parameters
        ----------
        inputs : ndarray of float32, shape (steps, batch, input_size)
            The whole sequence, of which the rank reads its own steps, or those alone.
        state : tuple of one ndarray of float32, (layers, batch, hidden_size), optional
            Initial state of the sequence. Zeros if not given.

        Returns
        -------
        outputs : ndarray of float32, shape (own steps, batch, hidden_size)
        state : tuple of one ndarray of float32, (layers, batch, hidden_size)
            Final state of the sequence.
        """
        inputs = self._own("inputs", inputs, self.spec.input_size)
        if self._part is None:
            self._idle[False].replay()
            outputs, final = np.zeros((0, self.spec.batch, self.spec.hidden_size), np.float32), self._nothing()
        else:
            outputs, (final,) = self._part(inputs, state)
        self.transport.share(final, self._shares[-1].rank)
        return outputs, (final,)

    def backward(self, d_outputs, d_state=None):
        """Say that only a :class:`SharedTrainingNetwork` can do this."""
        return Network.backward(self, d_outputs, d_state)

    @property
    def convergence(self) -> list[float]:
        """Residuals of the last call, of the whole sequence."""
        return (self._idle[False] if self._part is None else self._part).convergence

    def load_weights(self):
        """As :meth:`rnnopt.Network.load_weights`."""
        if self._part is not None:
            self._part.load_weights()

    def _own(self, name, array, columns):
        """The rank's own steps of a sequence that is given whole, or cut."""
        if np.shape(array)[:1] == (self.spec.steps,):
            array = array[self.first:self.end]
        return checked_array(name, array, (self.end - self.first, self.spec.batch, columns))

    def _nothing(self):
        return np.zeros(self.spec.state_shape, np.float32)


class SharedTrainingNetwork(SharedNetwork):
    """A rank's part of a network that is trained."""

    network = SolvedTrainingNetwork

    @property
    def calls(self) -> int:
        """As :class:`rnnopt.TrainingNetwork` has it; nothing follows from it here, where nothing is dropped."""
        return 0

    @calls.setter
    def calls(self, number):
        pass

    def backward(self, d_outputs, d_state=None) -> dict:
        """Return the gradients of a loss, given those of the last call's results.

        Parameters
        ----------
        d_outputs : ndarray of float32
            Of the whole sequence, or of the rank's own steps.
        d_state : tuple of one ndarray of float32, optional
            The same on each rank.

        Returns
        -------
        dict
            As :meth:`rnnopt.TrainingNetwork.backward`: of the whole sequence, the same bits on each rank. Under
            ``"inputs"`` are those of the rank's own steps.
        """
        d_outputs = self._own("d_outputs", d_outputs, self.spec.hidden_size)
        if self._part is None:
            self._idle[True].replay()
            gradients = {name: np.zeros(shape, np.float32) for name, shape in weight_shapes(self.spec).items()}
            gradients |= {"inputs": np.zeros((0, self.spec.batch, self.spec.input_size), np.float32), "state": (self._nothing(),)}
        else:
            gradients = self._part.backward(d_outputs, d_state)
        for name in self.weights:
            self.transport.add(gradients[name])
        self.transport.share(gradients["state"][0], 0)
        return gradients


class RankedSolve(Solve):
    """A solve of which a rank replays its part."""

    def __init__(self, *arguments, transport, share_of, **options):
        super().__init__(*arguments, **options)
        self._transport = transport
        behind, ahead = (share_of.neighbour(way, self.backward) for way in (False, True))
        self._behind, self._ahead, self._arriving = behind, ahead, None

    def run(self, name):
        start = perf_counter()
        for item in self.parts[name]:
            if hasattr(item, "replay"):
                item.replay()
            elif isinstance(item, Post):
                self._post(item)
            else:
                array, wait = self._arriving
                wait()
                self.load({item.into: array})
        return perf_counter() - start

    def _post(self, message):
        if message.receives:
            array = np.empty(self.spec.state_shape, np.float32)
            self._arriving = array, self._transport.receive(array, self._behind)
        if message.sends:
            self._transport.send(self.result(message.sends), self._ahead)

    def sums(self):
        found = super().sums()
        self._transport.add(found)
        return found


class Idle(Iterated):
    """Takes part in what all ranks do together, and has no steps itself."""

    def __init__(self, spec, solver, hierarchy, transport, backward=False):
        nothing = Plans((), (), (), (), dict.fromkeys(PARTS, 0), hierarchy)
        super().__init__(spec, solver, nothing, backward)
        self._transport = transport

    def run(self, name):
        return 0.0

    def sums(self):
        found = np.zeros(2)
        self._transport.add(found)
        return found
