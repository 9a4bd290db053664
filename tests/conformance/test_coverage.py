"""No operator, cast, statement or expression is left out: a hand-written case asks it, or it stands here with a reason."""

from __future__ import annotations

from itertools import product

from vyre_driver.conformance.cases import hand_written
from vyre_driver.conformance.options import Options
from vyre_driver.ir import arithmetic, expressions, nodes
from vyre_driver.ir.arithmetic import Binary, Expr, OpaqueExpr, Unary
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Atomic, Cast, InvocationId, Load, LocalId, SubgroupReduce, WorkgroupId
from vyre_driver.ir.extensions import EXTENSIONS, application
from vyre_driver.ir.nodes import Barrier, Node
from vyre_driver.ir.operators import AtomicOp, BinOp, MemoryOrdering, OpaqueOp, SubgroupOp, UnOp
from vyre_driver.ir.terms import terms_within
from vyre_driver.ir.validation.operator_types import Mismatch, binary_type, is_castable, unary_type

CASES = list(hand_written(Options(subgroups=True)))
TERMS = [term for case in CASES for term in terms_within(*case.program.entry)]

# What nobody can be asked, each refused by name by the reference (tests/unit/test_reference.py).
NO_RESULT = {
    "IndirectDispatch": "an error in the semantics",
    "Resume": "it has no semantics",
    "AllReduce": "there is one device",
    "AllGather": "there is one device",
    "ReduceScatter": "there is one device",
    "Broadcast": "there is one device",
    "OpaqueNode": "its meaning is an extension's",
    "Call": "what it calls is an extension's",
    "BufferRef": "it is an argument of a call",
}
NO_OPERATOR = {
    BinOp.SHUFFLE: "the validator refuses it always",
    BinOp.BALLOT: "the validator refuses it always",
    BinOp.WAVE_REDUCE: "the validator refuses it always",
    BinOp.WAVE_BROADCAST: "the validator refuses it always",
    AtomicOp.COMPARE_EXCHANGE_WEAK: "not supported in the semantics",
    AtomicOp.FETCH_NAND: "not supported in the semantics",
}
SCALARS = [
    *(DataType.U8, DataType.U16, DataType.U32, DataType.U64, DataType.I8, DataType.I16, DataType.I32, DataType.I64),
    *(DataType.Bool, DataType.F32),
]
VECTORS = [DataType.Vec2U32, DataType.Vec4U32]
MOVED = [DataType.F16, DataType.BF16, DataType.F64]  # which operators of ours alone compute with
ORDERS = {BinOp.LT, BinOp.GT, BinOp.LE, BinOp.GE}  # of vectors, which the reference refuses


def concrete(base: type, *modules: object) -> set[str]:
    """The names of the terms that can be made."""
    found = {
        value.__name__
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, base) and value is not base
    }
    return {name for name in found if not name.startswith("_")}


def asked(base: type) -> set[str]:
    return {type(term).__name__ for term in TERMS if isinstance(term, base)}


def test_every_statement_is_asked_or_has_no_result() -> None:
    every = concrete(Node, nodes)
    assert asked(Node) == every - set(NO_RESULT)


def test_every_expression_is_asked_or_has_no_result() -> None:
    every = concrete(Expr, arithmetic, expressions)
    assert asked(Expr) == every - set(NO_RESULT)
    literals = {term.kind for term in TERMS if isinstance(term, OpaqueExpr)}
    assert literals == {"vyre.literal.u64", "vyre.literal.i64", "vyre.literal.f64"}


def operators(kind: type) -> set[object]:
    return {term.op for term in TERMS if isinstance(term, kind) and not isinstance(term.op, OpaqueOp)}


def test_every_operator_is_asked_or_refused_by_the_semantics() -> None:
    assert operators(Binary) == set(BinOp) - set(NO_OPERATOR)
    assert operators(Unary) == set(UnOp) - set(NO_OPERATOR)
    assert operators(Atomic) == set(AtomicOp) - set(NO_OPERATOR)
    assert operators(SubgroupReduce) == set(SubgroupOp)


def test_every_operator_is_asked_of_every_type_that_the_validator_lets_it_take() -> None:
    of_two = {
        f"{op.name} of {one}"
        for op, one in product(BinOp, [*SCALARS, *VECTORS])
        if isinstance(binary_type(op, one, one), DataType) and not (one in VECTORS and op in ORDERS)
    }
    of_one = {f"{op.name} of {one}" for op, one in product(UnOp, SCALARS) if isinstance(unary_type(op, one), DataType)}
    names = {case.name for case in CASES}
    assert (of_two - names, of_one - names, len(of_two) > 90, len(of_one) > 35) == (set(), set(), True, True)
    assert isinstance(binary_type(BinOp.ADD, DataType.Bool, DataType.Bool), Mismatch)


def test_every_operator_of_ours_is_asked_of_every_combination_of_types_that_it_takes() -> None:
    wanted = {
        f"{one.name} of {' and '.join(map(str, types))}" for one in EXTENSIONS.values() for types in product(*one.operands)
    }
    assert (wanted - {case.name for case in CASES}, wanted != set()) == (set(), True)
    assert {found.operator.name for term in TERMS if isinstance(term, Cast) and (found := application(term))} == set(EXTENSIONS)


def test_every_cast_of_the_table_is_asked() -> None:
    pairs = {(one, other) for one, other in product([*SCALARS, *VECTORS], repeat=2) if one != other and is_castable(one, other)}
    names = {case.name for case in CASES}
    assert {f"cast of {one} to {other}" for one, other in pairs} - names == set()
    assert (len(pairs), any(isinstance(term, Cast) for term in TERMS)) == (94, True)


def test_every_order_of_atomics_and_barriers_is_asked() -> None:
    assert {term.ordering for term in TERMS if isinstance(term, Atomic)} == set(MemoryOrdering) - {MemoryOrdering.GRID_SYNC}
    assert {term.ordering for term in TERMS if isinstance(term, Barrier)} == set(MemoryOrdering) - {MemoryOrdering.RELAXED}


def test_every_axis_of_every_id_is_asked() -> None:
    kinds = (InvocationId, WorkgroupId, LocalId)
    found = {(type(term), term.axis) for term in TERMS if isinstance(term, kinds)}
    assert found == set(product(kinds, range(3)))


def test_every_scalar_type_is_loaded() -> None:
    types = {
        case.program.buffer(term.buffer).element
        for case in CASES
        for term in terms_within(*case.program.entry)
        if isinstance(term, Load)
    }  # type: ignore[union-attr]
    assert types == {*SCALARS, *VECTORS, *MOVED, DataType.Bytes}
