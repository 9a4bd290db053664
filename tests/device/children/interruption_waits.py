"""Scenes of work that somebody waits for as concurrent.futures and asyncio do; for the interruption tests' child processes.

Who is first, the waiter or the poller, decides which bytecodes a wait comes to. Here the waiter is: work does not end before
the act lets it, which it does once it waits.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
from interruption_world import PUSH, TWICE, Stage, World, X, check

from vyre_driver.kompute import recording
from vyre_driver.kompute.results import VK_TIMEOUT
from vyre_driver.runtime import futures as futures_module

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_PAUSE_NS = 1_000_000
SERVED_WITHIN_S = 30.0


class Held:
    """Work that nobody sees the end of before the gate is opened that was closed when it was submitted."""

    def __init__(self, work: Any, gate: Gate) -> None:  # noqa: ANN401 -- the layer's, or what stands for it without one
        self._work = work
        self._gate = gate
        self._held_by = 0

    @property
    def is_pending(self) -> bool:
        return bool(self._work.is_pending)

    def submit(self) -> object:
        self._held_by = self._gate.closed_by
        return self._work.submit()

    def take_cut(self) -> bool:
        return bool(self._work.take_cut())

    def wait(self, timeout_ns: int | None = None) -> int:
        if not (self._held_by and self._held_by == self._gate.closed_by and self.is_pending):
            return int(self._work.wait(timeout_ns))
        assert timeout_ns is not None, "nothing opens the gate while this waits for ever"
        time.sleep(min(timeout_ns, LONGEST_PAUSE_NS) / 1e9)
        return VK_TIMEOUT


class Gate:
    """What holds all work that is recorded while it is ``in_place``; a wait of ``concurrent.futures`` opens it."""

    def __init__(self) -> None:
        self.closed_by = 0  # the number of the act that closed it; 0 while it is open
        self._numbers = itertools.count(1)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        made, gate = recording.Submission, self

        def held(device: Any, works: Any, *rest: Any, **more: Any) -> recording.Submission:  # noqa: ANN401 -- as Submission
            return made(device, [Held(work, gate) for work in works], *rest, **more)

        class Opening(futures_module._Event):  # noqa: SLF001 -- what concurrent.futures waits on
            def wait(self, timeout: float | None = None) -> bool:
                with self._condition:  # the poller cannot notify before the wait lets go of it
                    gate.open()
                    return super().wait(timeout)

        # A clock of its own: an await takes one turn of the event loop, and then it is followed.
        clock = SimpleNamespace(monotonic_ns=itertools.count(0, futures_module._TURNS_NS * 2 // 3).__next__)  # noqa: SLF001
        with (
            mock.patch.object(recording, "Submission", held),
            mock.patch.object(futures_module, "_Event", Opening),
            mock.patch.object(futures_module, "time", clock),
        ):
            yield

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        self.closed_by = next(self._numbers)
        try:
            yield
        finally:
            self.open()

    def open(self) -> None:
        self.closed_by = 0


class Behind:
    """Work on a buffer, submitted behind work that takes some milliseconds."""

    def __init__(self, world: World, gate: Gate) -> None:
        self._gate = gate
        kernel, self.buffer = world.driver.compile(world.module), world.driver.buffer(X)
        self.work = kernel.bind(self.buffer, push_constants=PUSH)
        self._slow = kernel.bind(world.driver.empty(1 << 21, np.uint32), push_constants=PUSH)
        self._poller = world.driver.context.device.poller

    def begin(self) -> None:
        self.buffer.write(X)
        self._slow.submit()

    def holds(self, values: np.ndarray[Any, Any]) -> None:
        check(np.array_equal(self.buffer.read(), values))

    def is_served(self) -> None:
        """Return when the poller's thread, which was started, serves: until then another one may be."""
        until = time.monotonic() + SERVED_WITHIN_S
        while not self._poller._serving.locked():  # noqa: SLF001 -- nobody else can tell
            check(time.monotonic() < until, f"no thread follows the work within {SERVED_WITHIN_S:g} s")
            time.sleep(0.0005)

    def end(self) -> None:
        """Return when no thread holds a future any more: it lets go of it a moment after it has notified.

        Work that is submitted before would be recorded a second time, beside what that thread holds.
        """
        self._gate.open()  # an interrupt on the way out of its block leaves it closed
        while any(thread.name == "vyre_driver futures" for thread in threading.enumerate()):
            time.sleep(0.001)


def waited_for(world: World) -> Iterator[Stage]:
    """Wait as concurrent.futures does, for work under way and for what has ended before anybody asked, with callbacks."""
    gate = Gate()
    called: list[object] = []

    with gate.in_place():
        behind = Behind(world, gate)

        def act() -> None:
            with gate.closed():
                behind.begin()
                futures = [behind.work.submit(), behind.work.submit(block=False)]
                futures[0].add_done_callback(called.append)
                behind.is_served()
                check(concurrent.futures.wait(futures).done == set(futures))
            check(len(list(concurrent.futures.as_completed(futures))) == 2)
            check((futures[0].exception(), futures[1].running(), futures[1].result()) == (None, False, None))
            behind.holds(TWICE)
            ended = behind.work.submit()
            behind.holds(3 * TWICE + np.uint32(1))
            ended.add_done_callback(called.append)
            check(called[-1] is ended)
            called.clear()

        try:
            yield Stage(world.driver, act, behind.end)
        finally:
            behind.end()


def awaited(world: World) -> Iterator[Stage]:
    """Await work, and a batch by way of asyncio."""
    gate = Gate()

    with gate.in_place():
        behind = Behind(world, gate)
        batch = world.driver.batch()
        batch.add(behind.work)

        # Not a coroutine: Python warns of one that a signal keeps from being awaited.
        def open_behind(loop: asyncio.AbstractEventLoop, future: Any) -> None:  # noqa: ANN401 -- what is asked is no part of its interface
            if future._audience is None:  # noqa: SLF001 -- nothing else tells that somebody waits
                loop.call_soon(open_behind, loop, future)
            else:
                gate.open()

        def passed_on(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            # asyncio.run raises what a signal raised in its task, and has that logged as an exception that nobody has seen.
            if not isinstance(context.get("exception"), KeyboardInterrupt):
                loop.default_exception_handler(context)

        async def both() -> None:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(passed_on)
            future, of_batch = behind.work.submit(), asyncio.wrap_future(batch.submit())
            behind.is_served()
            open_behind(loop, future)
            await asyncio.gather(future, of_batch)

        def act() -> None:
            with gate.closed():
                behind.begin()
                working = both()
                try:
                    asyncio.run(working)
                finally:
                    working.close()  # a signal may have come before its first step, and Python warns of that
            behind.holds(TWICE)

        try:
            yield Stage(world.driver, act, behind.end)
        finally:
            behind.end()


WAITS = (waited_for, awaited)
