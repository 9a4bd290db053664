# ruff: noqa: ANN401 -- terms and values of any kind are what it is about
"""The semantics of programs a second time, in plain Python: one invocation after the other, one number after the other.

Nothing is shared with the product but the terms of a program. f32 are held as their bits; sums, products, quotients and square
roots are computed in Python's f64 and rounded, which is exact for these (53 >= 2 * 24 + 2 bits), fma in fractions.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from arithmetic_twin import INTEGERS, NAMES, Fault, binary, cast, fused, number, unary, wrap
from extension_twin import MASK, exchanged, extended

from vyre_driver.ir.extensions import application
from vyre_driver.ir.functions.bodies import body_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vyre_driver.ir.program import Program


class Ended(Exception):
    """The invocation has returned."""


class Invocation:
    """One invocation; ``memory`` holds lists of plain values."""

    def __init__(
        self, memory: dict[str, list[Any]], types: dict[str, str], ids: dict[str, tuple[int, ...]], pushed: set[str]
    ) -> None:
        self.pushed = pushed
        self.memory = memory
        self.types = types
        self.ids = ids
        self.scopes: list[dict[str, Any]] = []
        self.known: dict[int, tuple[str, Any]] = {}  # parts of the body of a function that is being evaluated

    def run(self, nodes: Sequence[Any]) -> Iterator[None]:
        try:
            yield from self.body(nodes)
        except Ended:
            return

    def body(self, nodes: Sequence[Any], **variables: Any) -> Iterator[None]:
        self.scopes.append(variables)
        for node in nodes:
            steps = getattr(self, f"do_{type(node).__name__.lower()}")(node)
            if steps is not None:
                yield from steps
        self.scopes.pop()

    def do_let(self, node: Any) -> None:
        self.scopes[-1][node.name] = self.value(node.value)

    def do_assign(self, node: Any) -> None:
        value = self.value(node.value)
        next(scope for scope in reversed(self.scopes) if node.name in scope)[node.name] = value

    def do_store(self, node: Any) -> None:
        index, value = self.value(node.index)[1], self.value(node.value)[1]
        if index < len(self.memory[node.buffer]):
            self.memory[node.buffer][index] = int(value) if self.types[node.buffer] == "Bool" else value

    def do_if(self, node: Any) -> Iterator[None]:
        yield from self.body(node.then if self.value(node.cond)[1] else node.otherwise)

    def do_loop(self, node: Any) -> Iterator[None]:
        ending = ending_condition(node, self.pushed)
        for turn in range(self.value(node.start)[1], self.value(node.stop)[1]):
            if ending is not None and not self.value(ending)[1]:
                return
            yield from self.body(node.body, **{node.var: ("U32", turn)})

    def do_block(self, node: Any) -> Iterator[None]:
        return self.body(node.body)

    do_region = do_block

    def do_return(self, _node: Any) -> None:
        raise Ended

    def do_barrier(self, _node: Any) -> Iterator[None]:
        yield

    def do_trap(self, node: Any) -> None:
        raise Fault(node.tag)

    def value(self, expr: Any) -> tuple[str, Any]:
        known = self.known.get(id(expr))
        return getattr(self, f"of_{type(expr).__name__.lower()}")(expr) if known is None else known

    def of_litu32(self, expr: Any) -> tuple[str, Any]:
        return "U32", expr.value

    def of_liti32(self, expr: Any) -> tuple[str, Any]:
        return "I32", expr.value

    def of_litbool(self, expr: Any) -> tuple[str, Any]:
        return "Bool", expr.value

    def of_litf32(self, expr: Any) -> tuple[str, Any]:
        return "F32", expr.bits

    def of_opaqueexpr(self, expr: Any) -> tuple[str, Any]:
        name = expr.kind.rpartition(".")[2].upper()
        return name, int.from_bytes(expr.payload, "little", signed=name == "I64")

    def of_var(self, expr: Any) -> tuple[str, Any]:
        return next(scope[expr.name] for scope in reversed(self.scopes) if expr.name in scope)

    def of_load(self, expr: Any) -> tuple[str, Any]:
        index, name = self.value(expr.index)[1], self.types[expr.buffer]
        found = self.memory[expr.buffer]
        value = found[index] if index < len(found) else (0,) * int(name[3]) if name.startswith("Vec") else 0
        return name, value != 0 if name == "Bool" else value

    def of_buflen(self, expr: Any) -> tuple[str, Any]:
        return "U32", len(self.memory[expr.buffer])

    def of_invocationid(self, expr: Any) -> tuple[str, Any]:
        return "U32", self.ids["invocation"][expr.axis]

    def of_workgroupid(self, expr: Any) -> tuple[str, Any]:
        return "U32", self.ids["workgroup"][expr.axis]

    def of_localid(self, expr: Any) -> tuple[str, Any]:
        return "U32", self.ids["local"][expr.axis]

    def of_binary(self, expr: Any) -> tuple[str, Any]:
        (name, left), (other, right) = self.value(expr.left), self.value(expr.right)
        return binary(expr.op.name, name, left, right, other)

    def of_unary(self, expr: Any) -> tuple[str, Any]:
        return unary(expr.op.name, *self.value(expr.operand))

    def of_select(self, expr: Any) -> tuple[str, Any]:
        chosen, one, other = (self.value(part) for part in (expr.cond, expr.true_value, expr.false_value))
        return one if chosen[1] else other

    def of_cast(self, expr: Any) -> tuple[str, Any]:
        found = application(expr)
        if found is not None:
            return self.of_extension(found)
        name, value = self.value(expr.value)
        return NAMES[expr.target], cast(name, NAMES[expr.target], value)

    def of_extension(self, found: Any) -> tuple[str, Any]:
        operands = [self.value(one) for one in found.operands]
        body = body_of(found.operator.name)
        if body is None:
            return NAMES[found.operator.result], extended(found.operator.name, [value for _, value in operands])
        outside, self.known = self.known, {id(one): value for one, value in zip(body.parameters, operands, strict=True)}
        for part in body.parts:
            self.known[id(part)] = self.value(part)
        result, self.known = self.known[id(body.parts[-1])], outside
        return result

    def of_fma(self, expr: Any) -> tuple[str, Any]:
        return "F32", fused(*(number(self.value(part)[1]) for part in (expr.a, expr.b, expr.c)))

    def of_atomic(self, expr: Any) -> tuple[str, Any]:
        index = self.value(expr.index)[1]
        expected = None if expr.expected is None else self.value(expr.expected)[1]
        value, words = self.value(expr.value)[1], self.memory[expr.buffer]
        if index >= len(words):
            return "U32", 0
        name, op = self.types[expr.buffer], expr.op.name
        old = words[index] & MASK
        left = (value if old == expected else old) if op == "COMPARE_EXCHANGE" else exchanged(op, name, old, value)
        words[index] = wrap(left, "I32") if name == "I32" else left
        return "U32", old


SETTLED = {"LitU32", "LitI32", "LitF32", "LitBool", "Var", "BufLen", "InvocationId", "WorkgroupId", "LocalId"}
COMPOSED = {
    "Binary": "left right",
    "Unary": "operand",
    "Cast": "value",
    "Fma": "a b c",
    "Select": "cond true_value false_value",
}


def ending_condition(loop: Any, pushed: set[str]) -> Any:
    """The condition of a loop that ends when it first fails, or None."""
    if len(loop.body) != 1 or type(loop.body[0]).__name__ != "If" or loop.body[0].otherwise:
        return None
    waiting = [loop.body[0].cond]
    for part in waiting:
        name = type(part).__name__
        if name == "Var" and part.name == loop.var:
            return None
        if name == "Load" and part.buffer in pushed:
            waiting.append(part.index)
        elif name in COMPOSED:
            waiting += [getattr(part, field) for field in COMPOSED[name].split()]
        elif name not in SETTLED and not (name == "OpaqueExpr" and part.kind.startswith("vyre.literal.")):
            return None
    return loop.body[0].cond


def elements(data: np.ndarray, name: str) -> list[Any]:
    """The elements of a buffer's array as plain values; f64 are their bits."""
    name = name.replace("F64", "U64")
    raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    if name.startswith("Vec"):
        return [tuple(row) for row in raw.view(np.uint32).reshape(-1, int(name[3])).tolist()]
    if name == "Bool":
        return raw.view(np.uint32).tolist()  # words, which stay as they are where nothing is stored
    kind = "u4" if name == "F32" else f"{'i' if INTEGERS[name][1] else 'u'}{INTEGERS[name][0] // 8}"
    return raw.view(kind).tolist()


def packed(values: list[Any], name: str) -> bytes:
    """Plain values as the bytes of a buffer."""
    name = name.replace("F64", "U64")
    if name.startswith("Vec"):
        return np.array(values, np.uint32).tobytes()
    kind = "u4" if name in {"F32", "Bool"} else f"{'i' if INTEGERS[name][1] else 'u'}{INTEGERS[name][0] // 8}"
    return np.array([int(one) for one in values], kind).tobytes()


def run_slowly(program: Program, inputs: Sequence[np.ndarray], grid: tuple[int, int, int]) -> dict[str, bytes]:
    """Run a program; returns the bytes of every buffer that may be written and outlives it.

    ``inputs`` are for the buffers that are neither outputs nor in workgroup memory, in the order of the declarations.
    """
    types = {buffer.name: NAMES[buffer.element] for buffer in program.buffers}
    given = iter(inputs)
    memory: dict[str, list[Any]] = {}
    shared = [one for one in program.buffers if one.access.name == "WORKGROUP"]
    for buffer in program.buffers:
        if buffer not in shared:
            size = buffer.element.size_bytes or 0
            data = np.zeros(buffer.count * size, np.uint8) if buffer.is_output else next(given)
            memory[buffer.name] = elements(data, types[buffer.name])
    for group in product(*(range(size) for size in reversed(grid))):
        for one in shared:
            memory[one.name] = elements(np.zeros(one.count * (one.element.size_bytes or 0), np.uint8), types[one.name])
        _run_group(program, memory, types, group[::-1])
    written = {one.name for one in program.buffers if one.access.name == "READ_WRITE"}
    return {name: packed(memory[name], types[name]) for name in memory if name in written}


def _run_group(program: Program, memory: dict[str, list[Any]], types: dict[str, str], group: tuple[int, ...]) -> None:
    waiting = []
    pushed = {one.name for one in program.buffers if one.kind.name == "PUSH"}
    for local in product(*(range(size) for size in reversed(program.workgroup_size))):
        own = local[::-1]
        at = tuple(one * size + place for one, size, place in zip(group, program.workgroup_size, own, strict=True))
        ids = {"invocation": at, "workgroup": group, "local": own}
        mine = {
            one.name: elements(np.zeros(one.count * (one.element.size_bytes or 0), np.uint8), types[one.name])
            for one in program.buffers
            if one.kind.name == "LOCAL"
        }
        waiting.append(Invocation({**memory, **mine} if mine else memory, types, ids, pushed).run(program.entry))
    while waiting:
        stopped = [one for one in waiting if next(one, waiting) is not waiting]
        assert len(stopped) in {0, len(waiting)}
        waiting = stopped
