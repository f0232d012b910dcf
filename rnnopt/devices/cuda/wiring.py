"""Which operation waits for which event: a plan's dependencies between streams.

Within a stream, order is enough. Between streams, the producer records an event
and the consumer's stream waits for it, unless that stream is already known to
come after the producer: because it waited for a later operation of the
producer's stream, or for one that had itself waited.
"""

from __future__ import annotations

from rnnopt.plan import Plan


def waits(plan: Plan, order=None) -> list[tuple[int, tuple[int, ...]]]:
    """Return what each operation has to wait for, in the order of issue.

    Parameters
    ----------
    plan : Plan
    order : sequence of int, optional
        Numbers of the operations in the order of issue; the plan's own if not given.

    Returns
    -------
    list of (int, tuple of int)
        An operation, and those of other streams whose events its stream waits for before it.

    Raises
    ------
    ValueError
        If `order` is not legal.
    """
    position = {}  # operation -> its place in the order
    after = {}     # operation -> {stream: place of the latest operation of it that is done when this one is}
    latest = {}    # stream -> its latest operation
    result = []
    for place, number in enumerate(plan.legal(order)):
        stream = plan.operations[number].stream
        known = dict(after[latest[stream]]) if stream in latest else {}
        waited = []
        depends = plan.dependencies[number]
        # The latest first: waiting for it may make others needless.
        for producer in sorted(depends, key=position.get, reverse=True):
            other = plan.operations[producer].stream
            if other == stream or known.get(other, -1) >= position[producer]:
                continue
            waited.append(producer)
            for of_stream, reached in after[producer].items():
                known[of_stream] = max(reached, known.get(of_stream, -1))
        known[stream] = place
        position[number], after[number], latest[stream] = place, known, number
        result.append((number, tuple(waited)))
    return result
