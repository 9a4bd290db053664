"""Acquiring: by id, the best one, and what is said where there is none."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

import pytest
from literals import refusal

from vyre_driver.backends import registry
from vyre_driver.backends.acquisition import (
    BackendCandidate,
    BackendSelectionFacts,
    acquire,
    acquire_preferred_dispatch_backend,
    backend_capability_score,
    backend_registration,
    explain_acquisition,
    rank_backends,
)
from vyre_driver.backends.base import BackendFacts, BackendRequest
from vyre_driver.backends.null import NullBackend
from vyre_driver.backends.registry import NO_PRECEDENCE, BackendRegistration, register_backend, unregister_backend
from vyre_driver.errors import BackendError, BackendNotFound, DeviceNotFound, InvalidRegistration, NoUsableBackend
from vyre_driver.target.profile import DeviceProfile, DeviceTimingQuality

if TYPE_CHECKING:
    from collections.abc import Callable

LAST = "Fix: run vyre-driver doctor, which shows what a GPU backend lacks; the reference oracle is acquired by name only."
pytestmark = pytest.mark.usefixtures("_bare_registry")


@pytest.fixture
def _bare_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The null backend, and what a test registers."""
    monkeypatch.setattr(registry, "_BUILT_IN", {"null": registry.find_registration("null")})
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(registry, "_look_around", dict)


class Opened(NullBackend):
    """A backend that remembers what it was asked for."""

    def __init__(self, name: str, request: BackendRequest) -> None:
        super().__init__()
        self.id = name
        self.request = request


def put(  # noqa: PLR0913 -- a registration in one line
    name: str,
    precedence: int = 1,
    *,
    fails: Exception | None = None,
    facts: BackendFacts | None = None,
    dispatches: bool = True,
    oracle: bool = False,
) -> list[BackendRequest]:
    """Register a backend; returns the requests that reach its factory."""
    requests: list[BackendRequest] = []

    def open_one(request: BackendRequest) -> Opened:
        requests.append(request)
        if fails is not None:
            raise fails
        return Opened(name, request)

    probe: Callable[[BackendRequest], BackendFacts] | None = None if facts is None else lambda _: facts
    register_backend(BackendRegistration(name, open_one, precedence, dispatches, probe, reference_oracle=oracle))
    return requests


def told(score_16: bool, device: str = "a GPU", *, software: bool = False) -> BackendFacts:  # noqa: FBT001 -- a table's cell
    return BackendFacts(DeviceProfile("x", max_storage_buffer_binding_size=int(score_16)), device, software)


def test_a_profile_with_everything_scores_66_and_one_with_nothing_0() -> None:
    everything = DeviceProfile(
        supports_subgroup_ops=True,
        supports_indirect_dispatch=True,
        supports_f16=True,
        supports_bf16=True,
        supports_tensor_cores=True,
        has_subgroup_shuffle=True,
        has_shared_memory=True,
        max_invocations_per_workgroup=256,
        max_storage_buffer_binding_size=1,
        subgroup_size=1,
        supports_device_timestamps=True,
        supports_hardware_counters=True,
    )
    assert (backend_capability_score(everything), backend_capability_score(DeviceProfile())) == (66, 0)


def test_facts_of_a_registration_are_those_of_its_profile() -> None:
    made = BackendRegistration("b", lambda _: NullBackend(), 4)
    profile = DeviceProfile("b", mem_bw_gbps=9, subgroup_size=32, timing_quality=DeviceTimingQuality.DEVICE_TIMESTAMPS)
    assert BackendSelectionFacts.of(made, profile, 5) == BackendSelectionFacts("b", 4, 8, 2, 9, 5)


def test_only_the_winner_is_initialised() -> None:
    weak, strong = put("weak", facts=told(False)), put("strong", 9, facts=told(True))
    assert (acquire_preferred_dispatch_backend().id, weak, strong) == ("strong", [], [BackendRequest(None, False)])


def test_equal_backends_go_by_precedence_and_then_by_id() -> None:
    for name, precedence in (("c", 2), ("b", 1), ("a", 2), ("d", 1)):
        put(name, precedence)
    assert [one.id for one in rank_backends()] == ["b", "d", "a", "c", "null"]


def test_a_winner_that_fails_makes_way_for_the_next_one() -> None:
    put("first", 1, fails=OSError("no firmware"))
    put("second", 2)
    found = explain_acquisition()
    failed = (
        "failed: backend 'first' of this process failed to open with OSError: no firmware. "
        "Fix: report it to whoever made that backend, or acquire another one."
    )
    assert (found.backend.id, [(one.id, one.verdict) for one in found.why]) == (
        "second",
        [("second", "chosen"), ("null", "left out: it does not dispatch"), ("first", failed)],
    )


def test_the_ranking_says_of_each_backend_what_decided() -> None:
    gpu = BackendFacts(DeviceProfile("x", subgroup_size=8, mem_bw_gbps=10), "a GPU")
    put("best", 3, facts=gpu)
    put("slower", 3, facts=BackendFacts(DeviceProfile("x", subgroup_size=8, mem_bw_gbps=9), "another"))
    put("coarser", 3, facts=BackendFacts(DeviceProfile("x", subgroup_size=8, mem_bw_gbps=10), "third"))
    put("weaker", 3, facts=told(False))
    put("later", 4, facts=gpu)
    put("seer", 0, oracle=True)
    found = explain_acquisition()
    assert [(one.id, one.device, one.verdict) for one in found.why] == [
        ("best", "a GPU", "chosen"),
        ("coarser", "third", "behind: its id comes later"),
        ("later", "a GPU", "behind: precedence 4 against 3"),
        ("slower", "another", "behind: bandwidth in GB/s 9 against 10"),
        ("weaker", "a GPU", "behind: capability score 0 against 8"),
        ("seer", "", "left out: a reference oracle is acquired by name only"),
        ("null", "", "left out: it does not dispatch"),
    ]
    first = found.why[0].facts
    assert first is not None
    assert (first.acquisition_ns, found.acquisition_ns > 0) == (found.acquisition_ns, True)


def test_the_ranking_is_a_table_of_text() -> None:
    put("one", 30, facts=BackendFacts(DeviceProfile("one", subgroup_size=8), "a GPU"))
    put("two")
    lines = str(explain_acquisition()).splitlines()
    assert lines == [
        "   backend  capability  timing  GB/s  precedence  device  verdict",
        "1  one      8           0       0     30          a GPU   chosen",
        "2  two      0           0       0     1                   behind: capability score 0 against 8",
        "-  null                                                   left out: it does not dispatch",
    ]


def test_what_a_ranking_says_is_values() -> None:
    put("one", 30, facts=told(True))
    assert rank_backends()[0] == BackendCandidate("one", BackendSelectionFacts("one", 30, 16), "a GPU", False, "not opened")


def test_a_cpu_device_ranks_below_every_other_and_only_where_one_is_allowed(caplog: pytest.LogCaptureFixture) -> None:
    put("soft", facts=told(True, "llvmpipe", software=True))
    put("hard", facts=told(False))
    assert [(one.id, one.verdict) for one in explain_acquisition(allow_software=True).why][:2] == [
        ("hard", "chosen"),
        ("soft", "behind: a CPU (software) device"),
    ]
    refused = "left out: llvmpipe is a CPU (software) device and none was allowed"
    assert [(one.id, one.verdict) for one in rank_backends()] == [
        ("hard", "not opened"),
        ("soft", refused),
        ("null", "left out: it does not dispatch"),
    ]
    unregister_backend("hard")
    with caplog.at_level(logging.WARNING, "vyre_driver.backends"):
        found = explain_acquisition(allow_software=True)
    assert (found.why[0].verdict, found.why[0].is_software) == ("chosen: a CPU (software) device, which was allowed", True)
    assert [one.getMessage() for one in caplog.records] == ["backend soft runs on llvmpipe, a CPU (software) device"]


def test_a_software_device_is_allowed_by_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    put("soft", facts=told(True, "llvmpipe", software=True))
    assert refusal(acquire_preferred_dispatch_backend) == (
        NoUsableBackend,
        2015,
        "no usable GPU dispatch backend is available (soft: llvmpipe is a CPU (software) device and none was allowed). " + LAST,
    )
    monkeypatch.setenv("VYRE_ALLOW_SOFTWARE", "1")
    assert acquire_preferred_dispatch_backend().id == "soft"


def test_where_every_factory_fails_each_is_named_with_its_reason() -> None:
    put("a", fails=DeviceNotFound("there is no device", fix="install a Vulkan driver"))
    put("b", 2, fails=ZeroDivisionError("division by zero"))
    assert refusal(acquire_preferred_dispatch_backend) == (
        NoUsableBackend,
        2015,
        (
            "no usable GPU dispatch backend is available (a: there is no device. Fix: install a Vulkan driver.; "
            "b: backend 'b' of this process failed to open with ZeroDivisionError: division by zero. "
            f"Fix: report it to whoever made that backend, or acquire another one.). {LAST}"
        ),
    )


def test_a_device_that_disappears_between_probe_and_creation_is_a_failure_by_name() -> None:
    put("gone", facts=told(True), fails=DeviceNotFound("'uuid:00' names no device; there are 0 ()", fix="name one of those"))
    assert "gone: 'uuid:00' names no device" in refusal(acquire_preferred_dispatch_backend)[2]


@pytest.mark.parametrize("name", ["cpu-ref", "reference"])
def test_where_there_is_only_the_oracle_it_is_named_and_not_taken(name: str) -> None:
    requests = put(name)
    assert refusal(acquire_preferred_dispatch_backend) == (
        NoUsableBackend,
        2015,
        f"no usable GPU dispatch backend is available (only reference oracle backend(s) were available: {name}). {LAST}",
    )
    assert requests == []
    assert acquire(name).id == name


def test_where_nothing_dispatches_that_is_said() -> None:
    put("quiet", dispatches=False)
    said = "no usable GPU dispatch backend is available (no dispatch-capable backend is registered). "
    assert refusal(acquire_preferred_dispatch_backend) == (NoUsableBackend, 2015, said + LAST)


def test_the_null_backend_is_had_by_name_only() -> None:
    assert (acquire("null").id, refusal(acquire_preferred_dispatch_backend)[0]) == ("null", NoUsableBackend)


def test_an_unknown_id_is_refused_with_those_that_are_near() -> None:
    put("cuda")
    assert refusal(lambda: acquire("CUDDA")) == (
        BackendNotFound,
        2014,
        (
            "no backend has the id 'CUDDA'; there are cuda, null; near it: cuda. "
            "Fix: name one of those, or install the package that brings it."
        ),
    )
    assert refusal(lambda: acquire(5)) == (  # type: ignore[arg-type]
        BackendNotFound,
        2014,
        "no backend has the id 5; there are cuda, null. Fix: name one of those, or install the package that brings it.",
    )


def test_what_a_factory_raises_that_is_no_error_of_ours_becomes_one() -> None:
    put("bad", fails=KeyError("x"))
    kind, code, message = refusal(lambda: acquire("bad"))
    assert (kind, code, message.partition(". Fix:")[0]) == (
        BackendError,
        1999,
        "backend 'bad' of this process failed to open with KeyError: 'x'",
    )


def test_device_and_software_reach_the_factory_from_arguments_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = put("one")
    acquire("one", "uuid:5", allow_software=True)
    monkeypatch.setenv("VYRE_DEVICE", "type:discrete")
    monkeypatch.setenv("VYRE_ALLOW_SOFTWARE", "1")
    acquire("one")
    acquire("one", 3, allow_software=False)
    assert requests == [
        BackendRequest("uuid:5", True),
        BackendRequest("type:discrete", True),
        BackendRequest(3, False),
    ]


def test_a_second_registration_of_an_id_is_refused_with_both_names() -> None:
    put("one")
    text = "Fix: uninstall one of them."
    twin = BackendRegistration("one", lambda _: NullBackend(), source="my.module")
    assert refusal(lambda: register_backend(twin)) == (
        InvalidRegistration,
        2207,
        f"backend 'one' is brought by this process and by my.module. {text}",
    )
    assert refusal(lambda: put("null"))[2] == f"backend 'null' is brought by vyre_driver itself and by this process. {text}"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"id": ""}, "the id of a backend is ''"),
        ({"id": "a\nb"}, "the id of a backend is 'a\\nb'"),
        ({"id": 5}, "the id of a backend is 5"),
        ({"id": " x"}, "the id of a backend is ' x'"),
        ({"precedence": -1}, "the precedence of backend 'x' is -1"),
        ({"precedence": True}, "the precedence of backend 'x' is True"),
        ({"precedence": NO_PRECEDENCE + 1}, f"the precedence of backend 'x' is {NO_PRECEDENCE + 1}"),
        ({"factory": 5}, "factory or probe of backend 'x' cannot be called"),
        ({"probe": 5}, "factory or probe of backend 'x' cannot be called"),
    ],
)
def test_a_registration_that_cannot_be_meant_is_refused(changes: dict[str, object], problem: str) -> None:
    make = functools.partial(BackendRegistration, **{"id": "x", "factory": lambda _: NullBackend(), **changes})  # type: ignore[arg-type]
    kind, code, message = refusal(make)
    assert (kind, code, message.partition(". Fix:")[0]) == (InvalidRegistration, 2207, problem)


def test_the_registration_of_a_backend_is_returned_and_an_unknown_one_is_refused() -> None:
    put("one", precedence=5)
    assert (backend_registration("one").precedence, backend_registration("null").source) == (5, "vyre_driver itself")
    assert refusal(lambda: backend_registration("nul")) == (
        BackendNotFound,
        2014,
        (
            "no backend has the id 'nul'; there are null, one; near it: null. "
            "Fix: name one of those, or install the package that brings it."
        ),
    )


def test_something_else_cannot_be_registered() -> None:
    assert refusal(lambda: register_backend(NullBackend))[2] == (  # type: ignore[arg-type]
        "what is registered is of type ABCMeta. Fix: register a BackendRegistration."
    )


def test_a_backend_that_is_forgotten_is_not_known_any_more() -> None:
    put("one")
    unregister_backend("one")
    unregister_backend("one")
    assert refusal(lambda: acquire("one"))[0] is BackendNotFound
