"""A network that is solved for along time: right when converged, the NumPy solver's twin before, and plain about what it can't."""

import numpy as np
import pytest
from helpers import error, flat, gradient_errors, host, problem, sized, training

import rnnopt
from rnnopt import devices
from rnnopt.time_parallel import MGRIT, NotConverged
from rnnopt.time_parallel.counts import solve_steps
from rnnopt.training import SGD, init_head, train

#: Of states and of gradients, when converged, in float32.
STATES, GRADIENTS = 1e-6, 1e-5

CASES = [
    (dict(steps=64), MGRIT(levels=3, coarsening=4, iterations=17, backward_iterations=17)),
    (dict(steps=64, layers=1, batch=1), MGRIT(levels=2, coarsening=8, relaxation="FCF", iterations=5, backward_iterations=5)),
    (dict(steps=45, layers=3), MGRIT(levels=3, coarsening=(4, 2), iterations=13, backward_iterations=13, start="zeros", norms=True)),
    (dict(steps=31, batch=1), MGRIT(levels=4, coarsening=2, relaxation=("FCF", "F"), iterations=9, backward_iterations=9, cycle="F")),
    (dict(steps=45, layers=2), MGRIT(levels=2, coarsening=9, iterations=4, backward_iterations=4, cycle="relaxation", start="zeros")),
    (dict(steps=7), MGRIT(levels=3, coarsening=8)), (dict(steps=1), MGRIT()), (dict(steps=2), MGRIT(levels=2, coarsening=2)),
]


def implicit(**sizes):
    return sized(**sizes, cell="implicit_gru")


@pytest.fixture(params=["host", "reference", "model:h100"])
def device(request):
    return host() if request.param == "host" else devices.resolve(request.param)


@pytest.mark.parametrize(("sizes", "solver"), CASES)
def test_converged_it_is_the_serial_network(device, sizes, solver):
    t = training(implicit(**sizes))
    network = rnnopt.compile(t.problem.spec, t.problem.weights, device=device, training=True, solver=solver)
    assert error(flat(network(t.problem.inputs, t.problem.state)), t.problem.solution()) <= STATES
    assert max(gradient_errors(network.backward(t.d_outputs, t.d_state), t.solution()).values()) <= GRADIENTS


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("start", ["coarse", "zeros"])
@pytest.mark.parametrize(("relaxation", "cycle"), [("F", "V"), (("F", "FCF"), "V"), ("FCF", "F"), ("FCFCF", "V"), ("F", "relaxation")])
def test_before_it_is_as_far_as_the_numpy_solver(start, relaxation, cycle, training):
    p = problem(implicit(steps=60, layers=2))
    solver = MGRIT(coarsening=(5, 2), relaxation=relaxation, iterations=2, backward_iterations=2, cycle=cycle, start=start, norms=True)
    found = []
    for device in (host(), devices.resolve("reference")):
        network = rnnopt.compile(p.spec, p.weights, device=device, training=training, solver=solver)
        results = list(flat(network(p.inputs, p.state)))
        if training:
            d_outputs = np.random.default_rng(1).standard_normal(results[0].shape).astype(np.float32)
            gradients = network.backward(d_outputs)
            results += [gradients[name] for name in (*p.weights, "inputs")] + list(gradients["state"])
        found.append((results, network.convergence, network.executable.steps))
    (results, convergence, steps), (expected, exact_convergence, exact_steps) = found
    assert error(results, expected) < 1e-6
    assert error(results[:1], p.solution()[:1]) > 1e-4  # or there would be nothing to compare
    assert convergence == pytest.approx(exact_convergence, rel=1e-3)
    assert steps == exact_steps
    if cycle == "V":
        assert steps == solve_steps(network.hierarchy, solver.relaxations(network.hierarchy), 2, start=start == "coarse")


def test_padding_to_whole_intervals_changes_nothing():
    """A sequence that ends within an interval has the results of the longer one's beginning."""
    p = problem(implicit(steps=48, layers=2), with_state=False)
    solver = MGRIT(levels=3, coarsening=4, iterations=2)
    whole = rnnopt.compile(p.spec, p.weights, device=host(), solver=solver)(p.inputs)[0]
    for steps in (47, 37, 33):
        spec = implicit(steps=steps, layers=2)
        outputs, _ = rnnopt.compile(spec, p.weights, device=host(), solver=solver)(np.ascontiguousarray(p.inputs[:steps]))
        assert error([outputs], [whole[:steps]]) < 1e-6


def test_one_level_is_the_serial_network_itself():
    p = problem(implicit())
    network = rnnopt.compile(p.spec, p.weights, device=host(), solver=MGRIT(levels=1), stage="naive")
    assert type(network) is rnnopt.Network
    assert network.plan == rnnopt.compile(p.spec, p.weights, device=host(), stage="naive").plan


def test_a_tolerance_ends_the_iteration_and_is_kept():
    p = problem(implicit(steps=64))
    network = rnnopt.compile(p.spec, p.weights, device=host(), solver=MGRIT(iterations=17, tolerance=1e-3, relaxation="FCF"))
    outputs, _ = network(p.inputs, p.state)
    assert len(network.convergence) < 8
    assert network.convergence[-1] <= 1e-3 < network.convergence[-2]
    assert error([outputs], p.solution()[:1]) < 1e-3


@pytest.mark.parametrize("broken", ["too few", "nan"])
def test_a_solve_that_did_not_converge_returns_nothing(device, broken):
    p = problem(implicit(steps=64))
    network = rnnopt.compile(p.spec, p.weights, device=device, solver=MGRIT(iterations=2 if broken == "too few" else 4, tolerance=1e-6))
    inputs = p.inputs.copy()
    if broken == "nan":
        inputs[3] = np.nan
    with pytest.raises(NotConverged, match="states have a residual of .* was asked for: allow more iterations"):
        network(inputs, p.state)
    assert len(network.convergence) == (1 if broken == "too few" else 3)


def test_going_on_from_the_last_call_converges_from_call_to_call(device):
    p = problem(implicit(steps=64))
    solver = MGRIT(start="previous", iterations=1, norms=True)
    network = rnnopt.compile(p.spec, p.weights, device=device, solver=solver)
    residuals = []
    for _ in range(5):
        network(p.inputs, p.state)
        residuals += network.convergence
    assert all(after < before for before, after in zip(residuals, residuals[1:], strict=False))
    assert residuals[-1] < 0.1 * residuals[1]


def test_calls_with_other_inputs_don_t_know_of_each_other():
    p, q = problem(implicit(steps=64)), problem(implicit(steps=64), seed=1)
    network = rnnopt.compile(p.spec, p.weights, device=host(), solver=MGRIT())
    alone = network(p.inputs, p.state)[0].copy()
    network(q.inputs, q.state)
    assert (network(p.inputs, p.state)[0] == alone).all()


def test_training_along_time_learns_what_training_step_by_step_learns():
    """Which of two features is the higher one on average."""
    spec, rng = implicit(steps=32, layers=1, input_size=2, hidden_size=12, batch=32), np.random.default_rng(0)
    higher = rng.random((8, 32)) > 0.5
    signs = np.where(higher, 1, -1)[:, None, :, None] * np.array([1, -1])
    sequences = (0.2 * signs + rng.standard_normal((8, 32, 32, 2))).astype(np.float32)
    labels = higher.astype(int)
    ends = []
    for solver in (None, MGRIT(coarsening=2)):
        weights = {name: value.copy() for name, value in rnnopt.init_weights(spec).items()}
        network = rnnopt.compile(spec, weights, device=host(), training=True, solver=solver)
        losses = train(network, init_head(spec, 2), lambda epoch: zip(sequences, labels, strict=True),
                       optimizer=SGD(0.3, momentum=0.9), epochs=15)
        ends.append(np.mean(losses[-8:]))
        assert ends[-1] < 0.4 * np.mean(losses[:8])
    assert ends[1] < 2 * ends[0] + 0.1


@pytest.mark.parametrize(("options", "message"), [
    (dict(levels=0), "levels must be at least 1"), (dict(iterations=0), "iterations must be at least 1"),
    (dict(coarsening=1), "coarsening must be at least 2"), (dict(coarsening=(4, 4, 4)), "one for each of the 3 levels but the coarsest"),
    (dict(relaxation="FC"), "relaxation must be one of 'F', 'FCF'"), (dict(relaxation=("F", "F", "F")), "one for each of the 3 levels"),
    (dict(cycle="W"), "cycle must be one of 'V', 'F', 'relaxation'"), (dict(start="random"), "start must be one of 'coarse'"),
    (dict(tolerance=0), "tolerance must be greater than 0"), (dict(tolerance=float("nan")), "tolerance must be greater than 0")])
def test_an_option_that_is_wrong_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        MGRIT(**options)


@pytest.mark.parametrize("options", [dict(levels=2.5), dict(coarsening="4"), dict(relaxation=1), dict(tolerance="1e-3"), dict(norms=1)])
def test_an_option_of_the_wrong_type_is_named(options):
    with pytest.raises(TypeError, match=f"{next(iter(options))} must be"):
        MGRIT(**options)


@pytest.mark.parametrize(("spec", "options", "message"), [
    (sized(), {}, "cell must be 'implicit_gru'"), (implicit(bidirectional=True), {}, "with bidirectional"),
    (implicit(lengths=(4, 4, 3)), {}, "with lengths"), (implicit(dropout=0.5), {"training": True}, "with dropout"),
    (implicit(), {"stage": "naive"}, "stage, input_group and checkpoint_every are of the serial recurrence"),
    (implicit(), {"training": True, "checkpoint_every": 2}, "are of the serial recurrence")])
def test_what_can_t_be_solved_for_is_said(spec, options, message):
    with pytest.raises(ValueError, match=message):
        rnnopt.compile(spec, rnnopt.init_weights(spec), device=host(), solver=MGRIT(), **options)


def test_a_solver_is_a_solver():
    spec = implicit()
    with pytest.raises(TypeError, match=r"solver must be rnnopt.MGRIT\(...\), got 'mgrit'"):
        rnnopt.compile(spec, rnnopt.init_weights(spec), device=host(), solver="mgrit")
