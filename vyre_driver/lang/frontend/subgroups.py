"""The functions of subgroups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.expressions import SubgroupAdd, SubgroupBallot, SubgroupLocalId, SubgroupShuffle, SubgroupSize
from vyre_driver.lang.frontend import wide
from vyre_driver.lang.frontend.arithmetic import binary
from vyre_driver.lang.frontend.conversions import cast, truth, typed
from vyre_driver.lang.frontend.values import Number
from vyre_driver.lang.types import bool_, f64, i32, i64, u32

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value


def subgroup_sum(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return the sum over a subgroup."""
    number = typed(t, given[0], node)
    number = cast(t, number, i32, node) if number.type is bool_ else number
    if number.type in {i64, f64}:
        raise t.mistyped(node, f"subgroup_sum of {number.type}", f"convert: {'u64' if number.type is i64 else 'f32'}(...)")
    return t.draft.let("sum", Number(number.type, SubgroupAdd(number.expr), *number.type.bounds))


def shuffle(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return the value of another invocation of the subgroup."""
    number, at = typed(t, given[0], node), typed(t, given[1], node)
    if not at.type.is_whole:
        raise t.mistyped(node, f"the lane of a shuffle is {at.type}", "convert: i32(...)")
    if at.type.is_wide:
        at = wide.as_index(t.draft.hold(at, "at"))
    low, high = min(number.low, 0), max(number.high, 0)
    return t.draft.let("shuffled", Number(number.type, SubgroupShuffle(number.expr, at.expr), low, high))


def shuffle_xor(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return the value of the invocation whose place differs in these bits."""
    at = binary(t, "^", lane(t, (), node), typed(t, given[1], node), node)
    return shuffle(t, (given[0], at), node)


def ballot(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return a bit for each invocation of the subgroup for which a condition holds."""
    test = truth(typed(t, given[0], node))
    return t.draft.let("ballot", Number(u32, SubgroupBallot(test.expr), *u32.bounds))


def lane(_: Translation, __: Sequence[Value], ___: ast.Call) -> Value:
    """Return the place in the subgroup."""
    return Number(i32, SubgroupLocalId(), 0, 127)


def subgroup_size(_: Translation, __: Sequence[Value], ___: ast.Call) -> Value:
    """Return how many invocations a subgroup has."""
    return Number(i32, SubgroupSize(), 1, 128)
