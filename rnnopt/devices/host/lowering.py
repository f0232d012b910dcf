"""From a plan to what the executor runs: products by a weight read it from a layout that is made once.

A BLAS copies the weights into its own layout in every product. Where several
products of a plan have few rows and one weight in common, that is a large part of them: so the
weight is packed once, before the first of them (gemm.h), and they read it so.
Packing reads a matrix along rows or columns alike. So where a plan turns a
weight, and only for such products, the weight is packed as it was, and not turned before.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from rnnopt.operations import Gemm, Launch, Operation, View
from rnnopt.plan import Plan


@dataclass(frozen=True)
class Pack:
    """Lay out a matrix, or its transpose, for products that have it on their right."""

    source: View
    transposed: bool
    stream: int

    @property
    def shape(self) -> tuple[int, int]:
        """Inner length and columns of the products."""
        return (self.source.cols, self.source.rows) if self.transposed else (self.source.rows, self.source.cols)


@dataclass(frozen=True)
class PackedGemm:
    """A product whose right operand is what operation number `pack` has laid out."""

    gemm: Gemm
    pack: int

    @property
    def stream(self):
        return self.gemm.stream


def lowered(plan: Plan, order, pack: bool) -> tuple[list[Operation | Pack | PackedGemm], list[tuple[int, ...]], list[int]]:
    """Return operations, what each waits for, and an order of them.

    Parameters
    ----------
    plan : Plan
    order : sequence of int
        A legal order of the plan's operations.
    pack : bool
        Whether products may read packed weights.
    """
    uses = Counter(_operand(operation) for operation in plan.operations if _packable(operation)) if pack else {}
    turned = _turned(plan, uses)
    operations, waits, number_of, packs = [], [], {}, {}
    for number, (operation, earlier) in enumerate(zip(plan.operations, plan.dependencies, strict=True)):
        if isinstance(operation, Launch) and operation.writes[0].buffer.name in turned:
            continue
        depends = tuple(number_of[n] for n in earlier if n in number_of)
        if _packable(operation) and uses.get(_operand(operation), 0) > 1:
            operand = _operand(operation)
            if operand not in packs:
                packs[operand] = len(operations)
                # What made the matrix, if something did; the rest of what the product waits for is nothing to it.
                writers = tuple(number_of[n] for n in earlier if n in number_of
                                and any(view.buffer is operation.b.buffer for view in plan.operations[n].writes))
                source = turned.get(operation.b.buffer.name)
                before = (View(source, operation.b.box[::-1]), not operation.transpose_b) if source else operand
                operations.append(Pack(*before, operation.stream))
                waits.append(writers)
            operation, depends = PackedGemm(operation, packs[operand]), (*depends, packs[operand])
        number_of[number] = len(operations)
        operations.append(operation)
        waits.append(depends)
    return operations, waits, _with_packs([number_of[number] for number in order if number in number_of], operations)


def _turned(plan, uses):
    """Buffers that hold a weight turned, for products alone that read it packed -> the weight."""
    found = {operation.operands[1].buffer.name: operation.operands[0].buffer for operation in plan.operations
             if isinstance(operation, Launch) and operation.kernel == "transpose" and operation.operands[0].buffer.role == "weight"}
    for operation in plan.operations if found else ():
        for view in operation.reads:
            if view.buffer.name in found and not (_packable(operation) and view is operation.b and uses.get(_operand(operation), 0) > 1):
                del found[view.buffer.name]
    return found


def _operand(gemm):
    return gemm.b, gemm.transpose_b


def _packable(operation):
    """Matrices with two axes are weights, or weights turned: made before their first use, and not changed after it."""
    return isinstance(operation, Gemm) and len(operation.b.buffer.shape) == 2 and operation.out.rows > 1


def _with_packs(order, operations):
    """Insert each packing before the first product that needs it."""
    done, result = set(), []
    for number in order:
        operation = operations[number]
        if isinstance(operation, PackedGemm) and operation.pack not in done:
            done.add(operation.pack)
            result.append(operation.pack)
        result.append(number)
    return result
