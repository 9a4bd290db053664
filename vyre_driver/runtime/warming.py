"""Kernels made ready before their first calls: what machines share is taken, and each of them compiles what no other does.

Machines that start together would all compile the same pipeline first, and the same one next. So each goes through its list in
an order of its own, and claims what it is about to compile; what others have claimed it comes back to. Nobody waits for a claim
within a call: that would take as long as compiling.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidInput, with_article
from vyre_driver.runtime.kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vyre_driver.runtime.context import Context
    from vyre_driver.runtime.kernel_pipelines import KernelPipelines
    from vyre_driver.runtime.pipelines import FirstPipelines

AT_ONCE = 8  # so that what a look has found is news, and thousands of looks at once do not hold up a server
MOST_AT_ONCE = 32  # where all of the eight before were there
MOST_LOST = 2  # of a look: where others have made claims since, they have made those of the rest
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S, _LOOKS_S = 0.05, 5.0, 0.02
_MOST_LOOKS = 25
_LEAST_PATIENCE_S, _EXPECTED_TIMES = 2.0, 4  # a claim holds for twice what compiling takes; nobody has signed it


@dataclass(frozen=True, slots=True)
class WarmReport:
    """How many kernels had their compiled code here, took it from the store that machines share, and were compiled now."""

    known: int
    taken: int
    compiled: int


def warm(context: Context, kernels: Iterable[Kernel], progress: Callable[[int], object] = lambda _done: None) -> WarmReport:
    """Make the first pipelines of kernels; nothing is dispatched. ``progress`` gets the number that are ready.

    Raises
    ------
    InvalidInput
        If one is no kernel of this driver.
    KernelCompileFailed
        If the Vulkan driver refuses one; those before it stay ready.
    """
    context.device.check_usable()
    return make_ready(context.first_pipelines, [_pipelines_of(context, kernel) for kernel in kernels], progress)


def make_ready(
    first: FirstPipelines, todo: list[KernelPipelines], progress: Callable[[int], object] = lambda _done: None
) -> WarmReport:
    """Make the first pipelines of kernels, in an order of this process's own; raises as ``warm``."""
    random.shuffle(todo)
    counts = Counter[str]()
    claimed_since: dict[bytes, float] = {}
    if first.remote is not None:
        first.remote.sends_at_once = True
    try:
        while todo:
            todo = _pass(first, todo, claimed_since, lambda outcome: _count(counts, outcome, progress))
            if todo:
                # Never twice the same: two pauses of a half would end just before what was begun with the first of them.
                share = random.uniform(0.25, 0.5)  # noqa: S311 -- no secret
                soonest_s = min(first.expected_s(one.spirv) for one in todo) * share
                _rest(first, todo, min(_LONGEST_PAUSE_S, max(_SHORTEST_PAUSE_S, soonest_s)))
    finally:
        if first.remote is not None:
            first.remote.sends_at_once = False
    return WarmReport(counts["known"], counts["taken"], counts["compiled"])


def _rest(first: FirstPipelines, todo: list[KernelPipelines], seconds: float) -> None:
    """Wait for so many seconds, or until other processes of this machine have taken or compiled all that is left.

    Each look reads an entry, which may be long; so a long rest has fewer of them.
    """
    ends, step_s = first.clock.now() + seconds, max(_LOOKS_S, seconds / _MOST_LOOKS)
    while (left_s := ends - first.clock.now()) > 0 and not all(first.is_here(one.key) for one in todo):
        first.clock.sleep(min(left_s, step_s))


def _pipelines_of(context: Context, kernel: object) -> KernelPipelines:
    found = kernel._pipelines if isinstance(kernel, Kernel) else None  # noqa: SLF001 -- a kernel's own half
    if found is None or found.context is not context:
        what = with_article(type(kernel).__name__) if found is None else "a kernel of another driver"
        raise InvalidInput(f"warm got {what}", fix="give kernels that this driver's compile has returned")
    return found


def _count(counts: Counter[str], outcome: str, progress: Callable[[int], object]) -> None:
    counts[outcome] += 1
    progress(counts.total())


def _pass(
    first: FirstPipelines, todo: list[KernelPipelines], claimed_since: dict[bytes, float], ready: Callable[[str], object]
) -> list[KernelPipelines]:
    """Make ready what is here, what the store has, and what nobody has claimed; returns the others.

    Where others are at all of a few, they are likely to be at the rest: it is looked at in the next pass, and first. Where all
    are there, so is the rest, likely, and more of it is looked at at once.
    """
    left: list[KernelPipelines] = []
    begin, count = 0, AT_ONCE
    while begin < len(todo):
        few = todo[begin : begin + count]
        begin += count
        claimed, are_there = _few(first, few, claimed_since, ready)
        left += claimed
        if len(claimed) == len(few):
            return todo[begin:] + left
        count = min(2 * count, MOST_AT_ONCE) if are_there else AT_ONCE
    return left


def _few(
    first: FirstPipelines, todo: list[KernelPipelines], claimed_since: dict[bytes, float], ready: Callable[[str], object]
) -> tuple[list[KernelPipelines], bool]:
    """Do that with as many as are looked at in one question; returns the others too, and whether there was nothing to compile.

    What another process of this machine has taken meanwhile is not asked for.
    """
    states = _states(first, todo)
    left, lost = [], 0
    for one, state in zip(todo, states, strict=True):
        waits, is_free = _may_wait(first, one, claimed_since), not state and not one.has_code
        outcome = "" if is_free and waits and lost >= MOST_LOST else _outcome(first, one, state, waits=waits)
        if outcome:
            one.warm()
            ready(outcome)
        else:
            claimed_since.setdefault(one.key.digest, first.clock.now())
            left.append(one)
            lost += is_free
    return left, {"here"}.issuperset(states)


def _states(first: FirstPipelines, todo: list[KernelPipelines]) -> list[str]:
    """Take what the store has; returns of each kernel whether it is ``here``, ``refused``, ``claimed``, or else nothing."""
    if first.remote is None:
        return [""] * len(todo)
    with first.remote.turn():
        states = ["here" if one.has_code or first.is_here(one.key) else "" for one in todo]
        asked = [number for number, state in enumerate(states) if not state]
        if asked:
            for number, state in zip(asked, first.remote.look([todo[number].key for number in asked]), strict=True):
                states[number] = state
        there = [number for number in asked if states[number] == "there"]
        for number in there:  # before the first of them is waited for: then they come together
            first.look_elsewhere(todo[number].key, todo[number].spirv)
        for number in there:
            states[number] = "here" if first.has_arrived(todo[number].key, todo[number].spirv) else "refused"
    return states


def _may_wait(first: FirstPipelines, one: KernelPipelines, claimed_since: dict[bytes, float]) -> bool:
    """Whether a kernel's claim may be waited for still: anybody may claim for ever what he never compiles."""
    since = claimed_since.get(one.key.digest)
    patience_s = max(_LEAST_PATIENCE_S, _EXPECTED_TIMES * first.expected_s(one.spirv))
    return since is None or first.clock.now() - since < patience_s


def _outcome(first: FirstPipelines, one: KernelPipelines, state: str, *, waits: bool) -> str:
    """Return how a kernel becomes ready now: ``known``, ``taken`` or ``compiled``; empty where somebody else compiles it.

    A caller that no longer ``waits`` compiles what others have claimed.
    """
    if one.has_code:
        return "known"
    if state == "here":  # taken now, or when it was compiled, or by another process of this machine
        return "taken" if first.was_taken(one.key) else "known"
    if state == "refused":  # it is next time too, and what others compile does not take its place
        return "compiled"
    if state == "claimed":
        return "" if waits else "compiled"
    if not first.may_compile(one.key, one.spirv) and waits:
        return ""
    # It may have come since the look: then its claim is no longer needed.
    return "taken" if first.has_arrived(one.key, one.spirv) else "compiled"
