"""Any number of ranks has the results, the residuals and the iterations of one."""

import numpy as np
import pytest
from test_cycle import Problem, error, flat

from rnnopt.cells import implicit_gru
from rnnopt.time_parallel.cycle import Cycle
from rnnopt.time_parallel.hierarchy import Hierarchy
from rnnopt.time_parallel.ranks import RankedAdjoint, RankedRecurrence, shares
from rnnopt.time_parallel.systems import Adjoint, Recurrence, sources
from rnnopt.time_parallel.transport import in_threads


def solved(system, relaxation, iterations, kind):
    cycle = Cycle(system, system.hierarchy, relaxation)
    cycle.start()
    for _ in range(iterations - 1):
        cycle.cycle(kind=kind, norm=True)
    cycle.finish()
    return system


def whole(p, hierarchy, relaxation, iterations, kind):
    forward = solved(Recurrence(hierarchy, implicit_gru.step, p.parameters, p.inputs, p.initial), relaxation, iterations, kind)
    backward = solved(Adjoint(forward, implicit_gru.step_backward, p.d_outputs, p.d_state), relaxation, iterations, kind)
    return np.stack(forward.outputs()), flat(backward.gradients()), forward.norms, backward.norms


def rank_of(p, hierarchy, relaxation, iterations, kind, transport):
    """What one rank has of it in the end; its gradients are those of all."""
    unit = hierarchy.padded // hierarchy.units
    share = shares(hierarchy, transport.size)[transport.rank]
    first, end = unit * share.first, unit * share.end
    inputs = np.zeros((hierarchy.padded, *p.inputs.shape[1:]))
    inputs[:hierarchy.steps] = p.inputs
    source = sources(hierarchy, p.d_outputs, p.d_state)
    forward = RankedRecurrence(Hierarchy(end - first, hierarchy.factors), implicit_gru.step, p.parameters, inputs[first:end], p.initial)
    forward.transport, forward.share = transport, share
    solved(forward, relaxation, iterations, kind)
    backward = RankedAdjoint(forward, implicit_gru.step_backward, None, p.d_state, source[:, first:end + 1])
    backward.transport, backward.share = transport, share
    solved(backward, relaxation, iterations, kind)
    gradient = flat(backward.gradients())
    transport.add(gradient)
    return np.stack(forward.outputs()), gradient, forward.norms, backward.norms


def ranked(p, hierarchy, relaxation, iterations, kind, ranks):
    found = in_threads(lambda transport: rank_of(p, hierarchy, relaxation, iterations, kind, transport), len(shares(hierarchy, ranks)))
    assert all((gradient == found[0][1]).all() for _, gradient, *_ in found)  # replicas stay the same to the bit
    return np.concatenate([outputs for outputs, *_ in found], axis=1)[:, :hierarchy.steps], *found[0][1:]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize(("steps", "factors", "relaxation", "kind"), [
    (96, (4, 4), (0, 1), "V"), (93, (4, 2), (1, 1), "F"), (48, (8,), (0,), "V"), (20, (4,), (0,), "relaxation"), (13, (), (), "V"),
    (5, (4,), (1,), "V")])
def test_ranks_make_no_difference(steps, factors, relaxation, kind, ranks):
    p = Problem(steps=steps, hidden=5, batch=2)
    rng = np.random.default_rng(3)
    p.d_outputs, p.initial = rng.standard_normal(p.d_outputs.shape), np.tanh(rng.standard_normal(p.initial.shape))
    hierarchy = Hierarchy(steps, factors)
    outputs, gradient, norms, d_norms = whole(p, hierarchy, relaxation, 3, kind)
    found = ranked(p, hierarchy, relaxation, 3, kind, ranks)
    assert error(found[0], outputs) < 1e-13
    assert error(found[1], gradient) < 1e-13
    if factors:
        assert np.allclose(found[2], norms, rtol=1e-10, atol=1e-14)
        assert np.allclose(found[3], d_norms, rtol=1e-10, atol=1e-14)


def test_a_rank_that_fails_ends_all_of_them_with_its_error():
    def work(transport):
        if transport.rank == 1:
            raise ZeroDivisionError("on rank 1")
        transport.receive(np.empty(1), (transport.rank + 1) % 3)()

    with pytest.raises(ZeroDivisionError, match="on rank 1"):
        in_threads(work, 3)
