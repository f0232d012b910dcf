"""A plan on a card, event by event.

An operation starts when the host has issued it, when its stream is free and when what it depends
on is done, each a latency ago. Its blocks go to the SMs with the fewest blocks. What runs side by
side then shares: an SM its multiply-adds, all of them the memory's bandwidth; and whenever an
operation starts or ends, the speeds of the others change.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import pairwise

import numpy as np

from rnnopt.devices.model.card import Card
from rnnopt.devices.model.costs import CONSTANTS, Constants, works
from rnnopt.devices.model.timeline import Timeline
from rnnopt.plan import Plan

REPLAYS = ("streams", "graph")

HOST, START = -1, -2  # what an operation may have waited for, beside an operation


def simulate(plan: Plan, card: Card, replay: str = "streams", constants: Constants = CONSTANTS) -> Timeline:
    """Predict when each operation of `plan` runs on `card`.

    Parameters
    ----------
    plan : Plan
    card : Card
    replay : {"streams", "graph"}
        Whether the host issues operation by operation, or launches one graph that holds them.
    constants : Constants

    Returns
    -------
    Timeline

    Raises
    ------
    ValueError
        If there is no such way of replay.
    """
    if replay not in REPLAYS:
        raise ValueError(f"replay must be one of {', '.join(map(repr, REPLAYS))}, got {replay!r}")
    return _Simulation(plan, card, replay, constants).run()


class _Simulation:
    def __init__(self, plan, card, replay, constants):
        self.plan, self.card, self.constants = plan, card, constants
        self.work = works(plan, card, constants)
        count = len(plan.operations)
        graph = replay == "graph"
        self.latency = 1e-6 * (constants.graph_latency if graph else constants.latency)
        self.issued = np.full(count, 1e-5 * constants.launch) if graph else 1e-6 * constants.launch * np.arange(1, count + 1)
        self.followers = [[] for _ in range(count)]
        self.waiting = [0] * count
        for number, waits in enumerate(self._waits(in_order=not graph)):
            self.waiting[number] = len(waits)
            for earlier in waits:
                self.followers[earlier].append(number)
        self.start, self.end = np.zeros(count), np.zeros(count)
        self.cause = [HOST] * count    # what an operation waited for longest
        self.load = np.zeros(card.sms)                # share of each SM's multiply-adds that is asked for
        self.resident = np.zeros(card.sms, int)       # blocks on each SM
        self.running = {}                             # operation -> [seconds left at full speed, SMs, blocks on them]
        self.busy = [(0.0, 0)]                        # time, SMs with a block from then on

    def _waits(self, in_order):
        """What each operation waits for: its dependencies, and the operation before it in its stream."""
        waits = [set(depends) for depends in self.plan.dependencies]
        if in_order:
            streams = {}
            for number, operation in enumerate(self.plan.operations):
                streams.setdefault(operation.stream, []).append(number)
            for numbers in streams.values():
                for earlier, later in pairwise(numbers):
                    waits[later].add(earlier)
        return waits

    def run(self):
        now, starts, queue = 0.0, [], []  # (time, operation) to come; operations that wait for a free slot
        for number, waits in enumerate(self.waiting):
            if not waits:
                heappush(starts, (self.issued[number] + self.latency, number))
        while starts or self.running:
            speeds = self._speeds()
            ends = {number: now + self.running[number][0] / speed for number, speed in speeds.items()}
            ending = min(ends, key=ends.get, default=None)
            until = min(starts[0][0] if starts else np.inf, ends[ending] if ends else np.inf)
            for number, speed in speeds.items():
                self.running[number][0] -= (until - now) * speed
            now = until
            if ends and ends[ending] <= now:
                for follower in self._finish(ending, now):
                    by_host = self.issued[follower] > now
                    self.cause[follower] = HOST if by_host else ending
                    heappush(starts, (max(now, self.issued[follower]) + self.latency, follower))
                if queue:
                    self._begin(queue.pop(0), now)
            while starts and starts[0][0] <= now:
                number = heappop(starts)[1]
                if len(self.running) < self.card.concurrent_kernels:
                    self._begin(number, now)
                else:
                    queue.append(number)
        return Timeline(self.plan, self.card, self.work, self.start, self.end, self.cause, self.busy, self.latency, self.issued)

    def _begin(self, number, now):
        work = self.work[number]
        self.start[number] = now
        each, more = divmod(work.blocks, self.card.sms)
        blocks = np.full(self.card.sms, each)
        blocks[np.argsort(self.resident, kind="stable")[:more]] += 1
        self.load += blocks * work.demand
        self.resident += blocks
        self.running[number] = [work.seconds, blocks > 0, blocks]
        self._note(now)

    def _finish(self, number, now):
        _, _, blocks = self.running.pop(number)
        self.end[number] = now
        self.load -= blocks * self.work[number].demand
        self.resident -= blocks
        self._note(now)
        for follower in self.followers[number]:
            self.waiting[follower] -= 1
            if not self.waiting[follower]:
                yield follower

    def _speeds(self):
        """How fast each running operation goes, 1 being alone with a block per SM."""
        if not self.running:
            return {}
        speeds, wanted = {}, 0.0
        for number, (_, sms, _) in self.running.items():
            work = self.work[number]
            # An operation ends with its last block: the fullest of its SMs decides.
            speeds[number] = 1 / max(1.0, self.load[sms].max()) if work.demand else 1.0
            wanted += work.bytes / work.seconds * speeds[number] if work.seconds else 0.0
        shared = max(1.0, wanted / (1e9 * self.card.bandwidth * self.constants.memory))
        return {number: speed / shared for number, speed in speeds.items()}

    def _note(self, now):
        busy = int((self.resident > 0).sum())
        if self.busy[-1][0] == now:
            self.busy[-1] = (now, busy)
        else:
            self.busy.append((now, busy))
