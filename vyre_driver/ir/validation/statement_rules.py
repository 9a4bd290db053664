"""Scopes, and the rules about statements.

Every body opens a scope: that of a region too, as upstream's validator and oracle have it.

Source: spec item 1.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.ir.arithmetic import LitI32, LitU32
from vyre_driver.ir.buffers import BufferAccess
from vyre_driver.ir.dtypes import BYTES, DataType
from vyre_driver.ir.nodes import (
    AllGather,
    AllReduce,
    Assign,
    AsyncLoad,
    AsyncStore,
    AsyncWait,
    Barrier,
    Block,
    Broadcast,
    If,
    IndirectDispatch,
    Let,
    Loop,
    OpaqueNode,
    ReduceScatter,
    Region,
    Resume,
    Return,
    Store,
    Trap,
)
from vyre_driver.ir.operators import MemoryOrdering
from vyre_driver.ir.validation.expression_rules import ExpressionChecker, Variable
from vyre_driver.ir.validation.operator_types import is_storable
from vyre_driver.ir.validation.rules import Rule, quoted, spelled
from vyre_driver.ir.validation.uniformity import RETURNED
from vyre_driver.ir.walks import NodeWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.buffers import BufferDecl
    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.program import Program
    from vyre_driver.ir.validation.call_rules import OperationSignature
    from vyre_driver.ir.validation.rules import Findings
    from vyre_driver.ir.validation.uniformity import Name

_U32 = DataType.U32.wire_tag
_CONDITIONS = frozenset({_U32, DataType.Bool.wire_tag})


class StatementChecker:
    """Checks the statements of one program, and the expressions in them."""

    def __init__(
        self,
        program: Program,
        buffers: Mapping[str, BufferDecl],
        findings: Findings,
        operations: Mapping[str, OperationSignature] | None,
    ) -> None:
        """Check against these buffers and operations."""
        self.barrier_in_doubt = False  # whether a barrier stands under an if or loop, or after a return
        self._branching = 0  # how many of these are open; a return counts for good
        self.asks_device = False  # whether there is a node that not every device has
        self.assigned_in: dict[int, set[Name]] = {}  # what each loop assigns anywhere in its body, by its id
        self._loops: list[Loop] = []
        self._buffers = buffers
        self._writable = {name for name, buffer in buffers.items() if buffer.is_writable}
        self._findings = findings
        self._walk = NodeWalk(program)
        self._expressions = ExpressionChecker(buffers, findings, operations)
        # What each open scope declared, with what the name was outside; a loop opens one for its variable and one for its body.
        self._scopes: list[dict[str, Variable | None]] = []
        self._handlers: dict[type[Node], Callable[[Any], None]] = {cls: getattr(self, name) for cls, name in _HANDLERS.items()}

    def check(self) -> None:
        """Walk the whole program."""
        handlers, report, walk = self._handlers, self._expressions.report, self._walk
        for step, node in walk.steps():
            if step == "node" and node is not None:
                handlers.get(type(node), self._unknown)(node)
                report(node, walk)
            elif step == "open":
                self._open(node)
            else:
                self._close(node)

    def _open(self, owner: Node | None) -> None:
        self._branching += isinstance(owner, If | Loop)
        if isinstance(owner, Loop):
            self._loops.append(owner)
            self.assigned_in.setdefault(id(owner), set())
            self._scopes.append({})
            self._declare(owner.var, Variable(DataType.U32, is_loop=True))
        self._scopes.append({})

    def _close(self, owner: Node | None) -> None:
        is_loop = isinstance(owner, Loop)
        self._branching -= isinstance(owner, If | Loop)
        if is_loop:
            self._loops.pop()
        for _ in range(2 if is_loop else 1):
            scope = self._scopes.pop()
            for name, outside in scope.items():
                if outside is None:
                    del self._expressions.variables[name]
                else:
                    self._expressions.variables[name] = outside
            if scope:
                self._expressions.forget()

    def _declare(self, name: str, variable: Variable) -> None:
        scope = self._scopes[-1]
        if name not in scope:
            scope[name] = self._expressions.variables.get(name)
        self._expressions.declare(name, variable)

    def _add(self, rule: Rule, message: str, fix: str, field: str = "") -> None:
        self._findings.add(rule, lambda: self._walk.path() + (f".{field}" if field else ""), message, fix)

    def _want_u32(self, expr: Expr, field: str, what: str, rule: Rule = Rule.INDEX) -> None:
        got = self._expressions.type_of(expr)
        if got is not None and got.wire_tag != _U32:
            self._add(rule, f"{what} must be u32, and is {spelled(got)}", "cast it to u32", field)

    def _written(self, name: str, field: str) -> BufferDecl | None:
        buffer = self._named(name, field)
        if buffer is not None and name not in self._writable:
            text = f"buffer {quoted(name)} is {buffer.access.name}, and is written here"
            self._add(Rule.NOT_WRITABLE, text, "declare it read-write", field)
        return buffer

    def _named(self, name: str, field: str) -> BufferDecl | None:
        buffer = self._buffers.get(name)
        if buffer is None:
            self._add(Rule.UNKNOWN_BUFFER, f"there is no buffer {quoted(name)}", "declare it, or name another", field)
        return buffer

    def _let(self, node: Let) -> None:
        dtype = self._expressions.type_of(node.value)
        if node.name in self._scopes[-1]:
            text = f"variable {quoted(node.name)} is declared twice in one body"
            self._add(Rule.LET_TWICE, text, "assign to it, or use another name")
        else:
            self._refuse_shadowing(node.name)
        self._declare(node.name, Variable(dtype, is_loop=False))

    def _refuse_shadowing(self, name: str) -> None:
        if name in self._expressions.variables:
            text = f"variable {quoted(name)} hides that of an enclosing body"
            self._add(Rule.SHADOWING, text, "use another name")

    def _assign(self, node: Assign) -> None:
        dtype = self._expressions.type_of(node.value)
        self._note_assignment(node.name)
        variable = self._expressions.variables.get(node.name)
        if variable is None:
            self._add(Rule.UNDECLARED, f"no variable {quoted(node.name)} is in scope", "declare it with let before")
        elif variable.is_loop:
            self._add(
                Rule.LOOP_VARIABLE, f"{quoted(node.name)} is the variable of a loop", "declare a variable of your own with let"
            )
        elif dtype is not None and variable.dtype is not None and dtype is not variable.dtype and dtype != variable.dtype:
            text = f"variable {quoted(node.name)} is {spelled(variable.dtype)}, and is given {spelled(dtype)}"
            self._add(Rule.VALUE_TYPE, text, f"cast the value to {spelled(variable.dtype)}", "value")

    def _note_assignment(self, name: Name) -> None:
        for enclosing in self._loops:
            self.assigned_in[id(enclosing)].add(name)

    def _store(self, node: Store) -> None:
        buffer = self._written(node.buffer, "buffer")
        if isinstance(node.index, LitI32) and node.index.value < 0:
            self._expressions.type_of(node.index)
            self._add(Rule.STORE_RANGE, f"the index is {node.index.value}", "store at 0 or above", "index")
        else:
            self._want_u32(node.index, "index", "the index of a store")
        dtype = self._expressions.type_of(node.value)
        if buffer is None:
            return
        element = buffer.element
        if isinstance(node.index, LitU32) and node.index.value >= buffer.count > 0:
            text = f"the index is {node.index.value}, and buffer {quoted(buffer.name)} has {buffer.count} elements"
            self._add(Rule.STORE_RANGE, text, f"store below {buffer.count}", "index")
        if element.wire_tag == BYTES and not buffer.bytes_extraction:
            text = f"buffer {quoted(buffer.name)} holds bytes, which are not stored"
            self._add(Rule.BYTES_ELEMENT, text, "declare it with_bytes_extraction(True)", "buffer")
        elif dtype is not None and not is_storable(dtype, element):
            text = f"buffer {quoted(buffer.name)} holds {spelled(element)}, and is given {spelled(dtype)}"
            self._add(Rule.VALUE_TYPE, text, f"cast the value to {spelled(element)}", "value")

    def _if(self, node: If) -> None:
        dtype = self._expressions.type_of(node.cond)
        if dtype is not None and dtype.wire_tag not in _CONDITIONS:
            text = f"the condition of an if must be u32 or bool, and is {spelled(dtype)}"
            self._add(Rule.CONDITION, text, "compare it", "cond")

    def _loop(self, node: Loop) -> None:
        self._want_u32(node.start, "start", "the start of a loop", Rule.LOOP_BOUND)
        self._want_u32(node.stop, "stop", "the stop of a loop", Rule.LOOP_BOUND)
        self._refuse_shadowing(node.var)

    def _return(self, _node: Return) -> None:
        self._note_assignment(RETURNED)
        self._branching += 1
        following = self._walk.following
        if following:
            self._add(Rule.UNREACHABLE, f"{following} nodes follow a return in its body", "remove them, or return under an if")

    @property
    def saw_atomic(self) -> bool:
        """Whether the program has an atomic."""
        return self._expressions.saw_atomic

    @property
    def needs_a_device(self) -> bool:
        """Whether the program has anything that not every device has."""
        return self.asks_device or self._expressions.asks_device

    def _barrier(self, node: Barrier) -> None:
        self.barrier_in_doubt |= self._branching > 0
        if node.ordering is MemoryOrdering.RELAXED:
            text = "a barrier cannot be ordered RELAXED"
            self._add(Rule.BARRIER_ORDERING, text, "use ACQUIRE, RELEASE, ACQ_REL, SEQ_CST or GRID_SYNC")

    def _indirect(self, node: IndirectDispatch) -> None:
        self.asks_device = True
        self._named(node.count_buffer, "count_buffer")
        if node.count_offset % 4:
            text = f"the offset is {node.count_offset} bytes, which is not a multiple of 4"
            self._add(Rule.INDIRECT_OFFSET, text, "align the counts to 4 bytes", "count_offset")

    def _copy(self, node: AsyncLoad | AsyncStore) -> None:
        self._named(node.source, "source")
        self._written(node.destination, "destination")
        self._want_u32(node.offset, "offset", "the offset of a copy")
        self._want_u32(node.size, "size", "the size of a copy")
        self._tag(node)

        for name, field in ((node.source, "source"), (node.destination, "destination")):
            buffer = self._buffers.get(name)
            if buffer is not None and buffer.is_local:
                text = f"{quoted(name)} is memory of an invocation's own, which is not copied"
                self._add(Rule.LOCAL, text, "load and store its elements", field)

    def _tag(self, node: AsyncLoad | AsyncStore | AsyncWait) -> None:
        if not node.tag:
            self._add(Rule.TAG, "the tag of an asynchronous copy is empty", "name the copy", "tag")

    def _trap(self, node: Trap) -> None:
        self.asks_device = True
        self._want_u32(node.address, "address", "the address of a trap")

    def _resume(self, _node: Resume) -> None:
        self.asks_device = True

    def _body(self, _node: Block | Region) -> None:
        """Nothing can be wrong with it by itself."""

    def _in_place(self, node: AllReduce | Broadcast) -> None:
        buffer = self._collective(node.buffer, "buffer")
        if buffer is not None:
            self._written(node.buffer, "buffer")

    def _between(self, node: AllGather | ReduceScatter) -> None:
        source, target = self._collective(node.input, "input"), self._collective(node.output, "output")
        if target is not None:
            self._written(node.output, "output")
        if source is not None and target is not None and source.element != target.element:
            text = f"a collective from {spelled(source.element)} to {spelled(target.element)}"
            self._add(Rule.COLLECTIVE, text, "use buffers of one element type")

    def _collective(self, name: str, field: str) -> BufferDecl | None:
        self.asks_device = True
        buffer = self._buffers.get(name)
        if buffer is None:
            self._add(Rule.COLLECTIVE, f"there is no buffer {quoted(name)}", "declare it, or name another", field)
        elif buffer.access is BufferAccess.WORKGROUP:
            text = f"{quoted(name)} is workgroup memory, which other devices do not see"
            self._add(Rule.COLLECTIVE, text, "use a buffer outside workgroup memory", field)
            return None
        return buffer

    def _opaque(self, node: OpaqueNode) -> None:
        if not node.kind:
            self._add(Rule.OPAQUE_NODE, "an opaque node has no kind", "name the extension's kind")

    def _unknown(self, node: Node) -> None:
        text = f"{type(node).__name__} is not a node of this language"
        self._add(Rule.OPAQUE_NODE, text, "use OpaqueNode for what an extension defines")


_HANDLERS: dict[type[Node], str] = {
    Let: "_let",
    Assign: "_assign",
    Store: "_store",
    If: "_if",
    Loop: "_loop",
    Return: "_return",
    Block: "_body",
    Region: "_body",
    Barrier: "_barrier",
    IndirectDispatch: "_indirect",
    AsyncLoad: "_copy",
    AsyncStore: "_copy",
    AsyncWait: "_tag",
    Trap: "_trap",
    Resume: "_resume",
    AllReduce: "_in_place",
    Broadcast: "_in_place",
    AllGather: "_between",
    ReduceScatter: "_between",
    OpaqueNode: "_opaque",
}
