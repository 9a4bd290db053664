"""Hand-written cases: every operator on every type that it takes, at the edges; every cast; memory, control, and the grid.

Which types an operator takes is asked of the validator's own table, so that none is forgotten.
Source: spec items 1.2, 1.7, 1.9.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.conformance.case import EXACT, TOLERANCES, Case, elementwise
from vyre_driver.conformance.constant_cases import constant_cases, float_cases
from vyre_driver.conformance.driver_cases import driver_cases, variant_cases
from vyre_driver.conformance.extension_cases import added_operator_cases, extension_cases
from vyre_driver.conformance.flow_cases import flow_cases, jump_cases
from vyre_driver.conformance.node_cases import atomic_cases, local_cases, node_cases
from vyre_driver.conformance.patterns import each_with_each, edges, scalar_types
from vyre_driver.ir import builders as ir
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import BinOp, UnOp
from vyre_driver.ir.validation.operator_types import Mismatch, binary_type, is_castable, unary_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.conformance.options import Options

_F32, _I32 = DataType.F32, DataType.I32
_VECTORS = {DataType.Vec2U32: 2, DataType.Vec4U32: 4}
_SMOOTH = (-3.0, -1.0, -0.75, -0.5, -0.001, 0.0, 0.001, 0.25, 0.5, 0.999, 1.0, 1.5, 2.0, 3.0)
_DOMAINS: dict[UnOp, tuple[float, ...]] = {
    UnOp.ACOS: tuple(one for one in _SMOOTH if abs(one) <= 1),
    UnOp.ASIN: tuple(one for one in _SMOOTH if abs(one) <= 1),
    UnOp.LOG: (0.001, 0.25, 0.5, 0.999, 1.0, 1.5, 2.0, 1000.0, 1e30),
    UnOp.LOG2: (0.001, 0.25, 0.5, 0.999, 1.0, 1.5, 2.0, 1000.0, 1e30),
}


def hand_written(options: Options) -> Iterator[Case]:
    """Yield every hand-written case that these options allow."""
    for case in _every_case(options):
        yield replace(case, subgroup_lanes=options.subgroup_lanes)


def _every_case(options: Options) -> Iterator[Case]:
    yield from _binary_cases(options)
    yield from _unary_cases(options)
    yield from _cast_cases(options)
    yield from _choice_cases()
    yield from added_operator_cases(options)
    if options.atomics:
        yield from atomic_cases(shared=options.shared)
    yield from flow_cases(options)
    yield from jump_cases(options)
    yield from local_cases(options)
    yield from node_cases(options)
    yield from constant_cases()
    yield from extension_cases(options)
    yield from driver_cases(options)
    yield from float_cases()
    yield from variant_cases(options)


def _binary_cases(options: Options) -> Iterator[Case]:
    for op, dtype in product(BinOp, scalar_types(options)):
        result = binary_type(op, dtype, dtype)
        if result is None or isinstance(result, Mismatch):
            continue
        every = edges(dtype)
        left, right = each_with_each(every, every)
        if op in {BinOp.DIV, BinOp.MOD} and dtype == _I32:
            kept = (right != 0) & ~((left == np.iinfo(np.int32).min) & (right == -1))
            left, right = left[kept], right[kept]
        yield elementwise(f"{op.name} of {dtype}", [dtype, dtype], [left, right], partial(ir.binop, op), result)


def _unary_cases(options: Options) -> Iterator[Case]:
    for op, dtype in product(UnOp, scalar_types(options)):
        result = unary_type(op, dtype)
        if result is None or isinstance(result, Mismatch):
            continue
        smooth = _DOMAINS.get(op, _SMOOTH)
        given = np.array(smooth, np.float32) if dtype == _F32 and op in TOLERANCES else edges(dtype)
        tolerance = TOLERANCES.get(op, EXACT) if dtype == _F32 else EXACT
        yield elementwise(f"{op.name} of {dtype}", [dtype], [given], partial(ir.unop, op), result, tolerance=tolerance)


def _cast_cases(options: Options) -> Iterator[Case]:
    types = [*scalar_types(options), *_VECTORS]
    for source, target in product(types, types):
        if source == target or not is_castable(source, target):
            continue
        if source in _VECTORS:
            words = edges(DataType.U32)[: 12 // _VECTORS[source] * _VECTORS[source]]
            given = np.array([*words, *[0] * _VECTORS[source]], np.uint32).reshape(-1, _VECTORS[source])
        else:
            given = edges(source)
        yield elementwise(f"cast of {source} to {target}", [source], [given], partial(ir.cast, target), target)


def _choice_cases() -> Iterator[Case]:
    floats = edges(_F32)
    yield elementwise("fma", [_F32] * 3, each_with_each(floats[:8], floats, floats[::3]), ir.fma, _F32)
    near = np.array([1 + 2.0**-12, 1 + 2.0**-23, 3.0, -(1 + 2.0**-12)], np.float32)
    far = np.array([-(1 + 2.0**-11), -1.0, -9.0, 2.0**-60], np.float32)
    yield elementwise("fma that cancels", [_F32] * 2, [near, far], lambda a, b: ir.fma(a, a, b), _F32)
    for dtype, given in ((DataType.U32, [(1 << 24) + 1, 3188829256]), (DataType.I32, [-(1 << 24) - 1, 1765390637])):
        whole = np.array(given, np.uint32 if dtype is DataType.U32 else np.int32)
        less = -whole.astype(np.float32)
        yield elementwise(
            f"fma of {dtype} as f32", [dtype, _F32], [whole, less], lambda a, b: ir.fma(ir.cast(_F32, a), 1.0, b), _F32
        )
    for dtype in (DataType.U32, DataType.Bool):
        conditions = edges(dtype)
        values = np.arange(len(conditions), dtype=np.uint32)
        others = values + np.uint32(100)
        types = [dtype, DataType.U32, DataType.U32]
        yield elementwise(f"select by {dtype}", types, [conditions, values, others], ir.select, DataType.U32)
        for op in (BinOp.AND, BinOp.OR):
            other = DataType.U32 if dtype == DataType.Bool else DataType.Bool
            sides = each_with_each(edges(dtype), edges(other))
            name = f"{op.name} of {dtype} and {other}"
            yield elementwise(name, [dtype, other], sides, partial(ir.binop, op), DataType.Bool)
