"""Check that every invocation of a workgroup reaches each barrier.

A value is the same in the whole grid, in a workgroup, or in neither; so is the path to a statement. The path to a barrier must
be the same in a workgroup, and to one ordered GRID_SYNC in the grid.

The walk gives every assignment of a variable a *version*, and notes what each version and each path depends on; then what is
least flows along these edges, once. A variable is never better than it was before (upstream: tainted for good). At the head of
a loop a variable that the body assigns gets a version which also depends on that at the body's end, so that what the second
turn would see counts in the first. A return is a variable of its own: where it happened on a path that is not the same for all,
no path after it is.

A load of a push buffer is as alike as its index; upstream takes every load for one that differs. Where a return is decided,
any load counts as alike whose buffer is settled (``_Settled``): a barrier came before that lets an invocation see what the
others wrote, nothing has been written to the buffer since, and no other workgroup may write to it. So the invocations of a
workgroup leave a loop together.

``LoopExits`` is of upstream's V055, about a loop with a barrier: an invocation that returns after the last one, and goes alone,
leaves the others to write what it has not read. So the returns after the last barrier of a turn must be taken by all or by
none.

Source: spec item 1.8 (uniformity, V010); what is stricter than upstream: docs/decisions/0006-holes-of-the-validator.md, what is
not: docs/decisions/0033-loops-end-early-and-what-is-pushed-is-alike.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.ir.arithmetic import LITERALS, Binary, Expr, OpaqueExpr, Unary, Var
from vyre_driver.ir.buffers import BufferAccess
from vyre_driver.ir.dtypes import WIDE_LITERALS
from vyre_driver.ir.expressions import BufLen, Cast, Fma, Load, Select, WorkgroupId
from vyre_driver.ir.nodes import Assign, Barrier, Block, If, Let, Loop, Node, OpaqueNode, Region, Return
from vyre_driver.ir.operators import MemoryOrdering
from vyre_driver.ir.terms import terms_within
from vyre_driver.ir.validation.buffer_uses import written_by
from vyre_driver.ir.validation.rules import Findings, Rule
from vyre_driver.ir.walks import BODY_FIELDS, OPERANDS, NodeWalk, expressions_within

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence

    from vyre_driver.ir.program import Program

DIVERGENT, IN_WORKGROUP, IN_GRID = 0, 1, 2

ACQUIRING = frozenset({MemoryOrdering.ACQUIRE, MemoryOrdering.ACQ_REL, MemoryOrdering.SEQ_CST})
"""The orders of a barrier after which an invocation sees what the others of its workgroup wrote."""

_SMALL = 64  # terms

# A name no variable has: it is not a str. Its versions say on which paths invocations have returned.
RETURNED = b"return"
Name = str | bytes

# How alike these are, apart from what is in them; what is not here differs.
_LEVELS: dict[type[Expr], int] = {
    **dict.fromkeys((*LITERALS, BufLen, Binary, Unary, Cast, Select, Fma), IN_GRID),
    WorkgroupId: IN_WORKGROUP,
}


def check_barriers(program: Program, assigned_in: Mapping[int, set[Name]], findings: Findings) -> None:
    """Refuse every barrier that some invocations may not reach.

    ``assigned_in`` says for each loop, by its id, what is assigned anywhere in its body, RETURNED where that returns.
    """
    pushed = frozenset(buffer.name for buffer in program.buffers if buffer.is_pushed)
    found = _levels(program, assigned_in, pushed)
    upstreams = _levels(program, assigned_in, frozenset()) if pushed else found
    if all(level >= _wanted(barrier) for barrier, level in upstreams):
        return
    reached = zip(found, upstreams, strict=True)
    walk = NodeWalk(program)  # the same walk again, for the paths
    for _, node in walk.steps():
        if isinstance(node, Barrier):
            (_, level), (_, upstreams_level) = next(reached)
            _judge(node, level, upstreams_level, walk, findings)


def _levels(program: Program, assigned_in: Mapping[int, set[Name]], pushed: frozenset[str]) -> list[tuple[Barrier, int]]:
    """Return the barriers in the order of the walk, each with how alike the path to it is, and so are the returns before it."""
    plain = _traced(program, assigned_in, pushed, None)
    if all(min(path, returned) >= _wanted(barrier) for barrier, path, returned in plain):
        return [(barrier, min(path, returned)) for barrier, path, returned in plain]
    settled = _traced(program, assigned_in, pushed, _Settled(_written_by_workgroups(program)))
    return [(barrier, min(path, returned)) for (barrier, path, _), (_, _, returned) in zip(plain, settled, strict=True)]


def _written_by_workgroups(program: Program) -> set[str]:
    """Return the buffers that a program writes and that all workgroups have."""
    own = {buffer.name for buffer in program.buffers if buffer.access is BufferAccess.WORKGROUP}
    nodes = (term for term in terms_within(*program.entry) if isinstance(term, Node))
    return set().union(*map(written_by, nodes)) - own


def _traced(
    program: Program, assigned_in: Mapping[int, set[Name]], pushed: frozenset[str], settled: _Settled | None
) -> list[tuple[Barrier, int, int]]:
    """Return each barrier with how alike the path to it is, and those on which invocations returned before."""
    graph = _Graph()
    tracer = _Tracer(program, assigned_in, graph, pushed, settled)
    tracer.walk()
    graph.solve()
    return [(barrier, graph.levels[path], graph.levels[returned]) for barrier, path, returned in tracer.barriers]


def _wanted(barrier: Barrier) -> int:
    return IN_GRID if barrier.ordering is MemoryOrdering.GRID_SYNC else IN_WORKGROUP


def _judge(barrier: Barrier, level: int, upstreams: int, walk: NodeWalk, findings: Findings) -> None:
    if level == DIVERGENT:
        text = "not every invocation of a workgroup is known to reach this barrier"
        fix = "move it out of the if, loop or early return that not all take, and guard the work instead"
        findings.add(Rule.DIVERGENT_BARRIER, walk.path, text, fix)
    elif level < _wanted(barrier):
        text = "not every workgroup is known to reach this barrier of the whole grid"
        findings.add(Rule.DIVERGENT_BARRIER, walk.path, text, "move it to where no workgroup index decides")
    elif upstreams < _wanted(barrier):
        text = "what is pushed decides which invocations reach this barrier, and upstream's validator refuses that"
        findings.warn(
            Rule.PUSHED_BARRIER, walk.path, text, "decide by a literal or a length, if other vyre tools have to take it"
        )


class _Graph:
    """Numbers with levels, each at most that of what it depends on."""

    def __init__(self) -> None:
        self.levels: list[int] = []
        self._dependents: list[list[int]] = []

    def add(self, level: int, *depends_on: int) -> int:
        """Return a new number."""
        number = len(self.levels)
        self.levels.append(level)
        self._dependents.append([])
        for one in depends_on:
            self._dependents[one].append(number)
        return number

    def depend(self, number: int, on: int) -> None:
        """Note one more thing that a number depends on."""
        self._dependents[on].append(number)

    def solve(self) -> None:
        """Lower each level to those it depends on, until nothing changes."""
        levels = self.levels
        for level in (DIVERGENT, IN_WORKGROUP):
            waiting = [number for number, own in enumerate(levels) if own == level]
            while waiting:
                for dependent in self._dependents[waiting.pop()]:
                    if levels[dependent] > level:
                        levels[dependent] = level
                        waiting.append(dependent)


class _Open(NamedTuple):
    """A body that is being walked: the path outside, what the names were outside, and the versions at the head of a loop."""

    path: int
    outside: dict[Name, int | None]
    heads: dict[Name, int]


class _Settled:
    """The buffers of which all invocations of a workgroup load the same, in the order in which the nodes stand.

    After a barrier that acquires these are all, less those that are written after it, and those that other workgroups may write
    at any time (``contended``). A body ends with what was settled before it, less what is written in it; that of a loop also
    begins so, and knows nothing of the turn before.
    """

    def __init__(self, contended: set[str]) -> None:
        self._contended = contended
        self._open = [_SettledBody(is_known=False)]

    def __contains__(self, buffer: object) -> bool:
        if not self._open[-1].is_known or buffer in self._contended:
            return False
        for body in reversed(self._open):
            if buffer in body.unsettled:
                return False
            if body.has_barrier:
                break
        return True

    def node(self, node: Node) -> None:
        """Note what a node itself writes, and whether it settles what was written before."""
        body = self._open[-1]
        if isinstance(node, Barrier) and node.ordering in ACQUIRING:
            body.is_known = body.has_barrier = True
            body.unsettled.clear()
        elif isinstance(node, OpaqueNode):
            body.is_known = False
        body.write(written_by(node))

    def enter(self, owner: Node | None) -> None:
        """Begin a body."""
        self._open.append(_SettledBody(is_known=self._open[-1].is_known and not isinstance(owner, Loop)))

    def leave(self) -> None:
        """End a body."""
        written = self._open.pop().written
        self._open[-1].write(written)


class _SettledBody:
    """What happened in an open body, so that one costs no more than what stands in it.

    It knows whether a barrier has settled all but what was written after it; and if one stands in the body itself, all that
    counts is what the body wrote after it (``unsettled``).
    """

    def __init__(self, *, is_known: bool) -> None:
        self.is_known = is_known
        self.has_barrier = False
        self.unsettled: set[str] = set()
        self.written: set[str] = set()

    def write(self, names: Iterable[str]) -> None:
        """Note that buffers are written in it."""
        self.unsettled.update(names)
        self.written.update(names)


class _Tracer:
    """Builds the graph of one program; loads of what is ``settled`` are as alike as their index."""

    def __init__(
        self,
        program: Program,
        assigned_in: Mapping[int, set[Name]],
        graph: _Graph,
        pushed: frozenset[str],
        settled: _Settled | None,
    ) -> None:
        self._pushed = pushed
        self._settled = settled
        self.barriers: list[tuple[Barrier, int, int]] = []  # in the order of the walk, each with its path and the returns'
        self._graph = graph
        self._walk = NodeWalk(program)
        self._assigned = assigned_in
        self._path = graph.add(IN_GRID)
        self._versions: dict[Name, int] = {RETURNED: self._path}
        self._open: list[_Open] = []
        self._branches: dict[int, int] = {}  # the path into both bodies of an if, by its id

    def walk(self) -> None:
        """Walk the whole program."""
        for step, node in self._walk.steps():
            if step == "open":
                self._enter(node)
            elif step == "close":
                self._leave()
            elif node is not None:
                self._node(node)
                if self._settled is not None:
                    self._settled.node(node)

    def _node(self, node: Node) -> None:
        if isinstance(node, Let):
            outside = self._open[-1].outside
            outside.setdefault(node.name, self._versions.get(node.name))
            self._versions[node.name] = self._value(node.value)
        elif isinstance(node, Assign):
            if node.name in self._versions:
                version = self._value(node.value, self._versions[node.name], self._path)
                self._versions[node.name] = version
        elif isinstance(node, If):
            self._branches[id(node)] = self._value(node.cond, self._path)
        elif isinstance(node, Return):
            self._versions[RETURNED] = self._graph.add(IN_GRID, self._versions[RETURNED], self._path)
        elif isinstance(node, Barrier):
            self.barriers.append((node, self._path, self._versions[RETURNED]))

    def _enter(self, owner: Node | None) -> None:
        opened = _Open(self._path, {}, {})
        self._open.append(opened)
        if self._settled is not None:
            self._settled.enter(owner)
        if isinstance(owner, If):
            self._path = self._branches[id(owner)]
        elif isinstance(owner, Loop):
            index = self._value(owner.start, self._value(owner.stop))
            self._path = self._graph.add(IN_GRID, self._path, index)
            opened.outside[owner.var] = self._versions.get(owner.var)
            for name in self._assigned[id(owner)]:
                if name in self._versions:
                    head = self._graph.add(IN_GRID, self._versions[name])
                    opened.heads[name] = self._versions[name] = head
            self._versions[owner.var] = index

    def _leave(self) -> None:
        closed = self._open.pop()
        if self._settled is not None:
            self._settled.leave()
        for name, before in closed.outside.items():
            if before is None:
                del self._versions[name]
            else:
                self._versions[name] = before
        for name, head in closed.heads.items():
            self._graph.depend(head, self._versions[name])
        self._path = closed.path

    def _value(self, expr: Expr, *depends_on: int) -> int:
        """Return a number for the value of an expression, which depends on more besides."""
        level, names = _uses(expr, self._pushed, self._settled or ())
        versions = [self._versions[name] for name in names if name in self._versions]
        if level == IN_GRID and len(versions) + len(depends_on) == 1:
            return (*versions, *depends_on)[0]
        return self._graph.add(level, *versions, *depends_on)


def _uses(expr: Expr, pushed: frozenset[str], settled: Container[str]) -> tuple[int, list[str]]:
    """Return how alike an expression is apart from its variables, and these."""
    level = IN_GRID
    names = []
    # Where parts can stand in several places they are seen once; a small tree is walked faster than its parts are remembered.
    terms = _small_tree(expr) if expr.term_count <= _SMALL else expressions_within(expr)
    for term in terms:
        own = _LEVELS.get(type(term))
        if own is not None:
            level = min(level, own)
        elif isinstance(term, Var):
            names.append(term.name)
        elif isinstance(term, Load) and term.buffer in pushed:
            continue
        elif isinstance(term, Load) and term.buffer in settled:
            level = min(level, IN_WORKGROUP)
        elif not isinstance(term, OpaqueExpr) or term.kind not in WIDE_LITERALS:
            return DIVERGENT, []
    return level, names


def _small_tree(expr: Expr) -> list[Expr]:
    terms = [expr]
    for term in terms:
        operands = OPERANDS.get(type(term))
        if operands is not None:
            terms += operands(term)
    return terms


_RETURNS, _WAITS = 1, 2  # a node returns, or has a barrier, itself or anywhere inside
_UNIFORM = frozenset({*LITERALS, BufLen, WorkgroupId, Binary, Unary, Cast, Select, Fma, Load, Var})


def is_uniform(expr: Expr, is_uniform_variable: Callable[[str], bool], is_settled: Callable[[str], bool]) -> bool:
    """Return whether an expression has one value in a workgroup; loads only of settled buffers."""
    return all(
        type(term) in _UNIFORM
        and (not isinstance(term, Var) or is_uniform_variable(term.name))
        and (not isinstance(term, Load) or is_settled(term.buffer))
        for term in expressions_within(expr)
    )


def _straight(body: Sequence[Node]) -> list[Node]:
    """Return the nodes of a body, those of its blocks and regions in their place."""
    steps: list[Node] = []
    waiting = list(reversed(body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, Block | Region):
            waiting.extend(reversed(node.body))
        else:
            steps.append(node)
    return steps


def _nodes_in(node: Node) -> Iterator[Node]:
    """Return the nodes directly inside a node."""
    return chain.from_iterable(getattr(node, field) for field in BODY_FIELDS[type(node)])


def _nothing(_name: str) -> bool:
    return False


@dataclass(slots=True)
class _State:
    """The knowledge after the last barrier: the uniform variables, whether loads are settled, and what was written since.

    That of a branch has what differs from the state outside, which answers for the rest: programs may have as many branches as
    variables.
    """

    is_uniform_outside: Callable[[str], bool]
    settled: bool
    is_written_outside: Callable[[str], bool] = _nothing
    uniform: dict[str, bool] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)

    def is_uniform(self, name: str) -> bool:
        known = self.uniform.get(name)
        return self.is_uniform_outside(name) if known is None else known

    def is_written(self, name: str) -> bool:
        return name in self.written or self.is_written_outside(name)

    def decides_together(self, expr: Expr) -> bool:
        return is_uniform(expr, self.is_uniform, lambda buffer: self.settled and not self.is_written(buffer))

    def settle(self) -> None:
        """Note an acquiring barrier."""
        self.settled, self.written, self.is_written_outside = True, set(), _nothing

    def branch(self) -> _State:
        return _State(self.is_uniform, self.settled, self.is_written)

    def join(self, first: _State, second: _State) -> None:
        """Continue after two branches of this state, of which an invocation took one."""
        for name in first.uniform.keys() | second.uniform.keys():
            self.uniform[name] = first.is_uniform(name) and second.is_uniform(name)
        if first.is_written_outside is second.is_written_outside is _nothing:
            self.settle()
        self.settled = first.settled and second.settled
        self.written |= first.written | second.written


class LoopExits:
    """Decides V055 for the loops of one program, and keeps what it learns of the nodes inside, which inner loops share."""

    def __init__(self) -> None:
        """Begin with nothing known."""
        self._kinds: dict[int, int] = {}
        self._written: dict[int, frozenset[str]] = {}

    def leaves_alone(self, loop: Loop, is_uniform_variable: Callable[[str], bool]) -> bool:
        """Return whether V055 refuses a loop; the function says which variables have one value at the start of a turn."""
        steps = _straight(loop.body)
        last = max((place for place, node in enumerate(steps) if self._kinds_in(node) & _RETURNS), default=None)
        if last is None or not any(self._kinds_in(node) & _WAITS for node in steps):
            return False
        barriers = [place for place, node in enumerate(steps) if isinstance(node, Barrier)]
        if not barriers:
            return True
        if barriers[-1] > last:
            return False
        barrier = steps[barriers[-1]]
        settled = isinstance(barrier, Barrier) and barrier.ordering in ACQUIRING
        state = _State(is_uniform_variable, settled)
        return not self._all_return_together(steps[barriers[-1] + 1 : last + 1], state, together=True)

    def _kinds_in(self, node: Node) -> int:
        """Return _RETURNS where a node returns, with _WAITS where it has a barrier."""
        if type(node) not in BODY_FIELDS:
            return _RETURNS * isinstance(node, Return) | _WAITS * isinstance(node, Barrier)
        known = self._kinds.get(id(node))
        if known is None:
            known = 0
            for inner in _nodes_in(node):
                known |= self._kinds_in(inner)
            self._kinds[id(node)] = known
        return known

    def _written_in(self, node: Node) -> Collection[str]:
        """Return the names of the buffers that a node writes, itself or anywhere inside."""
        if type(node) not in BODY_FIELDS:
            return written_by(node)
        known = self._written.get(id(node))
        if known is None:
            parts = [names for names in (written_by(node), *map(self._written_in, _nodes_in(node))) if names]
            sole = parts[0] if len(parts) == 1 else frozenset().union(*parts)
            known = self._written[id(node)] = frozenset(sole)
        return known

    def _all_return_together(self, nodes: Sequence[Node], state: _State, *, together: bool) -> bool:
        """Return whether the returns in nodes are taken by all or none; ``together``: so is the way to the first node."""
        return all(self._returns_together(node, state, together=together) for node in nodes)

    def _returns_together(self, node: Node, state: _State, *, together: bool) -> bool:
        """Return whether the returns in a node are taken by all or none, and note what it does to the state."""
        if isinstance(node, Return):
            return together
        if isinstance(node, Let | Assign):
            state.uniform[node.name] = state.decides_together(node.value)
        elif isinstance(node, Barrier) and node.ordering in ACQUIRING:
            state.settle()
        elif isinstance(node, OpaqueNode):
            state.settled = False
        elif isinstance(node, If | Loop):
            return self._branches_return_together(node, state, together=together)
        elif isinstance(node, Block | Region):
            return self._all_return_together(node.body, state, together=together)
        state.written |= written_by(node)
        return True

    def _branches_return_together(self, node: If | Loop, state: _State, *, together: bool) -> bool:
        bounds = (node.cond,) if isinstance(node, If) else (node.start, node.stop)
        together = together and all(state.decides_together(bound) for bound in bounds)
        state.written |= written_by(node)
        first, second = state.branch(), state.branch()
        if isinstance(node, Loop):  # a later turn comes after what this one writes
            first.written.update(*map(self._written_in, node.body))
            first.uniform[node.var] = together
            bodies: tuple[Sequence[Node], Sequence[Node]] = (node.body, ())
        else:
            bodies = (node.then, node.otherwise)
        for body, branch in zip(bodies, (first, second), strict=True):
            if not self._all_return_together(body, branch, together=together):
                return False
        state.join(first, second)
        return True
