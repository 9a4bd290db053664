"""The rules of upstream 0.7 about statements, in the order in which it walks them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.ir.arithmetic import LitI32, LitU32
from vyre_driver.ir.buffers import BufferAccess
from vyre_driver.ir.dtypes import BYTES, DataType
from vyre_driver.ir.nodes import (
    COLLECTIVES,
    AllGather,
    AllReduce,
    Assign,
    AsyncLoad,
    AsyncStore,
    AsyncWait,
    Barrier,
    Broadcast,
    If,
    IndirectDispatch,
    Let,
    Loop,
    OpaqueNode,
    ReduceScatter,
    Region,
    Return,
    Store,
)
from vyre_driver.ir.operators import MemoryOrdering
from vyre_driver.ir.validation.buffer_uses import Uses, uses_of
from vyre_driver.ir.validation.operator_types import is_storable
from vyre_driver.ir.validation.rules import quoted, spelled
from vyre_driver.ir.validation.upstream_exits import LoopExits, is_uniform
from vyre_driver.ir.validation.upstream_expressions import Binding, UpstreamExpressions
from vyre_driver.ir.walks import MAX_NESTING, MAX_NODES, NodeWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.buffers import BufferDecl
    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.program import Program
    from vyre_driver.ir.validation.call_rules import OperationSignature
    from vyre_driver.ir.validation.profile_rules import DeviceCapabilities
    from vyre_driver.ir.validation.upstream_rules import UpstreamFindings

_U32 = DataType.U32
_CONDITIONS = frozenset({_U32, DataType.Bool})
_WRITABLE = frozenset({BufferAccess.READ_WRITE, BufferAccess.WRITE_ONLY, BufferAccess.WORKGROUP})
_SELF_EXCLUSIVE = "#self-exclusive"  # ends the generator of a region that a program may have once


class _Body:
    """An open body: whether not all come, what its names were outside, its own lets, and what is used since a barrier."""

    def __init__(self, node: Node | None, *, divergent: bool) -> None:
        self.node = node
        self.divergent = divergent
        self.outside: list[tuple[str, Binding | None]] = []
        self.lets: set[str] = set()
        self.plain: set[str] = set()
        self.atomic: set[str] = set()


class UpstreamStatements:
    """Checks the statements of one program."""

    def __init__(
        self,
        program: Program,
        buffers: Mapping[str, BufferDecl],
        findings: UpstreamFindings,
        capabilities: DeviceCapabilities | None,
        operations: Mapping[str, OperationSignature] | None,
    ) -> None:
        """Check against these buffers and, unless None, a device and operations."""
        self._walk = NodeWalk(program)
        self._buffers = buffers
        self._findings = findings
        self._capabilities = capabilities
        self._expressions = UpstreamExpressions(buffers, findings, self._walk, capabilities, operations)
        self._scope = self._expressions.scope
        self._bodies: list[_Body] = []
        self._uses: dict[int, Uses] = {}
        self._exits = LoopExits()
        self._exclusive: dict[str, int] = {}
        self._together: dict[int, bool] = {}  # of each if and loop, by its id, whether all take it alike
        self._handlers: dict[type[Node], Callable[[Any], None]] = {cls: getattr(self, name) for cls, name in _HANDLERS.items()}

    def check(self) -> None:
        """Walk the program, up to the first node that is too many or too deep."""
        count = 0
        for step, node in self._walk.steps():
            if step == "open":
                self._open(node)
            elif step == "close":
                self._close()
            elif node is not None:
                count += 1
                if count > MAX_NODES:
                    self._add("V019", f"there are over {MAX_NODES} nodes")
                    return
                if len(self._bodies) > MAX_NESTING + 1:
                    self._add("V018", f"nodes nest over {MAX_NESTING + 1} deep")
                    return
                self._node(node)
        for generator, times in sorted(self._exclusive.items()):
            if times > 1:
                self._findings.add("V115", "entry", f"the region {quoted(generator)} may stand once, and stands {times} times")

    def _node(self, node: Node) -> None:
        self._expressions.begin(node)
        handler = self._handlers.get(type(node))
        if handler is not None:
            handler(node)
        elif isinstance(node, COLLECTIVES):
            self._collective(node)
        self._note_uses(node)
        if isinstance(node, Region) and node.generator.endswith(_SELF_EXCLUSIVE):
            generator = node.generator.removesuffix(_SELF_EXCLUSIVE)
            self._exclusive[generator] = self._exclusive.get(generator, 0) + 1

    def _open(self, owner: Node | None) -> None:
        divergent = bool(self._bodies) and self._bodies[-1].divergent
        together = self._together.get(id(owner), True)
        self._bodies.append(_Body(owner, divergent=divergent or not together))
        if isinstance(owner, Loop):
            self._bind(owner.var, Binding(_U32, is_loop=True, is_uniform=together and not divergent))

    def _close(self) -> None:
        body = self._bodies.pop()
        for name, before in reversed(body.outside):
            if before is None:
                self._scope.pop(name, None)
            else:
                self._scope[name] = before
        if isinstance(body.node, If | Loop) and self._bodies and self._walk.field != "then":
            uses = uses_of(body.node, self._uses)
            self._bodies[-1].plain |= uses[0]
            self._bodies[-1].atomic |= uses[1]

    def _bind(self, name: str, binding: Binding) -> None:
        self._bodies[-1].outside.append((name, self._scope.get(name)))
        self._scope[name] = binding

    def _is_uniform(self, expr: Expr) -> bool:
        return is_uniform(expr, self._is_uniform_variable, lambda _: False)

    def _is_uniform_variable(self, name: str) -> bool:
        return name in self._scope and self._scope[name].is_uniform

    def _add(self, code: str, message: str, field: str = "") -> None:
        self._findings.add(code, lambda: self._walk.path() + (f".{field}" if field else ""), message)

    def _let(self, node: Let) -> None:
        self._expressions.check(node.value)
        lets = self._bodies[-1].lets
        if node.name in lets:
            self._add("V032", f"variable {quoted(node.name)} is declared twice in one body")
        else:
            lets.add(node.name)
            self._refuse_shadowing(node.name)
        dtype = self._expressions.type_of(node.value)
        uniform = self._is_uniform(node.value)
        self._bind(node.name, Binding(dtype or _U32, is_known=dtype is not None, is_uniform=uniform))

    def _refuse_shadowing(self, name: str) -> None:
        if name in self._scope:
            self._add("V008", f"variable {quoted(name)} hides that of an enclosing body")

    def _assign(self, node: Assign) -> None:
        name, dtype = quoted(node.name), self._expressions.type_of(node.value)
        binding, buffer = self._scope.get(node.name), self._buffers.get(node.name)
        if binding is not None:
            if binding.is_loop:
                self._add("V011", f"{name} is the variable of a loop")
            if binding.is_known and dtype is not None and dtype != binding.dtype:
                self._add("V045", f"variable {name} is {spelled(binding.dtype)}, and is given {spelled(dtype)}", "value")
        elif buffer is not None:
            if buffer.access is not BufferAccess.READ_WRITE:
                self._add("V119", f"buffer {name} is {buffer.access.name}, and is assigned to here")
            if dtype is not None and not is_storable(dtype, buffer.element):
                self._add("V045", f"buffer {name} holds {spelled(buffer.element)}, and is given {spelled(dtype)}", "value")
        else:
            self._add("V120", f"no variable {name} is in scope")
        self._expressions.check(node.value)
        if binding is not None and not self._is_uniform(node.value):
            self._scope[node.name] = binding._replace(is_uniform=False)

    def _store(self, node: Store) -> None:
        name, buffer = quoted(node.buffer), self._buffers.get(node.buffer)
        if buffer is None:
            self._add("V064", f"there is no buffer {name}", "buffer")
        else:
            self._store_to(node, buffer)
        self._expressions.check(node.index)
        self._expressions.check(node.value)

    def _store_to(self, node: Store, buffer: BufferDecl) -> None:
        name, element = quoted(buffer.name), buffer.element
        if buffer.access not in _WRITABLE:
            self._add("V063", f"buffer {name} is {buffer.access.name}, and is written here", "buffer")
        if element.wire_tag == BYTES and not buffer.bytes_extraction:
            self._add("V013", f"buffer {name} holds bytes, which are not stored", "buffer")
        dtype = self._expressions.type_of(node.value)
        if dtype is not None and not is_storable(dtype, element):
            self._add("V121", f"buffer {name} holds {spelled(element)}, and is given {spelled(dtype)}", "value")
        dtype = self._expressions.type_of(node.index)
        if dtype is not None and dtype != _U32:
            self._add("V122", f"the index of a store must be u32, and is {spelled(dtype)}", "index")
        if buffer.count and isinstance(node.index, LitU32 | LitI32) and not 0 <= node.index.value < buffer.count:
            self._add("V036", f"the index is {node.index.value}, and {name} has {buffer.count} elements", "index")

    def _if(self, node: If) -> None:
        self._expressions.check(node.cond)
        self._together[id(node)] = self._is_uniform(node.cond)
        dtype = self._expressions.type_of(node.cond)
        if dtype is not None and dtype not in _CONDITIONS:
            self._add("V123", f"the condition of an if must be u32 or bool, and is {spelled(dtype)}", "cond")

    def _loop(self, node: Loop) -> None:
        self._expressions.check(node.start)
        self._expressions.check(node.stop)
        for code, field, bound in (("V124", "start", node.start), ("V125", "stop", node.stop)):
            dtype = self._expressions.type_of(bound)
            if dtype is not None and dtype != _U32:
                self._add(code, f"the {field} of a loop must be u32, and is {spelled(dtype)}", field)
        self._refuse_shadowing(node.var)
        self._together[id(node)] = together = self._is_uniform(node.start) and self._is_uniform(node.stop)
        together = together and not self._bodies[-1].divergent

        def is_uniform_variable(name: str) -> bool:
            return together if name == node.var else self._is_uniform_variable(name)

        is_sound = node.nesting <= MAX_NESTING + 1 and node.node_count <= MAX_NODES
        if is_sound and self._exits.leaves_alone(node, is_uniform_variable):
            self._add("V055", "an invocation may return alone after the last barrier of the loop")

    def _return(self, _node: Return) -> None:
        if self._walk.following:
            self._add("V112", f"{self._walk.following} nodes follow a return in its body")

    def _barrier(self, node: Barrier) -> None:
        if self._bodies[-1].divergent:
            self._add("V010", "not every invocation of a workgroup is known to reach this barrier")
        if node.ordering is MemoryOrdering.RELAXED:
            self._add("V043", "a barrier cannot be ordered RELAXED")

    def _indirect(self, node: IndirectDispatch) -> None:
        if node.count_offset % 4:
            self._add("V126", f"the offset is {node.count_offset} bytes, which is not a multiple of 4", "count_offset")
        if node.count_buffer not in self._buffers:
            self._add("V127", f"there is no buffer {quoted(node.count_buffer)}", "count_buffer")

    def _tag(self, node: AsyncLoad | AsyncStore | AsyncWait) -> None:
        if not node.tag:
            self._add("V128" if isinstance(node, AsyncWait) else "V117", "the tag of an asynchronous copy is empty", "tag")

    def _opaque(self, node: OpaqueNode) -> None:
        if not node.kind:
            self._add("V031", "an opaque node has no kind")

    def _collective(self, node: AllReduce | Broadcast | AllGather | ReduceScatter) -> None:
        if self._capabilities is None or not self._capabilities.supports_distributed_collectives:
            self._add("V046", "upstream takes collectives for a device that has them only")
        fields = ("buffer",) if isinstance(node, AllReduce | Broadcast) else ("input", "output")
        elements = set()
        for field in fields:
            name = getattr(node, field)
            buffer = self._buffers.get(name)
            if buffer is None:
                self._add("V046", f"there is no buffer {quoted(name)}", field)
                continue
            elements.add(buffer.element)
            if buffer.access is BufferAccess.WORKGROUP:
                self._add("V046", f"{quoted(name)} is workgroup memory, which other devices do not see", field)
        if len(elements) > 1:
            self._add("V046", f"a collective from {' to '.join(sorted(map(spelled, elements)))}")

    def _note_uses(self, node: Node) -> None:
        """Refuse a buffer that was used plainly and by an atomic since the last barrier of this body."""
        body = self._bodies[-1]
        if isinstance(node, Barrier):
            body.plain.clear()
            body.atomic.clear()
            return
        plain, atomic = uses_of(node, self._uses)
        for name in sorted((atomic & body.plain) | (plain & body.atomic)):
            self._add("V116", f"buffer {quoted(name)} is used by atomics and plainly, with no barrier between")
        if not isinstance(node, If | Loop):  # these count after what is in them
            body.plain |= plain
            body.atomic |= atomic


_HANDLERS: dict[type[Node], str] = {
    Let: "_let",
    Assign: "_assign",
    Store: "_store",
    If: "_if",
    Loop: "_loop",
    Return: "_return",
    Barrier: "_barrier",
    IndirectDispatch: "_indirect",
    AsyncLoad: "_tag",
    AsyncStore: "_tag",
    AsyncWait: "_tag",
    OpaqueNode: "_opaque",
}
