"""Backends of other packages: found by name, imported when asked for, broken ones left out and remembered."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from literals import refusal

from vyre_driver.backends import registry
from vyre_driver.backends.acquisition import (
    acquire,
    acquire_preferred_dispatch_backend,
    backend_registration,
    probe_backend,
    rank_backends,
)
from vyre_driver.backends.base import BackendRequest
from vyre_driver.cli import doctor_package
from vyre_driver.errors import BackendUnavailable, InvalidRegistration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


GROUP = "vyre_driver.backends"
GOOD = """
from vyre_driver.backends import BackendRegistration
from vyre_driver.backends.null import NullBackend

class Toy(NullBackend):
    id = {id!r}

def registration():
    return BackendRegistration({id!r}, lambda request: Toy(), precedence=7, dispatches={dispatches})
"""


def good(backend_id: str, *, dispatches: bool = True) -> str:
    """The text of a module with a backend that works."""
    return GOOD.format(id=backend_id, dispatches=dispatches)


def install(place: Path, distribution: str, module: str, text: str, entries: Mapping[str, str]) -> None:
    """Put a module and the metadata of its distribution, version 1.5, into a directory on the path."""
    (place / f"{module}.py").write_text(text, "utf-8")
    metadata = place / f"{distribution.replace('-', '_')}-1.5.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.5\n", "utf-8")
    lines = [f"[{GROUP}]", *(f"{name} = {value}" for name, value in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Install = Callable[..., None]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install plug-ins for this test: ``installed(module, text, entry=value)``."""
    place = tmp_path / "plugins"
    place.mkdir()
    monkeypatch.syspath_prepend(str(place))
    before = set(sys.modules)
    registry._look_around.cache_clear()  # noqa: SLF001 -- looked for once a process
    yield lambda module, text, **entries: install(place, f"dist-of-{module}", module, text, entries)
    registry._look_around.cache_clear()  # noqa: SLF001 -- looked for once a process
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(place) in str(sys.modules[name].__file__):
            del sys.modules[name]


SOURCE = "dist-of-{0} 1.5 ({0}:registration)"


def test_a_plug_in_is_acquired_by_its_name(installed: Install) -> None:
    installed("toy_one", good("toy"), toy="toy_one:registration")
    backend = acquire("toy")
    found = [(one.id, one.precedence, one.source) for one in registry.registered_backends() if one.id == "toy"]
    assert (backend.id, found, registry.broken_plugins()) == ("toy", [("toy", 7, SOURCE.format("toy_one"))], ())


def test_an_entry_point_may_name_the_registration_itself(installed: Install) -> None:
    installed("toy_value", good("toy") + "\nmade = registration()\n", toy="toy_value:made")
    assert acquire("toy").id == "toy"


def test_only_the_plug_in_that_is_asked_for_is_imported(installed: Install) -> None:
    installed("toy_asked", good("asked"), asked="toy_asked:registration")
    installed("toy_other", good("other"), other="toy_other:registration")
    names = registry.known_ids()
    acquire("asked")
    assert ({"asked", "other"} <= set(names), "toy_asked" in sys.modules, "toy_other" in sys.modules) == (True, True, False)


def test_a_plug_in_that_raises_is_a_remembered_line_and_stops_nobody_else(installed: Install) -> None:
    installed("toy_raises", "raise OSError('no firmware')", bad="toy_raises:registration")
    installed("toy_good", good("toy"), toy="toy_good:registration")
    text = (
        f"backend 'bad' of {SOURCE.format('toy_raises')} cannot be imported: OSError: no firmware. "
        "Fix: repair or uninstall that package."
    )
    broken = [(one.id, one.source, type(one.error), str(one.error)) for one in registry.broken_plugins()]
    assert broken == [("bad", SOURCE.format("toy_raises"), BackendUnavailable, text)]
    assert acquire("toy").id == "toy"
    assert refusal(lambda: acquire("bad")) == (BackendUnavailable, 2004, text)
    assert "bad" not in {one.id for one in registry.registered_backends()}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import surely_not_there", "ModuleNotFoundError: No module named 'surely_not_there'"),
        ("x = 1", "AttributeError: module 'toy_odd' has no attribute 'registration'"),
    ],
)
def test_whatever_an_import_ends_with_is_told(installed: Install, text: str, said: str) -> None:
    installed("toy_odd", text, bad="toy_odd:registration")
    kind, _, message = refusal(lambda: acquire("bad"))
    problem = message.partition(". Fix:")[0]
    assert (kind, problem) == (BackendUnavailable, f"backend 'bad' of {SOURCE.format('toy_odd')} cannot be imported: {said}")


@pytest.mark.parametrize(
    ("value", "what"), [("lambda: 5", "of type int"), ("None", "of type NoneType"), ("other.registration", "for 'other'")]
)
def test_a_plug_in_that_gives_something_else_is_refused(installed: Install, value: str, what: str) -> None:
    installed("toy_other_id", good("other"), unused="toy_other_id:registration")
    installed("toy_wrong", f"import toy_other_id as other\nregistration = {value}", toy="toy_wrong:registration")
    assert refusal(lambda: acquire("toy")) == (
        InvalidRegistration,
        2207,
        (
            f"the entry point of backend 'toy' in {SOURCE.format('toy_wrong')} gives something {what}. "
            "Fix: let it name a BackendRegistration with the id 'toy', or a function that returns one."
        ),
    )


LOOK_UPS: dict[str, Callable[[], object]] = {
    "registered_backends": registry.registered_backends,
    "registered_backends_by_precedence": registry.registered_backends_by_precedence,
    "known_ids": registry.known_ids,
    "backend_dispatches": lambda: registry.backend_dispatches("kompute"),
    "backend_precedence": lambda: registry.backend_precedence("kompute"),
    "backend_registration": lambda: backend_registration("kompute"),
    "acquire": lambda: acquire("null"),
    "probe_backend": lambda: probe_backend("null", BackendRequest(None, allow_software=True)),
    "rank_backends": rank_backends,
    "acquire_preferred_dispatch_backend": acquire_preferred_dispatch_backend,
}
FIX = "Fix: uninstall one of them."


@pytest.mark.parametrize("name", LOOK_UPS)
def test_an_id_that_two_packages_bring_is_an_error_of_every_look_up(installed: Install, name: str) -> None:
    installed("toy_first", good("toy"), toy="toy_first:registration")
    installed("toy_second", good("toy"), toy="toy_second:registration")
    kind, code, message = refusal(LOOK_UPS[name])
    sources = [SOURCE.format(module) for module in ("toy_first", "toy_second")]
    texts = [f"backend 'toy' is brought by {' and by '.join(order)}. {FIX}" for order in (sources, sources[::-1])]
    assert (kind, code, message in texts) == (InvalidRegistration, 2207, True)
    assert {"toy_first", "toy_second"} & set(sys.modules) == set()


@pytest.mark.parametrize("name", LOOK_UPS)
def test_a_plug_in_with_the_id_of_a_built_in_backend_is_an_error_of_every_look_up(installed: Install, name: str) -> None:
    installed("toy_null", good("null"), null="toy_null:registration")
    text = f"backend 'null' is brought by vyre_driver itself and by {SOURCE.format('toy_null')}. {FIX}"
    assert refusal(LOOK_UPS[name]) == (InvalidRegistration, 2207, text)
    assert [(plugin.id, str(plugin.error)) for plugin in registry.broken_plugins()] == [("null", text)]
    assert "toy_null" not in sys.modules


def test_the_other_plug_ins_are_still_examined_where_an_id_is_brought_twice(installed: Install) -> None:
    installed("toy_null", good("null"), null="toy_null:registration")
    installed("toy_raises", "raise OSError('no firmware')", bad="toy_raises:registration")
    assert sorted((plugin.id, type(plugin.error)) for plugin in registry.broken_plugins()) == [
        ("bad", BackendUnavailable),
        ("null", InvalidRegistration),
    ]


def test_the_id_of_a_plug_in_cannot_be_registered_beside_it(installed: Install) -> None:
    installed("toy_one", good("toy"), toy="toy_one:registration")
    taken = registry.BackendRegistration("toy", lambda _: acquire("null"))
    assert refusal(lambda: registry.register_backend(taken)) == (
        InvalidRegistration,
        2207,
        f"backend 'toy' is brought by {SOURCE.format('toy_one')} and by this process. {FIX}",
    )
    assert registry.backend_precedence("toy") == 7


def test_doctor_names_a_conflict_and_goes_on(installed: Install) -> None:
    installed("toy_null", good("null"), null="toy_null:registration")
    check = doctor_package.check_backends()
    said = f"backend 'null' is brought by vyre_driver itself and by {SOURCE.format('toy_null')}"
    assert (check.state.value, check.says, check.fixes) == (
        "warning",
        said,
        ("uninstall one of them",),
    )


def test_a_ranking_leaves_a_broken_plug_in_out_and_goes_on(installed: Install) -> None:
    installed("toy_breaks", "1 / 0", bad="toy_breaks:registration")
    installed("toy_ranked", good("toy"), toy="toy_ranked:registration")
    assert {"toy"} == {one.id for one in rank_backends() if one.facts is not None} - {"kompute"}


def test_importing_the_package_looks_for_no_plug_ins(installed: Install, run_python: Callable[..., object]) -> None:
    installed("toy_early", "raise SystemExit('imported')", toy="toy_early:registration")
    code = "import sys, vyre_driver, vyre_driver.backends; print('importlib.metadata' in sys.modules)"
    done = run_python("-I", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}")
    assert (done.status, done.stdout) == (0, "False\n")  # type: ignore[attr-defined]


ASKS = """
from vyre_driver.backends import registry
seen = []
def registration():
    registry.known_ids()
    seen.extend(one.id for one in registry.registered_backends())
    broken.extend(one.id for one in registry.broken_plugins())
    return made()
broken = []
"""


def asking(name: str) -> str:
    return good(name).replace("def registration", "def made") + ASKS


def test_a_plug_in_may_ask_who_else_is_there_while_it_is_imported(installed: Install) -> None:
    installed("toy_asks", asking("asks"), asks="toy_asks:registration")
    installed("toy_other", good("other"), other="toy_other:registration")
    found = {one.id for one in registry.registered_backends()}
    assert ({"asks", "other"} <= found, registry.broken_plugins()) == (True, ())
    module = sys.modules["toy_asks"]
    assert ("asks" in module.seen, "other" in module.seen, module.broken) == (False, True, [])


def test_plug_ins_that_ask_for_each_other_are_both_there(installed: Install) -> None:
    for name in ("one", "two"):
        installed(f"toy_{name}", asking(name), **{name: f"toy_{name}:registration"})
    assert {"one", "two"} <= {one.id for one in registry.registered_backends()}
    assert registry.broken_plugins() == ()
    # The first to be imported had the other one imported, which found the first at it.
    assert sorted([*sys.modules["toy_one"].seen, *sys.modules["toy_two"].seen].count(name) for name in ("one", "two")) == [0, 1]


def test_many_threads_get_one_registration_of_a_plug_in(installed: Install) -> None:
    slowly = "import time\ndef registration():\n    time.sleep(0.2)"
    installed("toy_slow", good("slow").replace("def registration():", slowly), slow="toy_slow:registration")
    with ThreadPoolExecutor(8) as pool:
        found = [one.result() for one in [pool.submit(backend_registration, "slow") for _ in range(8)]]
    assert (found[0].id, [one is found[0] for one in found]) == ("slow", [True] * 8)


def test_an_import_that_is_interrupted_is_tried_again(installed: Install, tmp_path: Path) -> None:
    interrupted = tmp_path / "interrupted"
    stops_once = f"from pathlib import Path\nif not Path({str(interrupted)!r}).exists():\n    "
    stops_once += f"Path({str(interrupted)!r}).touch()\n    raise KeyboardInterrupt\n"
    installed("toy_stopped", stops_once + good("stopped"), stopped="toy_stopped:registration")
    with pytest.raises(KeyboardInterrupt):
        acquire("stopped")
    assert acquire("stopped").id == "stopped"


def test_a_plug_in_that_acquires_itself_is_told_so(installed: Install) -> None:
    text = "from vyre_driver.backends.acquisition import acquire\ndef registration():\n    return acquire('self')\n"
    installed("toy_self", text, self="toy_self:registration")
    kind, code, message = refusal(lambda: acquire("self"))
    assert (kind, code, "its own import asks for it" in message) == (BackendUnavailable, 2004, True)
