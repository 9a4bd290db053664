"""Calls of operations are replaced by what the operations do, in the order in which their arguments are evaluated."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver.backends.reference.dispatch import run
from vyre_driver.errors import InvalidProgram
from vyre_driver.ir import (
    BufferDecl,
    BufferRef,
    Call,
    DataType,
    Let,
    Program,
    Region,
    atomic_add,
    buf_len,
    call,
    cast,
    examine,
    gid_x,
    if_,
    inline_calls,
    inlining,
    let,
    load,
    loop,
    return_,
    store,
    u32,
    var,
)
from vyre_driver.ir.terms import terms_within

if TYPE_CHECKING:
    from vyre_driver.ir import Expr, Node

U32 = DataType.U32
X, Y, OUT = BufferDecl.read("x", 0, U32), BufferDecl.read_write("y", 1, U32), BufferDecl.output("out", 2, U32)
RESULT = BufferDecl.output("result", 9, U32).with_count(1)
WORDS = np.arange(1, 9, dtype=np.uint32)


def operation(parameters: list[BufferDecl], *nodes: Node, result: BufferDecl = RESULT) -> Program:
    return Program.wrapped([*parameters, result], (1, 1, 1), nodes)


A, B = BufferDecl.read("a", 0, U32), BufferDecl.read("b", 1, U32)
DIFFERENCE = operation([A, B], store("result", u32(0), load("a", u32(0)) - load("b", u32(0))))
TAKE = operation([BufferDecl.read_write("counter", 0, U32)], store("result", u32(0), atomic_add("counter", u32(0), u32(1))))
SUM = operation(
    [A],
    let("i", u32(0)),
    loop("k", u32(0), buf_len("a"), lambda k: [store("result", u32(0), load("result", u32(0)) + load("a", k))]),
)
OPERATIONS = {"difference": DIFFERENCE, "take": TAKE, "sum": SUM}


def caller(value: Expr, *before: Node) -> Program:
    """A program of eight invocations that store a value each."""
    guarded = if_(gid_x() < buf_len("out"), [*before, store("out", gid_x(), value)])
    return Program.wrapped([X, Y, OUT.with_count(8)], (8, 1, 1), [guarded])


def outputs(program: Program, operations: dict[str, Program] = OPERATIONS, y: int = 0) -> list[list[int]]:
    inlined = inline_calls(program, operations)
    assert not any(isinstance(term, Call) for term in terms_within(*inlined.entry))
    assert examine(inlined).problems == ()
    return [array.tolist() for array in run(inlined, [WORDS, np.array([y], np.uint32)], grid=(1, 1, 1))]


def refused(program: Program, operations: dict[str, Program] = OPERATIONS) -> str:
    with pytest.raises(InvalidProgram) as error:
        inline_calls(program, operations)
    return str(error.value)


def test_a_program_without_calls_is_itself() -> None:
    program = caller(load("x", gid_x()))
    assert inline_calls(program, {}) is program


def test_values_are_what_the_parameters_hold() -> None:
    ten = call("difference", u32(10), load("x", gid_x()))
    assert outputs(caller(ten))[-1] == [9, 8, 7, 6, 5, 4, 3, 2]
    assert outputs(caller(call("difference", ten, call("difference", u32(2), u32(1)))))[-1] == [8, 7, 6, 5, 4, 3, 2, 1]


def test_a_reference_to_a_buffer_is_the_callers_buffer() -> None:
    assert outputs(caller(call("sum", BufferRef("x")) + gid_x()))[-1] == [36, 37, 38, 39, 40, 41, 42, 43]


def test_a_value_is_a_buffer_of_one_element() -> None:
    length = operation([A], store("result", u32(0), buf_len("a") + load("a", u32(0))))
    assert outputs(caller(call("length", u32(5))), {"length": length})[-1] == [6] * 8


def test_each_place_of_a_call_calls() -> None:
    take = call("take", BufferRef("y"))
    alone = Program.wrapped([X, Y, OUT.with_count(1)], (1, 1, 1), [store("out", u32(0), take + take * u32(10))])
    assert outputs(alone, y=3) == [[5], [43]]


def test_what_stands_before_a_call_is_evaluated_before_it() -> None:
    counter = BufferDecl.read_write("counter", 0, U32)
    step = operation([counter], store("counter", u32(0), load("counter", u32(0)) + u32(1)))
    value = load("y", u32(0)) * u32(100) + call("step", BufferRef("y")) * u32(10) + load("y", u32(0))
    alone = Program.wrapped([X, Y, OUT.with_count(1)], (1, 1, 1), [store("out", u32(0), value)])
    assert outputs(alone, {"step": step}, y=3) == [[4], [304]]


def test_bounds_of_loops_and_conditions_are_evaluated_once_where_they_stand() -> None:
    nodes = [
        let("total", u32(0)),
        loop("k", call("take", BufferRef("y")), u32(6), lambda k: [store("out", u32(0), load("out", u32(0)) + k)]),
        if_(call("take", BufferRef("y")).eq(u32(4)), [store("out", u32(1), u32(1))], [store("out", u32(2), u32(1))]),
    ]
    alone = Program.wrapped([X, Y, OUT.with_count(3)], (1, 1, 1), nodes)
    assert outputs(alone, y=3) == [[5], [3 + 4 + 5, 1, 0]]


def test_names_of_caller_and_operations_may_be_alike() -> None:
    inner = operation([A], let("i", load("a", u32(0))), store("result", u32(0), var("i") + u32(1)))
    outer = operation(
        [A], let("i", call("inner", load("a", u32(0)))), store("result", u32(0), var("i") * call("inner", u32(1)))
    )
    program = caller(call("outer", var("i")) + var("i"), let("i", load("x", gid_x())), let("inner.i.0", u32(0)))
    assert outputs(program, {"inner": inner, "outer": outer})[-1] == [5, 8, 11, 14, 17, 20, 23, 26]


def test_a_thousand_calls_of_one_operation_are_replaced() -> None:
    calls = [let(f"v{i}", call("difference", gid_x(), u32(1))) for i in range(1000)]
    inlined = inline_calls(caller(u32(0), *calls), OPERATIONS)
    kinds = Counter(type(term).__name__ for term in terms_within(*inlined.entry) if isinstance(term, Let | Region))
    assert (kinds, examine(inlined).problems) == ({"Let": 2000, "Region": 2001}, ())


def test_each_call_has_workgroup_memory_of_its_own() -> None:
    scratch = BufferDecl.workgroup("scratch", 4, U32)
    keep = operation(
        [A, scratch],
        store("result", u32(0), load("scratch", u32(0))),
        store("scratch", u32(0), load("a", u32(0))),
    )
    program = Program.wrapped(
        [X, Y, OUT.with_count(1)], (1, 1, 1), [store("out", u32(0), call("keep", u32(7)) + call("keep", u32(8)))]
    )
    inlined = inline_calls(program, {"keep": keep})
    assert [buffer.name for buffer in inlined.buffers] == ["x", "y", "out", "keep.scratch.0", "keep.scratch.1"]
    assert outputs(program, {"keep": keep})[-1] == [0]


@pytest.mark.parametrize("element", [DataType.I32, DataType.F32, DataType.U64, DataType.I64, DataType.F16], ids=str)
def test_results_may_have_any_type_that_a_variable_holds(element: DataType) -> None:
    result = BufferDecl.output("result", 9, element).with_count(1)
    convert = operation([A], store("result", u32(0), cast(element, load("a", u32(0)))), result=result)
    if element is DataType.F16:
        as_f32 = cast(DataType.F32, load("a", u32(0)))
        convert = operation([A], store("result", u32(0), cast(element, as_f32)), result=result)
    value = call("convert", load("x", gid_x()))
    back = cast(U32, cast(DataType.F32, value)) if element is DataType.F16 else cast(U32, value)
    assert outputs(caller(back), {"convert": convert})[-1] == WORDS.tolist()


@pytest.mark.parametrize(
    ("value", "operations", "said"),
    [
        (call("none"), {}, "no operation 'none' is given"),
        (call("difference", u32(1)), OPERATIONS, "operation 'difference' has 2 parameters, and a call passes 1 arguments"),
        (call("sum", BufferRef("z")), OPERATIONS, "passes buffer 'z', which is not declared"),
        (call("sum", u32(1)), OPERATIONS, "passes a value for 'a', and the operation does more than load its element 0"),
        (call("take", u32(1)), OPERATIONS, "passes a value for 'counter'"),
        (call("ends"), {"ends": operation([], return_())}, "operation 'ends' returns"),
        (call("no"), {"no": Program.wrapped([A], (1, 1, 1), [])}, "operation 'no' has 0 outputs"),
        (call("at"), {"at": operation([], store("result", gid_x(), u32(1)))}, "uses its output 'result' other than"),
        (call("i"), {"i": operation([], store("result", u32(0), call("i")))}, "operation 'i' calls itself"),
    ],
)
def test_calls_that_cannot_be_replaced_are_refused(value: Expr, operations: dict[str, Program], said: str) -> None:
    text = refused(caller(value), operations)
    assert said in text
    assert re.search(r"\. Fix: [a-z].*\.$", text)


def test_a_buffer_of_other_elements_is_refused() -> None:
    floats = operation([BufferDecl.read("a", 0, DataType.F32)], store("result", u32(0), buf_len("a")))
    assert "passes buffer 'x' of u32 for one of f32" in refused(caller(call("f", BufferRef("x"))), {"f": floats})


def test_operations_that_call_each_other_deep_or_often_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = {f"op{i}": operation([], store("result", u32(0), call(f"op{i + 1}"))) for i in range(40)}
    assert "more than 32 deep" in refused(caller(call("op0")), chain)
    doubling = {f"op{i}": operation([], store("result", u32(0), call(f"op{i + 1}") + call(f"op{i + 1}"))) for i in range(30)}
    doubling["op30"] = operation([], store("result", u32(0), u32(1)))
    monkeypatch.setattr(inlining, "MAX_NODES", 1000)
    assert "nodes, over 1000" in refused(caller(call("op0")), doubling)
