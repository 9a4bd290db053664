"""The findings of upstream 0.7's validator: its codes, in its order.

Upstream names every finding. Where a rule of ours has a code of upstream's it is the same one; the others have codes that begin
with R here, and several of upstream's may stand for one of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from vyre_driver.errors import InvalidInput
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.arithmetic import Expr, LitI32, LitU32
from vyre_driver.ir.buffers import BufferAccess, BufferDecl
from vyre_driver.ir.dtypes import ARRAY, BYTES, TENSOR, DataType
from vyre_driver.ir.operators import MemoryOrdering
from vyre_driver.ir.validation.buffer_uses import Uses, check_linear_types, uses_of
from vyre_driver.ir.validation.operator_types import is_storable
from vyre_driver.ir.validation.rules import MAX_PROBLEMS, Findings, Problem, quoted, spelled
from vyre_driver.ir.validation.uniformity import LoopExits, is_uniform
from vyre_driver.ir.validation.upstream_expressions import Binding, UpstreamExpressions
from vyre_driver.ir.walks import MAX_NESTING, MAX_NODES, NodeWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vyre_driver.ir.program import Program
    from vyre_driver.ir.validation.call_rules import OperationSignature
    from vyre_driver.ir.validation.profile_rules import DeviceCapabilities


class UpstreamRule(NamedTuple):
    """A rule of upstream's: the codes of those of ours that refuse the same, and what to do."""

    ours: tuple[str, ...]
    fix: str


_CAST = "cast the operands to a type that it takes"
_DECLARE = "declare it, or name another"
_TO_U32 = "cast it to u32"

UPSTREAM_RULES: dict[str, UpstreamRule] = {
    "V008": UpstreamRule(("V008",), "use another name"),
    "V009": UpstreamRule(("V009", "R034"), "declare it read-write"),
    "V010": UpstreamRule(("V010",), "move the barrier to where all invocations come"),
    "V011": UpstreamRule(("V011",), "declare a variable of your own with let"),
    "V012": UpstreamRule(("V012",), "cast by way of u32, or load elements of the type"),
    "V013": UpstreamRule(("V013",), "declare it with_bytes_extraction(True), or use a buffer of u32"),
    "V014": UpstreamRule(("V014",), "use a buffer of u32"),
    "V016": UpstreamRule(("V016",), "put the operation's body in place of the call"),
    "V018": UpstreamRule(("V018",), "nest them less"),
    "V019": UpstreamRule(("V019",), "split the program"),
    "V020": UpstreamRule(("V020",), "give as many arguments as it takes"),
    "V021": UpstreamRule(("V021",), "name a data type"),
    "V022": UpstreamRule(("V022",), "mark one output, and cast an argument to what the operation takes"),
    "V023": UpstreamRule(("V023",), "load or store bytes as they are"),
    "V025": UpstreamRule(("V025", "R034"), "use a read-write buffer"),
    "V027": UpstreamRule(("V027",), _TO_U32),
    "V028": UpstreamRule(("V028",), "cast it to f32"),
    "V029": UpstreamRule(("V029",), "cast one of them"),
    "V030": UpstreamRule(("V030",), "name the extension's kind"),
    "V031": UpstreamRule(("V031",), "name the extension's kind"),
    "V032": UpstreamRule(("V032",), "assign to it, or use another name"),
    "V033": UpstreamRule(("V033",), "put parts of it into variables"),
    "V034": UpstreamRule(("V034",), "choose a device that has it"),
    "V035": UpstreamRule(("V035",), "mask the value, if that is meant"),
    "V036": UpstreamRule(("V036",), "store inside the buffer"),
    "V041": UpstreamRule(("V041",), "choose a device that has them, and give its profile"),
    "V042": UpstreamRule(("V042",), "use RELAXED, ACQUIRE, RELEASE, ACQ_REL or SEQ_CST"),
    "V043": UpstreamRule(("V043",), "use ACQUIRE, RELEASE, ACQ_REL, SEQ_CST or GRID_SYNC"),
    "V044": UpstreamRule(("V044",), "divide by something else"),
    "V045": UpstreamRule(("V045",), "cast the value"),
    "V046": UpstreamRule(("V046",), "choose a device that has them, and buffers that other devices see"),
    "V047": UpstreamRule(("V047",), "take the bits of it, or another operator"),
    "V051": UpstreamRule(("V051",), "pass it to a call, or load an element"),
    "V052": UpstreamRule(("V052",), _DECLARE),
    "V053": UpstreamRule(("V053",), "pass a BufferRef"),
    "V054": UpstreamRule(("V054",), "pass a buffer of such elements"),
    "V055": UpstreamRule(("V010",), "put a barrier at the end of the loop, or let all invocations return together"),
    "V057": UpstreamRule(("R024",), _TO_U32),
    "V058": UpstreamRule(("R024",), _TO_U32),
    "V059": UpstreamRule(("R024",), "give an expected value"),
    "V060": UpstreamRule(("R024",), "leave the expected value out, or use COMPARE_EXCHANGE"),
    "V061": UpstreamRule(("R010",), _DECLARE),
    "V063": UpstreamRule(("R011",), "declare it read-write"),
    "V064": UpstreamRule(("R010",), _DECLARE),
    "V065": UpstreamRule(("R010",), _DECLARE),
    "V066": UpstreamRule(("R009",), "declare it with let before"),
    "V067": UpstreamRule(("R010",), _DECLARE),
    "V068": UpstreamRule(("R017",), "use axis 0, 1 or 2"),
    "V070": UpstreamRule(("R022",), "name it as often as its linear type says"),
    "V083": UpstreamRule(("R023",), "change the count"),
    "V084": UpstreamRule(("R015",), "use an operator of this package, or pairs of u32"),
    **{f"V{number:03}": UpstreamRule(("R015",), _CAST) for number in (*range(85, 97), *range(99, 104))},
    "V097": UpstreamRule(("R015",), "use the subgroup expressions"),
    "V098": UpstreamRule(("R015",), "write i32(0) - value, which wraps at the least i32"),
    "V104": UpstreamRule(("R015",), "use an operator that upstream knows"),
    "V105": UpstreamRule(("R001",), "use Program.wrapped"),
    "V106": UpstreamRule(("R002",), "use 1 or more"),
    "V107": UpstreamRule(("R003",), "give each its own name"),
    "V108": UpstreamRule(("R004",), "give each its own binding number"),
    "V109": UpstreamRule(("R005",), "give it a count"),
    "V110": UpstreamRule(("R006",), "use elements of a fixed type and a count"),
    "V112": UpstreamRule(("R016",), "remove them, or return under an if"),
    "V115": UpstreamRule(("R021",), "run the program twice instead"),
    "V116": UpstreamRule(("R020",), "put a barrier between, or use atomics only"),
    "V117": UpstreamRule(("R019",), "name the copy"),
    "V119": UpstreamRule(("R009",), "store to it instead"),
    "V120": UpstreamRule(("R009",), "declare it with let before"),
    "V121": UpstreamRule(("V045",), "cast the value to the type of the elements"),
    "V122": UpstreamRule(("R012", "V036"), _TO_U32),
    "V123": UpstreamRule(("R013",), "compare it"),
    "V124": UpstreamRule(("R014",), _TO_U32),
    "V125": UpstreamRule(("R014",), _TO_U32),
    "V126": UpstreamRule(("R018",), "align the counts to 4 bytes"),
    "V127": UpstreamRule(("R010",), _DECLARE),
    "V128": UpstreamRule(("R019",), "name the copy"),
    "V130": UpstreamRule((), "give it a count, or the output_byte_range (0, 0) if it is empty"),
}


_STOPPING = frozenset({"V018", "V019"})  # ours end the examination of a program


class UpstreamFindings(Findings):
    """The findings of upstream in a program, by the codes of its rules."""

    def note(self, code: str, path: str | Callable[[], str], message: str) -> None:
        """Note a problem; ``path`` may be a function, asked only when the problem is kept."""
        self.total += 1
        self.keep(self.problems, code, path, message, UPSTREAM_RULES[code].fix)

    def note_warning(self, code: str, path: str | Callable[[], str], message: str) -> None:
        """Note a warning; ``path`` as for :meth:`note`."""
        self.keep(self.warnings, code, path, message, UPSTREAM_RULES[code].fix)


def compared(findings: UpstreamFindings, ours: Findings) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Return upstream's problems and warnings, each saying where this driver decides otherwise.

    A problem whose rule refuses nothing in this program here says so, unless our examination ended early. A problem of ours
    that upstream does not have becomes a warning. Rules are compared, not places.
    """
    refused = {problem.rule for problem in ours.problems}
    covered = {code for problem in findings.problems for code in UPSTREAM_RULES[problem.rule].ours}
    stricter = tuple(
        problem._replace(message=f"{problem.message}; upstream takes it")
        for problem in ours.problems
        if problem.rule not in covered
    )
    theirs = tuple(findings.problems)
    if ours.total <= MAX_PROBLEMS and _STOPPING.isdisjoint(refused):
        theirs = tuple(
            problem
            if refused.intersection(UPSTREAM_RULES[problem.rule].ours)
            else problem._replace(message=f"{problem.message}; this driver takes it")
            for problem in theirs
        )
    return theirs, (*findings.warnings, *stricter)


_U32 = DataType.U32
_CONDITIONS = frozenset({_U32, DataType.Bool})
_WRITABLE = frozenset({BufferAccess.READ_WRITE, BufferAccess.WRITE_ONLY, BufferAccess.WORKGROUP})
_SELF_EXCLUSIVE = "#self-exclusive"  # ends the generator of a region that a program may have once


class _Body:
    """An open body: whether not all come, what its names were outside, its own lets, and what is used since a barrier."""

    def __init__(self, node: nd.Node | None, *, divergent: bool) -> None:
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
        self._handlers: dict[type[nd.Node], Callable[[Any], None]] = {
            cls: getattr(self, name) for cls, name in _HANDLERS.items()
        }

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
                self._findings.note("V115", "entry", f"the region {quoted(generator)} may stand once, and stands {times} times")

    def _node(self, node: nd.Node) -> None:
        self._expressions.begin(node)
        handler = self._handlers.get(type(node))
        if handler is not None:
            handler(node)
        elif isinstance(node, nd.COLLECTIVES):
            self._collective(node)
        self._note_uses(node)
        if isinstance(node, nd.Region) and node.generator.endswith(_SELF_EXCLUSIVE):
            generator = node.generator.removesuffix(_SELF_EXCLUSIVE)
            self._exclusive[generator] = self._exclusive.get(generator, 0) + 1

    def _open(self, owner: nd.Node | None) -> None:
        divergent = bool(self._bodies) and self._bodies[-1].divergent
        together = self._together.get(id(owner), True)
        self._bodies.append(_Body(owner, divergent=divergent or not together))
        if isinstance(owner, nd.Loop):
            self._bind(owner.var, Binding(_U32, is_loop=True, is_uniform=together and not divergent))

    def _close(self) -> None:
        body = self._bodies.pop()
        for name, before in reversed(body.outside):
            if before is None:
                self._scope.pop(name, None)
            else:
                self._scope[name] = before
        if isinstance(body.node, nd.If | nd.Loop) and self._bodies and self._walk.field != "then":
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
        self._findings.note(code, lambda: self._walk.path() + (f".{field}" if field else ""), message)

    def _let(self, node: nd.Let) -> None:
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

    def _assign(self, node: nd.Assign) -> None:
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

    def _store(self, node: nd.Store) -> None:
        name, buffer = quoted(node.buffer), self._buffers.get(node.buffer)
        if buffer is None:
            self._add("V064", f"there is no buffer {name}", "buffer")
        else:
            self._store_to(node, buffer)
        self._expressions.check(node.index)
        self._expressions.check(node.value)

    def _store_to(self, node: nd.Store, buffer: BufferDecl) -> None:
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

    def _if(self, node: nd.If) -> None:
        self._expressions.check(node.cond)
        self._together[id(node)] = self._is_uniform(node.cond)
        dtype = self._expressions.type_of(node.cond)
        if dtype is not None and dtype not in _CONDITIONS:
            self._add("V123", f"the condition of an if must be u32 or bool, and is {spelled(dtype)}", "cond")

    def _loop(self, node: nd.Loop) -> None:
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

    def _return(self, _node: nd.Return) -> None:
        if self._walk.following:
            self._add("V112", f"{self._walk.following} nodes follow a return in its body")

    def _barrier(self, node: nd.Barrier) -> None:
        if self._bodies[-1].divergent:
            self._add("V010", "not every invocation of a workgroup is known to reach this barrier")
        if node.ordering is MemoryOrdering.RELAXED:
            self._add("V043", "a barrier cannot be ordered RELAXED")

    def _indirect(self, node: nd.IndirectDispatch) -> None:
        if node.count_offset % 4:
            self._add("V126", f"the offset is {node.count_offset} bytes, which is not a multiple of 4", "count_offset")
        if node.count_buffer not in self._buffers:
            self._add("V127", f"there is no buffer {quoted(node.count_buffer)}", "count_buffer")

    def _tag(self, node: nd.AsyncLoad | nd.AsyncStore | nd.AsyncWait) -> None:
        if not node.tag:
            self._add("V128" if isinstance(node, nd.AsyncWait) else "V117", "the tag of an asynchronous copy is empty", "tag")

    def _opaque(self, node: nd.OpaqueNode) -> None:
        if not node.kind:
            self._add("V031", "an opaque node has no kind")

    def _collective(self, node: nd.AllReduce | nd.Broadcast | nd.AllGather | nd.ReduceScatter) -> None:
        if self._capabilities is None or not self._capabilities.supports_distributed_collectives:
            self._add("V046", "upstream takes collectives for a device that has them only")
        fields = ("buffer",) if isinstance(node, nd.AllReduce | nd.Broadcast) else ("input", "output")
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

    def _note_uses(self, node: nd.Node) -> None:
        """Refuse a buffer that was used plainly and by an atomic since the last barrier of this body."""
        body = self._bodies[-1]
        if isinstance(node, nd.Barrier):
            body.plain.clear()
            body.atomic.clear()
            return
        plain, atomic = uses_of(node, self._uses)
        for name in sorted((atomic & body.plain) | (plain & body.atomic)):
            self._add("V116", f"buffer {quoted(name)} is used by atomics and plainly, with no barrier between")
        if not isinstance(node, nd.If | nd.Loop):  # these count after what is in them
            body.plain |= plain
            body.atomic |= atomic


_HANDLERS: dict[type[nd.Node], str] = {
    nd.Let: "_let",
    nd.Assign: "_assign",
    nd.Store: "_store",
    nd.If: "_if",
    nd.Loop: "_loop",
    nd.Return: "_return",
    nd.Barrier: "_barrier",
    nd.IndirectDispatch: "_indirect",
    nd.AsyncLoad: "_tag",
    nd.AsyncStore: "_tag",
    nd.AsyncWait: "_tag",
    nd.OpaqueNode: "_opaque",
}


VERSIONS = ("0.7",)
"""The versions of upstream whose validator is known."""


def check_version(version: str) -> None:
    """Check that a version of upstream is one of VERSIONS; raises InvalidInput."""
    if version not in VERSIONS:
        raise InvalidInput(
            f"upstream {version!r} is not known here", fix=f"give one of {', '.join(map(repr, VERSIONS))}", value=version
        )


def examine_as_upstream(
    program: Program,
    version: str,
    capabilities: DeviceCapabilities | None,
    operations: Mapping[str, OperationSignature] | None,
) -> UpstreamFindings:
    """Return what the validator of a version of upstream finds.

    Without a device it takes no subgroups and no collectives, without operations no calls.

    Raises InvalidInput if the version is none of VERSIONS.
    """
    check_version(version)
    findings = UpstreamFindings()
    _check_header(program, findings)
    buffers = {buffer.name: buffer for buffer in program.buffers}
    UpstreamStatements(program, buffers, findings, capabilities, operations).check()
    linear = Findings()
    check_linear_types(program, linear)
    for problem in linear.problems:
        findings.note("V070", problem.path, problem.message)
    for place, buffer in enumerate(program.buffers):
        predicate = buffer.shape_predicate
        if predicate is not None and not predicate.holds(buffer.count):
            text = f"{predicate.describe()[:200]} does not hold for {quoted(buffer.name)}: count={buffer.count}"
            findings.note("V083", f"buffers[{place}]", text)
    return findings


def _check_header(program: Program, findings: UpstreamFindings) -> None:
    if not all(isinstance(node, nd.Region) for node in program.entry) or not program.entry:
        findings.note("V105", "entry", "there are no nodes, or a top-level node is no region")
    for place, size in enumerate(program.workgroup_size):
        if size == 0:
            findings.note("V106", f"workgroup_size[{place}]", f"the workgroup has 0 invocations along {'xyz'[place]}")
    _check_buffers(program, findings)


def _check_buffers(program: Program, findings: UpstreamFindings) -> None:
    names: set[str] = set()
    bindings: set[int] = set()
    for place, buffer in enumerate(program.buffers):
        path, name = f"buffers[{place}]", quoted(buffer.name)
        if buffer.name in names:
            findings.note("V107", path, f"there are two buffers {name}")
        names.add(buffer.name)
        if buffer.access is not BufferAccess.WORKGROUP:
            if buffer.binding in bindings:
                findings.note("V108", path, f"binding {buffer.binding} of {name} is that of another buffer")
            bindings.add(buffer.binding)
        elif not buffer.count:
            findings.note("V109", path, f"workgroup buffer {name} has 0 elements")
        if buffer.is_output:
            _check_output(buffer, path, findings)
    outputs = [place for place, buffer in enumerate(program.buffers) if buffer.is_output]
    if len(outputs) > 1:
        findings.note("V022", f"buffers[{outputs[1]}]", f"{len(outputs)} buffers are marked is_output")


def _check_output(buffer: BufferDecl, path: str, findings: UpstreamFindings) -> None:
    if buffer.element.wire_tag in {ARRAY, TENSOR}:
        findings.note("V110", path, f"output {quoted(buffer.name)} has elements of {spelled(buffer.element)}")
    if not buffer.count and buffer.output_byte_range is None:
        findings.note("V130", path, f"output {quoted(buffer.name)} has no count")
