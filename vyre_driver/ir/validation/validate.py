"""Check that a program is valid, and that it fits a device: its shape, its buffers, its statements.

Every body opens a scope: that of a region too, as upstream's validator and oracle have it.

docs/validation-rules.md lists every rule. Source: spec items 1.8 and 1.9; the byte range as upstream's encoder has it (3.5),
layouts as its planner has them (1.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from vyre_driver.errors import InvalidProgram, with_article
from vyre_driver.ir import dtypes, walks
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.arithmetic import Expr, LitI32, LitU32
from vyre_driver.ir.buffers import MAX_LOCAL_BYTES, PUSHED_TYPES, BufferAccess, BufferDecl, MemoryKind
from vyre_driver.ir.dtypes import BYTES, DataType
from vyre_driver.ir.fields import instance
from vyre_driver.ir.operators import MemoryOrdering
from vyre_driver.ir.program import Program
from vyre_driver.ir.validation.buffer_uses import check_hazards, check_linear_types
from vyre_driver.ir.validation.expression_rules import ExpressionChecker, Variable
from vyre_driver.ir.validation.operator_types import is_storable
from vyre_driver.ir.validation.profile_rules import DeviceCapabilities, check_profile
from vyre_driver.ir.validation.rules import Findings, Problem, Rule, quoted, refuse, spelled
from vyre_driver.ir.validation.uniformity import RETURNED, Name, check_barriers
from vyre_driver.ir.walks import NodeWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vyre_driver.ir.validation.call_rules import OperationSignature
    from vyre_driver.target.profile import DeviceProfile


_ARRAYS = frozenset({dtypes.ARRAY, dtypes.TENSOR})


def check_shape(program: Program, findings: Findings) -> bool:
    """Check entry, limits and workgroup size; return whether nodes and nesting are few enough to walk."""
    if not program.entry:
        findings.add(Rule.ENTRY, "entry", "there are no nodes", "use Program.wrapped")
    for place, node in enumerate(program.entry):
        if not isinstance(node, nd.Region):
            text = f"{with_article(type(node).__name__)} stands where a Region is wanted"
            findings.add(Rule.ENTRY, f"entry[{place}]", text, "use Program.wrapped")
        if node.nesting > walks.MAX_NESTING:
            text = f"nodes nest {node.nesting} deep, over the limit of {walks.MAX_NESTING}"
            findings.add(Rule.NESTING, f"entry[{place}]", text, "nest them less")
    for place, size in enumerate(program.workgroup_size):
        if size == 0:
            text = f"the workgroup has 0 invocations along {'xyz'[place]}"
            findings.add(Rule.WORKGROUP_SIZE, f"workgroup_size[{place}]", text, "use 1 or more")
    if program.non_composable_with_self:
        _check_composition(program, findings)
    count = sum(node.node_count for node in program.entry)
    if count <= walks.MAX_NODES:
        return all(node.nesting <= walks.MAX_NESTING for node in program.entry)
    text = f"there are {_number(count)} nodes, over the limit of {walks.MAX_NODES}"
    findings.add(Rule.NODE_COUNT, "entry", text, "split the program")
    return False


def _number(count: int) -> str:
    return str(count) if count < 1 << 64 else "more than 2**64"


def _check_composition(program: Program, findings: Findings) -> None:
    seen: set[str] = set()
    for place, node in enumerate(program.entry):
        if not isinstance(node, nd.Region):
            continue
        if node.generator in seen:
            text = f"the region {quoted(node.generator)} stands here again, in a program not composable with itself"
            findings.add(Rule.SELF_EXCLUSIVE, f"entry[{place}]", text, "run the program twice instead")
        seen.add(node.generator)


def check_buffers(program: Program, findings: Findings) -> dict[str, BufferDecl]:
    """Check the declarations; return the first of each name."""
    known: dict[str, BufferDecl] = {}
    bound: dict[int, str] = {}
    output: BufferDecl | None = None
    for place, buffer in enumerate(program.buffers):
        path, name = f"buffers[{place}]", quoted(buffer.name)
        if buffer.name in known:
            findings.add(Rule.BUFFER_NAME, path, f"there are two buffers {name}", "give each its own name")
        known.setdefault(buffer.name, buffer)
        if buffer.access is not BufferAccess.WORKGROUP:
            if buffer.binding in bound:
                text = f"binding {buffer.binding} of {name} is that of {quoted(bound[buffer.binding])}"
                findings.add(Rule.BINDING, path, text, "give each its own binding number")
            bound.setdefault(buffer.binding, buffer.name)
        elif buffer.count == 0:
            what = "local" if buffer.is_local else "workgroup"
            findings.add(Rule.WORKGROUP_COUNT, path, f"{what} buffer {name} has 0 elements", "give it a count")
        if buffer.is_output:
            if output is not None:
                text = f"{quoted(output.name)} and {name} are both marked is_output"
                findings.add(Rule.OUTPUTS, path, text, "mark one, and declare the others read_write")
            output = output or buffer
        _check_element(buffer, path, findings)
        if buffer.kind is MemoryKind.PUSH:
            _check_pushed(buffer, path, findings)
    _check_local(program, findings)
    return known


def _check_local(program: Program, findings: Findings) -> None:
    """Check that an invocation has no more memory of its own than it may have, and warn of it."""
    size = 0
    for place, buffer in enumerate(program.buffers):
        if buffer.is_local:
            findings.warn(
                Rule.LOCAL_UPSTREAM,
                f"buffers[{place}]",
                f"{quoted(buffer.name)} is memory of an invocation's own, and workgroup memory to upstream",
                "use variables, if the program is for others too",
            )
            size += buffer.count * max(buffer.element.size_bytes or 4, 4)
    if size > MAX_LOCAL_BYTES:
        text = f"an invocation has {size} bytes of its own, over the limit of {MAX_LOCAL_BYTES}"
        findings.add(Rule.LOCAL, "buffers", text, "use smaller buffers, or a part of one that all share")


def _check_pushed(buffer: BufferDecl, path: str, findings: Findings) -> None:
    name = quoted(buffer.name)
    if buffer.access is not BufferAccess.UNIFORM:
        text = f"push buffer {name} is {buffer.access.name}, and is pushed before the program runs"
        findings.add(Rule.PUSHED, f"{path}.access", text, "use BufferDecl.push, or another kind of memory")
    if buffer.is_output or buffer.pipeline_live_out:
        text = f"push buffer {name} is marked as {'an output' if buffer.is_output else 'living on'}, and nothing is read back"
        findings.add(Rule.PUSHED, path, text, "use BufferDecl.output for what comes back")
    if not buffer.count:
        findings.add(Rule.PUSHED, f"{path}.count", f"push buffer {name} has no count", "give it the number of its elements")
    if buffer.element not in PUSHED_TYPES:
        text = f"push buffer {name} holds {spelled(buffer.element)}, which is not pushed"
        findings.add(
            Rule.PUSHED, f"{path}.element", text, f"use one of {', '.join(map(str, PUSHED_TYPES))}, or a uniform buffer"
        )


def _check_element(buffer: BufferDecl, path: str, findings: Findings) -> None:
    name, element = quoted(buffer.name), buffer.element
    if buffer.is_output and element.wire_tag in _ARRAYS:
        text = f"output {name} has elements of {spelled(element)}"
        findings.add(Rule.OUTPUT_ELEMENT, path, text, "use elements of a fixed type and a count")
    try:
        element.validate_layout()
        length = buffer.static_byte_len()
    except InvalidProgram as error:
        findings.add(Rule.ELEMENT_LAYOUT, path, f"{name}: {error.problem[:200]}", error.fix)
        length = None
    if buffer.output_byte_range is not None:
        start, end = buffer.output_byte_range
        if start > end or (length is not None and end > length):
            size = "unknown size" if length is None else f"{length} bytes"
            text = f"the output range of {name} is {start} to {end} bytes, in a buffer of {size}"
            findings.add(Rule.OUTPUT_RANGE, path, text, "give a range inside the buffer")
    predicate = buffer.shape_predicate
    if predicate is not None and buffer.count and not predicate.holds(buffer.count):
        text = f"{predicate.describe()[:200]} does not hold for {name}: count={buffer.count}"
        findings.add(Rule.SHAPE, path, text, "change the count")


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
        self._loops: list[nd.Loop] = []
        self._buffers = buffers
        self._writable = {name for name, buffer in buffers.items() if buffer.is_writable}
        self._findings = findings
        self._walk = NodeWalk(program)
        self._expressions = ExpressionChecker(buffers, findings, operations)
        # What each open scope declared, with what the name was outside; a loop opens one for its variable and one for its body.
        self._scopes: list[dict[str, Variable | None]] = []
        self._handlers: dict[type[nd.Node], Callable[[Any], None]] = {
            cls: getattr(self, name) for cls, name in _HANDLERS.items()
        }

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

    def _open(self, owner: nd.Node | None) -> None:
        self._branching += isinstance(owner, nd.If | nd.Loop)
        if isinstance(owner, nd.Loop):
            self._loops.append(owner)
            self.assigned_in.setdefault(id(owner), set())
            self._scopes.append({})
            self._declare(owner.var, Variable(DataType.U32, is_loop=True))
        self._scopes.append({})

    def _close(self, owner: nd.Node | None) -> None:
        is_loop = isinstance(owner, nd.Loop)
        self._branching -= isinstance(owner, nd.If | nd.Loop)
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

    def _let(self, node: nd.Let) -> None:
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

    def _assign(self, node: nd.Assign) -> None:
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

    def _store(self, node: nd.Store) -> None:
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

    def _if(self, node: nd.If) -> None:
        dtype = self._expressions.type_of(node.cond)
        if dtype is not None and dtype.wire_tag not in _CONDITIONS:
            text = f"the condition of an if must be u32 or bool, and is {spelled(dtype)}"
            self._add(Rule.CONDITION, text, "compare it", "cond")

    def _loop(self, node: nd.Loop) -> None:
        self._want_u32(node.start, "start", "the start of a loop", Rule.LOOP_BOUND)
        self._want_u32(node.stop, "stop", "the stop of a loop", Rule.LOOP_BOUND)
        self._refuse_shadowing(node.var)

    def _return(self, _node: nd.Return) -> None:
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

    def _barrier(self, node: nd.Barrier) -> None:
        self.barrier_in_doubt |= self._branching > 0
        if node.ordering is MemoryOrdering.RELAXED:
            text = "a barrier cannot be ordered RELAXED"
            self._add(Rule.BARRIER_ORDERING, text, "use ACQUIRE, RELEASE, ACQ_REL, SEQ_CST or GRID_SYNC")

    def _indirect(self, node: nd.IndirectDispatch) -> None:
        self.asks_device = True
        self._named(node.count_buffer, "count_buffer")
        if node.count_offset % 4:
            text = f"the offset is {node.count_offset} bytes, which is not a multiple of 4"
            self._add(Rule.INDIRECT_OFFSET, text, "align the counts to 4 bytes", "count_offset")

    def _copy(self, node: nd.AsyncLoad | nd.AsyncStore) -> None:
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

    def _tag(self, node: nd.AsyncLoad | nd.AsyncStore | nd.AsyncWait) -> None:
        if not node.tag:
            self._add(Rule.TAG, "the tag of an asynchronous copy is empty", "name the copy", "tag")

    def _trap(self, node: nd.Trap) -> None:
        self.asks_device = True
        self._want_u32(node.address, "address", "the address of a trap")

    def _resume(self, _node: nd.Resume) -> None:
        self.asks_device = True

    def _body(self, _node: nd.Block | nd.Region) -> None:
        """Nothing can be wrong with it by itself."""

    def _in_place(self, node: nd.AllReduce | nd.Broadcast) -> None:
        buffer = self._collective(node.buffer, "buffer")
        if buffer is not None:
            self._written(node.buffer, "buffer")

    def _between(self, node: nd.AllGather | nd.ReduceScatter) -> None:
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

    def _opaque(self, node: nd.OpaqueNode) -> None:
        if not node.kind:
            self._add(Rule.OPAQUE_NODE, "an opaque node has no kind", "name the extension's kind")

    def _unknown(self, node: nd.Node) -> None:
        text = f"{type(node).__name__} is not a node of this language"
        self._add(Rule.OPAQUE_NODE, text, "use OpaqueNode for what an extension defines")


_HANDLERS: dict[type[nd.Node], str] = {
    nd.Let: "_let",
    nd.Assign: "_assign",
    nd.Store: "_store",
    nd.If: "_if",
    nd.Loop: "_loop",
    nd.Return: "_return",
    nd.Block: "_body",
    nd.Region: "_body",
    nd.Barrier: "_barrier",
    nd.IndirectDispatch: "_indirect",
    nd.AsyncLoad: "_copy",
    nd.AsyncStore: "_copy",
    nd.AsyncWait: "_tag",
    nd.Trap: "_trap",
    nd.Resume: "_resume",
    nd.AllReduce: "_in_place",
    nd.Broadcast: "_in_place",
    nd.AllGather: "_between",
    nd.ReduceScatter: "_between",
    nd.OpaqueNode: "_opaque",
}


_PASSED = "capabilities it was validated for"
_MEANS_SOMETHING = "it has no problem or warning on any device; whether its nodes may need one"


class ValidationReport(NamedTuple):
    """The findings: problems refuse the program, warnings do not; at most 1000 each, ``total`` counts all problems."""

    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    total: int


def validate(
    program: Program,
    profile: DeviceProfile | None = None,
    *,
    operations: Mapping[str, OperationSignature] | None = None,
    upstream: str | None = None,
) -> Program:
    """Return the program itself when it breaks no rule.

    Without a profile the question is whether the program means something; with one, whether that device can run it too. Calls
    are checked against ``operations`` when these are given. A program remembers what it was validated for, unless operations
    were given: asking again costs nothing.

    With ``upstream="0.7"`` the rules and codes are those of upstream's validator of that version (:func:`examine`).

    Raises
    ------
    InvalidProgram
        If the program has problems: up to 20 of them in the message, up to 1000 in its ``problems``.
    InvalidInput
        If ``upstream`` is no version whose rules are known.
    """
    if upstream is not None:
        report = examine(program, profile, operations=operations, upstream=upstream)
        if report.problems:
            refuse(report.problems, report.total)
        return program
    return validate_for(program, None if profile is None else DeviceCapabilities.of(profile), operations=operations)


def validate_for(
    program: Program,
    capabilities: DeviceCapabilities | None,
    *,
    operations: Mapping[str, OperationSignature] | None = None,
) -> Program:
    """As ``validate``, for a device by its capabilities, which need no profile."""
    if operations is None and isinstance(program, Program) and capabilities in _passed(program):
        return program
    findings = _examine(program, capabilities, operations)
    if findings.problems:
        refuse(findings.problems, findings.total)
    if operations is None:
        _passed(program).update((None, capabilities))
    return program


def _passed(program: Program) -> set[DeviceCapabilities | None]:
    found: set[DeviceCapabilities | None] = program._memo.setdefault(_PASSED, set())  # noqa: SLF001 -- it is the program that remembers
    return found


def examine(
    program: Program,
    profile: DeviceProfile | None = None,
    *,
    operations: Mapping[str, OperationSignature] | None = None,
    upstream: str | None = None,
) -> ValidationReport:
    """Return all that :func:`validate` would find, and the warnings, without raising.

    With ``upstream="0.7"`` these are the findings of upstream's validator of that version, by its codes. One that this driver
    decides otherwise says so; what only this driver refuses is among the warnings, by its code here.
    """
    capabilities = None if profile is None else DeviceCapabilities.of(profile)
    findings = _examine(program, capabilities, operations)
    if upstream is not None:
        from vyre_driver.ir.validation.upstream import (  # late: most programs are asked by our rules
            compared,
            examine_as_upstream,
        )

        theirs = examine_as_upstream(program, upstream, capabilities, operations)
        return ValidationReport(*compared(theirs, findings), theirs.total)
    return ValidationReport(tuple(findings.problems), tuple(findings.warnings), findings.total)


def _examine(
    program: Program, capabilities: DeviceCapabilities | None, operations: Mapping[str, OperationSignature] | None
) -> Findings:
    instance(program, Program, "what is validated")
    findings = Findings()
    memo = program._memo  # noqa: SLF001 -- it is the program that remembers
    nodes_too = memo.get(_MEANS_SOMETHING) if operations is None else None
    if nodes_too is None:
        nodes_too = _examine_alone(program, findings, operations)
        if nodes_too is None:
            return findings
        if operations is None and not findings.problems and not findings.warnings:
            memo[_MEANS_SOMETHING] = nodes_too
    if capabilities is not None:
        check_profile(program, capabilities, findings, nodes_too=nodes_too)
    return findings


def _examine_alone(program: Program, findings: Findings, operations: Mapping[str, OperationSignature] | None) -> bool | None:
    """Examine a program without a device; returns whether its nodes may need one, None where nothing more can be told."""
    if not check_shape(program, findings):
        check_buffers(program, findings)
        return None
    buffers = check_buffers(program, findings)
    checker = StatementChecker(program, buffers, findings, operations)
    checker.check()
    if checker.barrier_in_doubt:
        check_barriers(program, checker.assigned_in, findings)
    if checker.saw_atomic:
        check_hazards(program, findings)
    check_linear_types(program, findings)
    return checker.needs_a_device
