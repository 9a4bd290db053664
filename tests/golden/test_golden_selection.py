"""Scores, order and whole acquisitions, as upstream's own code gives them."""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING, Any

import pytest
from vectors import vectors

from vyre_driver.backends import registry
from vyre_driver.backends.acquisition import BackendSelectionFacts, acquire_preferred_dispatch_backend, backend_capability_score
from vyre_driver.backends.base import BackendFacts
from vyre_driver.backends.null import NullBackend
from vyre_driver.backends.registry import (
    NO_PRECEDENCE,
    BackendRegistration,
    is_reference_oracle,
    register_backend,
    registered_backends_by_precedence,
)
from vyre_driver.target.profile import DeviceProfile, DeviceTimingQuality

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.backends.base import Backend, BackendRequest

SELECTION = vectors("selection.json")
INVENTORY = SELECTION["registry"]


def facts(one: dict[str, Any]) -> BackendSelectionFacts:
    return BackendSelectionFacts(**{**one, "acquisition_ns": int(one["acquisition_ns"])})


def profile(one: dict[str, Any]) -> DeviceProfile:
    fields = {name: value for name, value in one.items() if name != "ignored"} | one["ignored"]
    fields["max_storage_buffer_binding_size"] = int(fields["max_storage_buffer_binding_size"])
    fields["timing_quality"] = DeviceTimingQuality(fields["timing_quality"])
    return DeviceProfile(**fields)


@pytest.fixture
def _bare_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No backends but those that a test registers."""
    monkeypatch.setattr(registry, "_BUILT_IN", {})
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(registry, "_look_around", dict)
    return


@pytest.mark.parametrize("case", range(len(SELECTION["lists"])))
def test_facts_sort_as_upstream_sorts_them(case: int) -> None:
    given = [facts(one) for one in SELECTION["lists"][case]["facts"]]
    expected = [facts(one) for one in SELECTION["lists"][case]["sorted"]]
    shuffled = given[:]
    random.Random(case).shuffle(shuffled)  # noqa: S311 -- an order, no secret
    assert (sorted(given), sorted(shuffled)) == (expected, expected)


def test_profiles_score_as_upstream_scores_them() -> None:
    cases = SELECTION["profiles"]
    expected = [(one["capability_score"], one["timing_quality_score"]) for one in cases]
    profiles = [profile(one["profile"]) for one in cases]
    assert [(backend_capability_score(one), one.timing_quality.score) for one in profiles] == expected


def test_upstreams_oracles_are_known_by_their_ids() -> None:
    assert [[name, is_reference_oracle(name)] for name, _ in SELECTION["reference_oracle"]] == SELECTION["reference_oracle"]


class Opened(NullBackend):
    """A backend that says which it is."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.id = name


def opened(name: str, _: BackendRequest) -> Backend:
    return Opened(name)


def failing(text: str, _: BackendRequest) -> Any:  # noqa: ANN401 -- it returns nothing
    raise OSError(text)


def registration(name: str, precedence: int, dispatches: bool, state: dict[str, Any], fails_in: str) -> BackendRegistration:  # noqa: FBT001 -- a row
    """A backend of the fake inventory; what fails does so when it is probed, or when it is opened."""
    if "fail" in state:
        fail = functools.partial(failing, state["fail"])
        probe = fail if fails_in == "probe" else lambda _: BackendFacts(DeviceProfile(name, max_storage_buffer_binding_size=1))
        return BackendRegistration(name, fail, precedence, dispatches, probe)
    told = BackendFacts(profile(state["profile"]))
    return BackendRegistration(name, functools.partial(opened, name), precedence, dispatches, lambda _: told)


@pytest.mark.usefixtures("_bare_registry")
def test_registered_backends_come_in_upstreams_order() -> None:
    for name, precedence, dispatches in INVENTORY[::-1]:
        register_backend(BackendRegistration(name, functools.partial(opened, name), precedence, dispatches))
    found = [[one.id, one.precedence, one.dispatches] for one in registered_backends_by_precedence()]
    asked = [[name, registry.backend_precedence(name), registry.backend_dispatches(name)] for name, *_ in INVENTORY]
    assert (found, asked) == (INVENTORY, INVENTORY)
    assert (registry.backend_precedence("__missing__"), registry.backend_dispatches("__missing__")) == (NO_PRECEDENCE, False)


@pytest.mark.usefixtures("_bare_registry")
@pytest.mark.parametrize("fails_in", ["probe", "factory"])
@pytest.mark.parametrize("case", range(len(SELECTION["end_to_end"])))
def test_a_whole_acquisition_selects_what_upstream_selects(case: int, fails_in: str) -> None:
    expected, state = SELECTION["end_to_end"][case]["result"], SELECTION["end_to_end"][case]["state"]
    for name, precedence, dispatches in INVENTORY:
        register_backend(registration(name, precedence, dispatches, state[name], fails_in))
    assert {"selected": acquire_preferred_dispatch_backend().id} == expected
