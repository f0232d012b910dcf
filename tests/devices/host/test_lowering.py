"""Products that share a weight read it packed; everything else stays as the plan has it."""

import numpy as np
import pytest
from helpers import host, problem, run, sized

import rnnopt
from rnnopt.devices.host.executable import HostExecutable
from rnnopt.devices.host.lowering import Pack, PackedGemm, lowered
from rnnopt.operations import Buffer, Gemm, Launch
from rnnopt.plan import Plan


def parts(plan, pack=True):
    operations, waits, order = lowered(plan, range(len(plan.operations)), pack)
    assert sorted(order) == list(range(len(operations)))
    place = {number: at for at, number in enumerate(order)}
    assert all(place[earlier] < place[number] for number, needed in enumerate(waits) for earlier in needed)
    return operations, waits


def test_a_plan_is_left_alone_where_products_are_those_of_blas():
    plan = rnnopt.schedule(sized(), "wavefront")
    operations, waits = parts(plan, pack=False)
    assert (tuple(operations), tuple(waits)) == (plan.operations, plan.dependencies)


@pytest.mark.parametrize("stage", ["streamed_gemms", "batched_inputs", "wavefront"])
def test_each_weight_is_packed_once_before_all_that_read_it(stage):
    plan = rnnopt.schedule(sized(layers=3, steps=6), stage)
    operations, waits = parts(plan)
    packs = [number for number, operation in enumerate(operations) if isinstance(operation, Pack)]
    assert {operations[number].source.buffer.name for number in packs} == {f"weight_{w}_l{k}" for w in ("ih", "hh") for k in range(3)}
    products = [number for number, operation in enumerate(operations) if isinstance(operation, PackedGemm)]
    assert len(products) == plan.gemms
    assert all(operations[number].pack in waits[number] for number in products)


def test_a_weight_is_not_turned_where_it_is_packed_anyway():
    plan = rnnopt.schedule(sized(steps=6), "wavefront")
    assert any(isinstance(operation, Launch) and operation.kernel == "transpose" for operation in plan.operations)
    operations, _ = parts(plan)
    assert not any(isinstance(operation, Launch) and operation.kernel == "transpose" for operation in operations)


def test_a_weight_that_one_product_reads_is_read_as_it_is():
    plan = rnnopt.schedule(sized(layers=1, steps=1), "wavefront")
    operations, _ = parts(plan)
    assert tuple(operations) == plan.operations


@pytest.mark.parametrize("batch", [1, 2])
def test_single_rows_are_left_to_blas(batch):
    operations, _ = parts(rnnopt.schedule(sized(batch=batch, steps=6), "combined_gemms"))
    assert any(isinstance(operation, PackedGemm) for operation in operations) == (batch > 1)


@pytest.mark.parametrize("sizes", [(16, 512, 128), (15, 33, 31), (64, 65, 600), (2, 7, 1), (29, 1, 513), (113, 40, 1024)])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("wide", [0, 3])
def test_packed_products_are_right_and_touch_nothing_beside(sizes, transpose_b, accumulate, wide):
    """Also where rows are pages apart, columns fill no panel, and the inner length is longer than a block."""
    host()
    rows, cols, inner = sizes
    rng = np.random.default_rng(0)
    x = Buffer("x", (rows, inner + wide), "input")
    w = Buffer("w", (cols, inner) if transpose_b else (inner, cols), "weight")
    y, z = (Buffer(name, (rows, cols + wide), "state") for name in "yz")
    a, b, before = (rng.standard_normal(buffer.shape, dtype=np.float32) for buffer in (x, w, y))
    plan = Plan({buffer.name: buffer for buffer in (x, w, y, z)}, tuple(
        Gemm(out[:, :cols], x[:, :inner], w[:, :], transpose_b=transpose_b, accumulate=accumulate) for out in (y, z)), 1)
    executable = HostExecutable(plan, 1, blas_threads=1)
    arrays = {"x": a, "w": b, "y": before.copy(), "z": before.copy()}
    executable.load(arrays)
    executable.replay()
    expected = before.astype(np.float64)
    expected[:, :cols] *= accumulate
    expected[:, :cols] += a[:, :inner].astype(np.float64) @ (b.T if transpose_b else b)
    for name in "yz":
        np.testing.assert_allclose(arrays[name], expected, rtol=1e-4, atol=3e-6 * np.sqrt(inner) + 1e-6)
        assert (arrays[name][:, cols:] == before[:, cols:]).all()


@pytest.mark.parametrize("sizes", [(512, 128, 160), (28, 7, 3), (31, 33, 600), (1, 1, 5), (128, 65, 1)])
@pytest.mark.parametrize("accumulate", [False, True])
def test_gradients_of_weights_are_right(sizes, accumulate):
    host()
    rows, cols, inner = sizes
    rng = np.random.default_rng(0)
    d, x, out = Buffer("d", (inner, rows), "input"), Buffer("x", (inner, cols), "input"), Buffer("out", (rows, cols), "state")
    a, b, before = (rng.standard_normal(buffer.shape, dtype=np.float32) for buffer in (d, x, out))
    gemm = Gemm(out[:, :], d[:, :], x[:, :], transpose_a=True, accumulate=accumulate)
    plan = Plan({buffer.name: buffer for buffer in (d, x, out)}, (gemm,), 1)
    executable = HostExecutable(plan, 1, blas_threads=1)
    result = before.copy()
    executable.load({"d": a, "x": b, "out": result})
    executable.replay()
    expected = accumulate * before.astype(np.float64) + a.T.astype(np.float64) @ b
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=3e-6 * np.sqrt(inner) + 1e-6)


def test_weights_changed_between_replays_are_packed_anew():
    p = problem(sized(steps=5))
    executable = HostExecutable(rnnopt.schedule(p.spec, "wavefront"), 2, blas_threads=1)
    host()
    before = run(executable, p)
    for value in p.weights.values():
        value *= np.float32(0.5)
    after = run(executable, p)
    assert not np.allclose(before[0], after[0])
    for got, expected in zip(after, p.solution(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
