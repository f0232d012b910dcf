"""Levels hold the points they should, where the next level looks for them."""

import numpy as np
import pytest

from rnnopt.time_parallel.hierarchy import Against, Along, Hierarchy, pieces
from rnnopt.time_parallel.systems import in_order, laid_out

HIERARCHIES = [Hierarchy(128, (4, 4)), Hierarchy(121, (4, 2)), Hierarchy(30, (2, 3, 5)),
               Hierarchy(7, (8,)), Hierarchy(5, ()), Hierarchy(1, ())]


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_steps_come_back_in_their_order(hierarchy):
    steps = np.arange(hierarchy.steps * 6.0).reshape(hierarchy.steps, 3, 2) + 1
    out = laid_out(hierarchy, steps)
    assert out.shape == (*hierarchy.shape(0), 3, 2)
    assert (in_order(hierarchy, out) == steps).all()
    assert (out == 0).sum() == 6 * (hierarchy.padded - hierarchy.steps)
    for step in {0, hierarchy.steps // 2, hierarchy.steps - 1}:
        assert (out[hierarchy.place(step)] == steps[step]).all()


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_c_points_lie_as_the_next_level_has_its_points(hierarchy):
    steps = laid_out(hierarchy, np.arange(hierarchy.padded))
    for level in range(hierarchy.levels):
        points = steps[(0,) * level]
        assert points.shape == hierarchy.shape(level)
        assert sorted(points.ravel()) == list(range(0, hierarchy.padded, hierarchy.dt(level)))


@pytest.mark.parametrize("way", [Along, Against])
@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_every_interval_is_paired_with_the_one_that_follows(hierarchy, way):
    for level in range(hierarchy.coarsest):
        steps = laid_out(Hierarchy(hierarchy.padded, hierarchy.factors), np.arange(hierarchy.padded))
        intervals = steps[(0,) * (level + 1)] // hierarchy.dt(level + 1)
        found = {}
        for before, after in pieces(way, hierarchy.shape(level)[1:]):
            found |= zip(intervals[before].ravel(), intervals[after].ravel(), strict=True)
        count = hierarchy.points(level + 1)
        expected = {k: k + 1 for k in range(count - 1)}
        assert found == ({after: before for before, after in expected.items()} if way.reverse else expected)


@pytest.mark.parametrize("way", [Along, Against])
def test_steps_of_an_interval_lead_from_the_c_point_to_the_candidate(way):
    slots = [way.slots(4, number) for number in range(4)]
    assert slots[0][0] == way.c_point(4)
    assert slots[-1][1] == way.candidate(4)
    for source, target, place in slots:
        assert place == min(source, target)
    assert [target for _, target, _ in slots[:-1]] == [source for source, *_ in slots[1:]]
    assert sorted(range(5)[way.points(4)]) == sorted({0, 1, 2, 3, 4} - {way.candidate(4)})
