"""From a plan to what the executor runs: products by a weight read it from a layout that is made once.

A BLAS copies the weights into its own layout in every product. Where several
products of a plan have few rows and one weight in common, that is a large part of them: so the
weight is packed once, before the first of them (gemm.h), and they read it so.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from rnnopt.operations import Gemm, Operation, View
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
    operations, waits, number_of, packs = [], [], {}, {}
    for number, (operation, earlier) in enumerate(zip(plan.operations, plan.dependencies, strict=True)):
        depends = tuple(number_of[n] for n in earlier)
        if _packable(operation) and uses.get(_operand(operation), 0) > 1:
            operand = _operand(operation)
            if operand not in packs:
                packs[operand] = len(operations)
                # What made the matrix, if something did; the rest of what the product waits for is nothing to it.
                writers = tuple(number_of[n] for n in earlier
                                if any(view.buffer is operation.b.buffer for view in plan.operations[n].writes))
                operations.append(Pack(*operand, operation.stream))
                waits.append(writers)
            operation, depends = PackedGemm(operation, packs[operand]), (*depends, packs[operand])
        number_of[number] = len(operations)
        operations.append(operation)
        waits.append(depends)
    return operations, waits, _with_packs([number_of[number] for number in order], operations)


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
