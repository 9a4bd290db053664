"""What objects show of themselves: one line that says what they are, which and in what state, and tables in notebooks."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from literals import device

from vyre_driver.autotune import AutotuneStore
from vyre_driver.autotune.measure.tune import TuningResult
from vyre_driver.autotune.search.outcomes import Outcome, Status
from vyre_driver.autotune.search.space import Candidate
from vyre_driver.autotune.store.records import TuningMode, TuningRecords
from vyre_driver.cache import DiskPipelineCache
from vyre_driver.cache.directory import EntryDirectory
from vyre_driver.display.line import count, facts, one_line, table
from vyre_driver.runtime.batch import Batch
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.telemetry.events import EventKind, Events
from vyre_driver.vulkan.devices import Devices

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOSTILE = "<script>alert('x')</script>\x1b[31m\u202e\n\""


class Cells(HTMLParser):
    """The tags and texts of a piece of HTML; what is open at its end stays in ``open``."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert attrs == []
        self.tags.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize(
    "make", [lambda: facts(HOSTILE, {HOSTILE: HOSTILE}), lambda: table([[HOSTILE]], head=[HOSTILE], caption=HOSTILE)]
)
def test_nothing_in_a_table_is_markup_or_invisible(make: Callable[[], str]) -> None:
    text = make()
    found = Cells(text)
    shown = "<script>alert('x')</script>\\x1b[31m\\u202e\\n\""
    assert (found.open, "script" in found.tags, "".join(found.texts)) == ([], False, shown * 3)
    assert text.isprintable()


def test_a_table_has_its_cells_in_rows() -> None:
    assert table([(1, "a"), (2.5, None)], head=("n", "what")) == (
        "<table><thead><tr><th>n</th><th>what</th></tr></thead>"
        "<tbody><tr><td>1</td><td>a</td></tr><tr><td>2.5</td><td>None</td></tr></tbody></table>"
    )


def test_empty_parts_of_a_line_are_left_out() -> None:
    found = [one_line("A"), one_line("A", "", "b", ""), one_line("A", "b", "c"), count(1, "byte"), count(1234, "byte")]
    assert found == ["<vyre_driver.A>", "<vyre_driver.A b>", "<vyre_driver.A b, c>", "1 byte", "1,234 bytes"]


def test_a_module_is_its_name_and_size_and_not_its_code() -> None:
    module = shipped_module("saxpy")
    size = f"{len(module.code):,} bytes"
    assert repr(module) == f"<vyre_driver.SpirvModule 'saxpy.spv', entry 'main', 2 resources, {size}>"
    assert repr(replace(module, name="a\n\x1b", entry="b")).startswith(r"<vyre_driver.SpirvModule 'a\n\x1b', entry 'b', ")
    entries = replace(module.interface, entry_points=module.interface.entry_points * 5)
    assert "entry 'main', 'main', 'main', ..., " in repr(replace(module, interface=entries))


def test_devices_are_a_line_each_and_a_table_in_a_notebook() -> None:
    one = device(name="A <GPU>", driver_name="d", driver_info="1.2")
    two = replace(one, index=1, name="B")
    line = (
        f"<vyre_driver.PhysicalDevice 0: 'A <GPU>', {one.kind}, Vulkan {one.api}, driver 'd 1.2', uuid:{one.device_uuid.hex()}>"
    )
    assert repr(one) == line
    both = Devices([one, two])
    assert (repr(Devices([one])), repr(both)) == (f"({line},)", f"({line},\n {two!r})")
    assert (both == (one, two), pickle.loads(pickle.dumps(both)) == both, repr(Devices())) == (True, True, "()")  # noqa: S301 -- ours
    cells = Cells(both._repr_html_())
    assert (cells.open, {"A <GPU>", "B", "d 1.2"} <= set(cells.texts)) == ([], True)
    assert {"A <GPU>", "d 1.2", one.api} <= set(Cells(one._repr_html_()).texts)


def test_a_batch_tells_how_much_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = Batch(Events())
    found = [repr(batch)]
    monkeypatch.setattr(batch, "_bound", [None])
    found.append(repr(batch))
    assert found == ["<vyre_driver.Batch of 0 dispatches>", "<vyre_driver.Batch of 1 dispatch>"]


def test_events_are_their_counts() -> None:
    events = Events()
    before = repr(events)
    events.emit(EventKind.HIT)
    events.emit(EventKind.DISPATCH, 5, None, 3)
    assert (before, repr(events)) == (
        "<vyre_driver.Events none yet, 0 listeners>",
        "<vyre_driver.Events hit 1, dispatch 3, 0 listeners>",
    )


def test_a_cache_tells_its_place_and_state_without_a_look_at_the_disk(tmp_path: Path) -> None:
    place = tmp_path / "a\n"
    caches = [
        DiskPipelineCache(None),
        DiskPipelineCache(place),
        DiskPipelineCache(place, readonly=True, base=tmp_path / "base", hmac_key=b"k" * 32),
    ]
    root = repr(str(place))
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(EntryDirectory, "is_usable")
        told = list(map(repr, caches))
    assert told == [
        "<vyre_driver.DiskPipelineCache in memory>",
        f"<vyre_driver.DiskPipelineCache at {root}>",
        f"<vyre_driver.DiskPipelineCache at {root}, read-only, sealed, base {str(tmp_path / 'base')!r}>",
    ]
    place.touch()
    caches[1].usage()
    assert repr(caches[1]) == f"<vyre_driver.DiskPipelineCache at {root}, not used>"


def test_tuning_records_tell_whether_they_were_read(tmp_path: Path) -> None:
    path = tmp_path / "records.toml"
    records = TuningRecords(None, path, TuningMode.READ)
    before = repr(records)
    assert len(records.store) == 0
    assert (before, repr(records), repr(TuningRecords(AutotuneStore(), None, TuningMode.OFF))) == (
        f"<vyre_driver.TuningRecords at {str(path)!r}, mode read, not read yet>",
        f"<vyre_driver.TuningRecords at {str(path)!r}, mode read, 0 records>",
        "<vyre_driver.TuningRecords in memory, mode off, 0 records>",
    )


def test_a_store_tells_whether_it_is_saved() -> None:
    assert repr(AutotuneStore()) == "<vyre_driver.AutotuneStore of 0 records>"


def test_the_result_of_tuning_is_its_best() -> None:
    best = Outcome(Candidate((64, 1, 1), (("TILE", 4),)), Status.TIMED, 5, 1_234_567.0)
    other = Outcome(Candidate((64, 1, 1), (("TILE", 8),)), Status.NOT_TRIED)
    result = TuningResult("saxpy", (1000, 2), (best, other), best, None, None, 5, 1.5)  # type: ignore[arg-type]
    assert repr(result) == (
        "<vyre_driver.TuningResult of saxpy 1000x2, best TILE=4 in 1,234.6 us, 1 of 2 candidates tried in 2 s>"
    )
    assert repr(replace(result, ties=(other.candidate,), size=())).endswith(" in 2 s, 1 other as fast>")


@pytest.mark.device
def test_a_pool_is_its_devices_and_its_work() -> None:
    from vyre_driver import DriverPool

    with DriverPool() as pool:
        names = ", ".join(repr(one.device.name) for one in pool.drivers)
        before = repr(pool)
        pool.submit(lambda driver: driver.report()).result()
    assert (before, repr(pool)) == (
        f"<vyre_driver.DriverPool on {names}, 0 jobs under way>",
        f"<vyre_driver.DriverPool on {names}, 0 jobs under way, closed>",
    )


@pytest.mark.device
def test_the_devices_of_this_machine_are_short() -> None:
    from vyre_driver import devices

    found = devices()
    assert (
        isinstance(found, tuple),
        re.fullmatch(r"\((<vyre_driver\.PhysicalDevice [^\n]{20,300}>,?\s*)+\)", repr(found)) is not None,
    ) == (
        True,
        True,
    )
