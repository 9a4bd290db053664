"""Whether the invocations of a workgroup do the same, as upstream 0.7 has it: its rules V010 and V055.

V055 is about a loop with a barrier: an invocation that returns after the last one, and goes alone, leaves the others to write
what it has not read. So the returns after the last barrier of a turn must be taken by all or by none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import LITERALS, Binary, Unary, Var
from vyre_driver.ir.expressions import BufLen, Cast, Fma, Load, Select, WorkgroupId
from vyre_driver.ir.nodes import Assign, Barrier, Block, If, Let, Loop, Node, OpaqueNode, Region, Return
from vyre_driver.ir.validation.buffer_uses import written_by
from vyre_driver.ir.validation.uniformity import ACQUIRING
from vyre_driver.ir.walks import BODY_FIELDS, expressions_within

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from vyre_driver.ir.arithmetic import Expr

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
