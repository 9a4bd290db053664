"""Whether the invocations of a workgroup do the same, as upstream 0.7 has it: its rules V010 and V055.

V055 is about a loop with a barrier: an invocation that returns after the last one, and goes alone, leaves the others to write
what it has not read. So the returns after the last barrier of a turn must be taken by all or by none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import LITERALS, Binary, Unary, Var
from vyre_driver.ir.expressions import BufLen, Cast, Fma, Load, Select, WorkgroupId
from vyre_driver.ir.nodes import Assign, Barrier, Block, If, Let, Loop, Node, OpaqueNode, Region, Return
from vyre_driver.ir.terms import terms_within
from vyre_driver.ir.validation.buffer_uses import written_by
from vyre_driver.ir.validation.uniformity import ACQUIRING
from vyre_driver.ir.walks import expressions_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vyre_driver.ir.arithmetic import Expr

_UNIFORM = frozenset({*LITERALS, BufLen, WorkgroupId, Binary, Unary, Cast, Select, Fma, Load, Var})


def is_uniform(expr: Expr, is_uniform_variable: Callable[[str], bool], is_settled: Callable[[str], bool]) -> bool:
    """Return whether an expression has one value in a workgroup; loads only of settled buffers."""
    return all(
        type(term) in _UNIFORM
        and (not isinstance(term, Var) or is_uniform_variable(term.name))
        and (not isinstance(term, Load) or is_settled(term.buffer))
        for term in expressions_within(expr)
    )


def leaves_alone(loop: Loop, uniform: Iterable[str]) -> bool:
    """Return whether V055 refuses a loop; ``uniform`` are the variables that have one value at its start."""
    steps = _straight(loop.body)
    last = max((place for place, node in enumerate(steps) if _has(node, Return)), default=None)
    if last is None or not any(_has(node, Barrier) for node in steps):
        return False
    barriers = [place for place, node in enumerate(steps) if isinstance(node, Barrier)]
    if not barriers:
        return True
    if barriers[-1] > last:
        return False
    barrier = steps[barriers[-1]]
    state = _State(set(uniform), settled=isinstance(barrier, Barrier) and barrier.ordering in ACQUIRING)
    return not _all_return_together(steps[barriers[-1] + 1 : last + 1], state, together=True)


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


def _has(node: Node, kind: type[Node]) -> bool:
    return any(isinstance(term, kind) for term in terms_within(node))


@dataclass(slots=True)
class _State:
    """The knowledge after the last barrier: the uniform variables, whether loads are settled, and what was written since."""

    uniform: set[str]
    settled: bool
    written: set[str] = field(default_factory=set)

    def decides_together(self, expr: Expr) -> bool:
        return is_uniform(expr, self.uniform.__contains__, lambda buffer: self.settled and buffer not in self.written)

    def copy(self) -> _State:
        return _State(set(self.uniform), self.settled, set(self.written))

    def join(self, other: _State) -> None:
        self.uniform &= other.uniform
        self.settled = self.settled and other.settled
        self.written |= other.written


def _all_return_together(nodes: Sequence[Node], state: _State, *, together: bool) -> bool:
    """Return whether the returns in nodes are taken by all or none; ``together``: all come to the first node or none does."""
    all_together = True
    for node in nodes:
        all_together = _returns_together(node, state, together=together) and all_together
    return all_together


def _returns_together(node: Node, state: _State, *, together: bool) -> bool:
    """Return whether the returns in a node are taken by all or none, and note what it does to the state."""
    if isinstance(node, Return):
        return together
    if isinstance(node, Let | Assign):
        is_alike = state.decides_together(node.value)
        (state.uniform.add if is_alike else state.uniform.discard)(node.name)
    elif isinstance(node, Barrier) and node.ordering in ACQUIRING:
        state.settled, state.written = True, set()
    elif isinstance(node, OpaqueNode):
        state.settled = False
    elif isinstance(node, If | Loop):
        return _branch_returns_together(node, state, together=together)
    elif isinstance(node, Block | Region):
        return _all_return_together(node.body, state, together=together)
    state.written |= written_by(node)
    return True


def _branch_returns_together(node: If | Loop, state: _State, *, together: bool) -> bool:
    bounds = (node.cond,) if isinstance(node, If) else (node.start, node.stop)
    together = together and all(state.decides_together(bound) for bound in bounds)
    state.written |= written_by(node)
    before = state.copy()
    if isinstance(node, Loop):  # a later turn comes after what this one writes
        state.written |= {name for inner in terms_within(*node.body) if isinstance(inner, Node) for name in written_by(inner)}
        (state.uniform.add if together else state.uniform.discard)(node.var)
        all_together, other = _all_return_together(node.body, state, together=together), before
    else:
        other = before
        all_together = _all_return_together(node.then, state, together=together)
        all_together = _all_return_together(node.otherwise, other, together=together) and all_together
    state.join(other)
    return all_together
