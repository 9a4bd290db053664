"""Kernels made ready before their first calls: what machines share is taken, and each of them compiles what no other does.

Machines that start together would all compile the same pipeline first, and the same one next. So each goes through its list in
an order of its own, and claims what it is about to compile; what others have claimed it comes back to. Nobody waits for a claim
within a call: that would take as long as compiling.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidInput, with_article
from vyre_driver.runtime.kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vyre_driver.runtime.context import Context
    from vyre_driver.runtime.kernel_pipelines import KernelPipelines
    from vyre_driver.runtime.pipelines import FirstPipelines

AT_ONCE = 32  # of 64 questions that may wait
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 5.0


@dataclass(frozen=True, slots=True)
class WarmReport:
    """How many kernels had their compiled code here, took it from the store that machines share, and were compiled now."""

    known: int
    taken: int
    compiled: int


def warm(context: Context, kernels: Iterable[Kernel]) -> WarmReport:
    """Make the first pipelines of kernels; nothing is dispatched.

    Raises
    ------
    InvalidInput
        If one is no kernel of this driver.
    KernelCompileFailed
        If the Vulkan driver refuses one; those before it stay ready.
    """
    context.device.check_usable()
    todo = [_pipelines_of(context, kernel) for kernel in kernels]
    random.shuffle(todo)
    first, counts = context.first_pipelines, Counter[str]()
    remote = first.remote
    if remote is not None:
        remote.sends_at_once = True
    try:
        while todo:
            left, again_s = [], _LONGEST_PAUSE_S
            for place, one in enumerate(todo):
                if place % AT_ONCE == 0:
                    _ask(first, todo[place : place + AT_ONCE])
                wait_s = _make_ready(first, one, counts)
                if wait_s:
                    left.append(one)
                    again_s = min(again_s, wait_s)
            todo = left
            if todo:
                time.sleep(max(_SHORTEST_PAUSE_S, again_s))
    finally:
        if remote is not None:
            remote.sends_at_once = False
    return WarmReport(counts["known"], counts["taken"], counts["compiled"])


def _pipelines_of(context: Context, kernel: object) -> KernelPipelines:
    found = kernel._pipelines if isinstance(kernel, Kernel) else None  # noqa: SLF001 -- a kernel's own half
    if found is None or found.context is not context:
        what = with_article(type(kernel).__name__) if found is None else "a kernel of another driver"
        raise InvalidInput(f"warm got {what}", fix="give kernels that this driver's compile has returned")
    return found


def _ask(first: FirstPipelines, batch: list[KernelPipelines]) -> None:
    """Have the store asked for all of a batch, before any of it is waited for."""
    for one in batch:
        if not one.has_code:
            first.look_elsewhere(one.key, one.spirv)


def _make_ready(first: FirstPipelines, one: KernelPipelines, counts: Counter[str]) -> float:
    """Make a kernel ready and return 0, or return after how many seconds to look again for what somebody else compiles."""
    outcome = "compiled"
    if one.has_code:
        outcome = "known"
    elif first.has_arrived(one.key, one.spirv):
        outcome = "taken"
    else:
        wait_s = first.claim_s(one.key, one.spirv)
        if wait_s:
            return wait_s
    one.warm()
    counts[outcome] += 1
    return 0.0
