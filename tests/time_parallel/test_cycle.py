"""The cycle in float64: exact when it should be, as approximate as measured before, and as long as the formulas say."""

import numpy as np
import pytest

from rnnopt import reference
from rnnopt.cells import implicit_gru
from rnnopt.spec import NetworkSpec
from rnnopt.time_parallel.counts import cycle_steps, ideal_speedup, solve_steps, start_steps
from rnnopt.time_parallel.cycle import Cycle
from rnnopt.time_parallel.hierarchy import Hierarchy
from rnnopt.time_parallel.systems import Adjoint, Recurrence
from rnnopt.weights import parameter_names

ROUNDING = 1e-14


class Problem:
    """Layers as the authors draw them (each product as torch draws a linear map), on sines with noise; a gradient at the last state."""

    def __init__(self, seed=0, steps=128, features=9, hidden=100, batch=20, layers=2):
        rng = np.random.default_rng(seed)
        self.spec = NetworkSpec("implicit_gru", layers, features, hidden, batch, steps)
        self.parameters = []
        for layer in range(layers):
            below = features if layer == 0 else hidden
            shapes = ((3 * hidden, below), below), ((3 * hidden, hidden), hidden), ((3 * hidden,), below), ((3 * hidden,), hidden)
            self.parameters.append([rng.uniform(-1, 1, shape) / np.sqrt(fan_in) for shape, fan_in in shapes])
            self.parameters[-1][3][:2 * hidden] = 0  # the authors' recurrent gates have none
        time = 2 * np.pi * np.arange(steps)[:, None, None] / steps
        frequency, phase = rng.uniform(1, 8, (1, batch, features)), rng.uniform(0, 2 * np.pi, (1, batch, features))
        self.inputs = np.sin(frequency * time + phase) + 0.1 * rng.standard_normal((steps, batch, features))
        self.initial = np.zeros((layers, batch, hidden))
        self.d_outputs = np.zeros((steps, batch, hidden))
        self.d_state = np.zeros((layers, batch, hidden))
        self.d_state[-1] = rng.standard_normal((batch, hidden))

    @property
    def weights(self):
        return {name: value for layer, values in enumerate(self.parameters)
                for name, value in zip(parameter_names(layer, False), values, strict=True)}

    def recurrence(self, factors, relaxation, iterations):
        hierarchy = Hierarchy(self.spec.steps, factors)
        system = Recurrence(hierarchy, implicit_gru.step, self.parameters, self.inputs, self.initial)
        return solved(system, relaxation, iterations)

    def adjoint(self, recurrence, relaxation, iterations):
        return solved(Adjoint(recurrence, implicit_gru.step_backward, self.d_outputs, self.d_state), relaxation, iterations)


def solved(system, relaxation, iterations):
    cycle = Cycle(system, system.hierarchy, relaxation)
    cycle.start()
    for _ in range(iterations - 1):
        cycle.cycle(norm=True)
    cycle.finish()
    return system


def error(value, exact):
    return float(np.linalg.norm(value - exact) / np.linalg.norm(exact))


def flat(gradients):
    return np.concatenate([np.ravel(part) for layer in gradients for part in layer])


def test_one_level_is_the_serial_recurrence_to_the_bit():
    p = Problem(steps=12, hidden=7, batch=3)
    outputs, _ = reference.forward(p.spec, p.weights, p.inputs)
    assert (p.recurrence((), (), 1).outputs()[-1] == outputs).all()


@pytest.mark.parametrize("factors", [(4,), (4, 4), (2, 4, 2), (5, 3)])
@pytest.mark.parametrize(("relaxation", "advance"), [(0, 1), (1, 2), (2, 3)])
def test_it_is_exact_after_as_many_cycles_as_there_are_intervals_over_what_one_advances(factors, relaxation, advance):
    p = Problem(steps=48, hidden=7, batch=2)
    serial = p.recurrence((), (), 1)
    intervals = -(-48 // factors[0])
    relaxations = (relaxation,) * len(factors)
    system = p.recurrence(factors, relaxations, 1 + -(-intervals // advance))
    assert max(map(error, system.outputs(), serial.outputs())) < ROUNDING
    exact = p.adjoint(serial, (), 1).gradients()
    assert error(flat(p.adjoint(system, relaxations, 1 + -(-intervals // advance)).gradients()), flat(exact)) < ROUNDING


def test_each_cycle_makes_one_more_interval_exact_and_fcf_two():
    p = Problem(steps=32, hidden=5, batch=2)
    exact = p.recurrence((), (), 1).outputs()[-1]
    for relaxation, advance in ((0, 1), (1, 2)):
        for iterations in (2, 3, 4):
            outputs = p.recurrence((4,), (relaxation,), iterations).outputs()[-1]
            wrong = np.flatnonzero(np.abs(outputs - exact).max(axis=(1, 2)) > ROUNDING)
            # The end relaxes once more, from C-points that are exact so far.
            assert wrong[0] == 4 * (advance * (iterations - 1) + 1)


def test_the_exact_solution_has_no_residual():
    p = Problem(steps=48, hidden=7, batch=2)
    hierarchy = Hierarchy(48, (4, 3))
    system = Recurrence(hierarchy, implicit_gru.step, p.parameters, p.inputs, p.initial)
    for part, exact in zip(system.u[0], p.recurrence((), (), 1).u[0], strict=True):
        for step in range(1, 48):
            part[hierarchy.place(step)] = exact[step]
    cycle = Cycle(system, hierarchy, (0, 1))
    for _ in range(3):
        cycle.cycle(norm=True)
    assert all(residual <= ROUNDING * size for residual, size in system.norms)


def test_the_residual_falls_to_rounding():
    norms = Problem(steps=64, hidden=7, batch=2).recurrence((4, 4), (1, 1), 10).norms
    assert norms[-1][0] <= ROUNDING * norms[-1][1]
    assert all(after[0] <= before[0] for before, after in zip(norms[:6], norms[1:], strict=False))


#: (forward cycles, fine relaxation, backward cycles) -> error of the last state, of all states, of the gradient; cosine with the exact one.
MEASURED = {
    (2, 0, 1): (.0543, .0971, .579, .925), (2, 0, 2): (.0543, .0971, .213, .977), (2, 0, 3): (.0543, .0971, .101, .995),
    (3, 0, 1): (.0224, .0271, .550, .930), (4, 0, 3): (.0059, .0082, .072, .998), (2, 1, 1): (.0276, .0346, .561, .928),
    (3, 1, 1): (.0020, .0033, .554, .929),
}


def test_errors_are_those_of_another_implementation():
    """Within a fifth, as the median of two problems: of what the other was given only the kind is known."""
    problems, found = [Problem(seed) for seed in range(2)], {key: [] for key in MEASURED}
    for p in problems:
        serial = p.recurrence((), (), 1)
        exact, exact_states = flat(p.adjoint(serial, (), 1).gradients()), np.stack(serial.outputs())
        for (iterations, fine, backward), rows in found.items():
            system = p.recurrence((4, 4), (fine, 1), iterations)
            gradient, states = flat(p.adjoint(system, (0, 1), backward).gradients()), np.stack(system.outputs())
            rows.append((error(states[:, -1], exact_states[:, -1]), error(states, exact_states), error(gradient, exact),
                         gradient @ exact / np.linalg.norm(gradient) / np.linalg.norm(exact)))
    for key, rows in found.items():
        assert np.median(rows, axis=0) == pytest.approx(MEASURED[key], rel=0.2), key


def test_counted_steps_are_those_of_the_formulas():
    p = Problem(steps=96, hidden=3, batch=2)
    for factors, relaxation in (((4,), (0,)), ((4, 4), (0, 1)), ((2, 3, 4), (1, 0, 2))):
        system = Recurrence(Hierarchy(96, factors), implicit_gru.step, p.parameters, p.inputs, p.initial)
        cycle = Cycle(system, system.hierarchy, relaxation)
        cycle.start()
        assert system.evaluated == start_steps(system.hierarchy)
        cycle.cycle()
        assert system.evaluated == start_steps(system.hierarchy) + cycle_steps(system.hierarchy, relaxation)
        cycle.finish()
        assert system.evaluated == solve_steps(system.hierarchy, relaxation, 2)


def test_steps_of_the_authors_logged_run():
    """128 steps on 4 ranks, 3 levels, factor 4, F-relaxation on the finest: 98 forward steps and 40 backward steps for each rank."""
    hierarchy = Hierarchy(128, (4, 4))
    assert solve_steps(hierarchy, (0, 1), 2, finish="F") == 4 * 98
    assert solve_steps(hierarchy, (0, 1), 1) == 4 * 40
    assert solve_steps(hierarchy, (0, 1), 2) == 4 * 106
    assert solve_steps(hierarchy, (1, 1), 2) == 4 * 138


@pytest.mark.parametrize(("steps", "factors", "relaxation", "expected"), [
    (128, (4,), (0,), [.57, .96, 1.45, 1.96, 2.37, 2.65, 2.81]), (128, (4, 4), (0, 1), [.52, .99, 1.83, 3.17, 5.02, 7.08, 8.90]),
    (1024, (4, 4, 4), (0, 1, 1), [.50, 1.00, 1.95, 3.76, 6.97, 12.2, 19.4])])
def test_ideal_speedup_is_that_of_the_table(steps, factors, relaxation, expected):
    speedups = [ideal_speedup(Hierarchy(steps, factors), relaxation, 2, 1, ranks) for ranks in (1, 2, 4, 8, 16, 32, 64)]
    assert speedups == pytest.approx(expected, abs=0.051)
