"""What is dropped with the last reference to something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from vyre_driver.autotune.measure import trials
from vyre_driver.cache.directory import Tally
from vyre_driver.cache.upkeep import Pruner
from vyre_driver.runtime.bound import RecentBindings, ResidentDispatch
from vyre_driver.runtime.room import Room

if TYPE_CHECKING:
    from collections.abc import Callable


class Referent:
    """Anything that can be referred to weakly."""


def recent_bindings(referent: Referent) -> Callable[[], object]:
    recent = RecentBindings()
    bound = cast("ResidentDispatch", Referent())
    recent.remember("key", bound, [cast("Any", referent), cast("Any", referent)])
    assert recent.find("key") is bound
    return lambda: recent.find("key")


def eviction_listeners(referent: Referent) -> Callable[[], object]:
    pruner = Pruner(None, Tally(), 0)
    pruner.tell(cast("Any", referent))
    told = pruner._listeners  # noqa: SLF001 -- what is looked at
    assert len(told) == 1
    return lambda: sorted(told, key=id) or None


def keepers_of_room(referent: Referent) -> Callable[[], object]:
    room = Room()
    room.add(cast("Any", referent))
    kept = room._keepers  # noqa: SLF001 -- what is looked at
    assert len(kept) == 1
    return lambda: sorted(kept, key=id) or None


def runs_that_have_not_ended(referent: Referent) -> Callable[[], object]:
    held = trials._held_with(cast("Any", referent))  # noqa: SLF001 -- what is looked at
    assert trials._held_with(cast("Any", referent)) is held  # noqa: SLF001
    held.append("a run")
    return lambda: [one for one in trials._running.values() if one is held] or None  # noqa: SLF001


@pytest.mark.parametrize("scene", [recent_bindings, eviction_listeners, keepers_of_room, runs_that_have_not_ended])
def test_what_ends_with_a_referent_is_gone(scene: Callable[[Referent], Callable[[], object]]) -> None:
    referents = [Referent()]
    left = scene(referents[0])
    referents.clear()
    assert left() is None


def test_bindings_that_ended_make_way_before_the_others() -> None:
    recent = RecentBindings()
    referents = [Referent() for _ in range(33)]
    bound = [cast("ResidentDispatch", Referent()) for _ in range(33)]
    for at in range(32):
        recent.remember(at, bound[at], [cast("Any", referents[at])])
    del referents[5]
    recent.remember(32, bound[32], [cast("Any", referents[-1])])
    assert [recent.find(at) for at in range(33)] == [*bound[:5], None, *bound[6:]]
