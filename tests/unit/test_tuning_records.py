"""Which record a kernel is run with, where records are kept, and what they are records of."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
import pytest
from literals import DEVICE, device

from vyre_driver.autotune import (
    AutotuneKey,
    AutotuneRecord,
    AutotuneStore,
    AutotuneWarning,
    Axis,
    Candidate,
    TuningSpace,
)
from vyre_driver.autotune.store.records import TuningMode, TuningRecords, default_path, read_size, size_text
from vyre_driver.autotune.target import TuningTarget
from vyre_driver.errors import InvalidAutotuneFile, InvalidInput, InvalidSetting
from vyre_driver.specialization import Specialization, SpecializedConstant, SpecMap, SpecValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

UNKNOWN = 99  # an unrolling that the kernel has not
KEY = AutotuneKey("11" * 16, "gpu")
SPACE = TuningSpace(
    (
        Axis("GROUP", (128, 64, 256), workgroup="x"),
        Axis("DEPTH", (4, 1)),
        Axis("TILE", (16, 8)),
    )
)
TARGET = TuningTarget(
    "matmul", bytes(range(32)), bytes(range(32, 64)), SPACE, DEVICE, SpecMap({"CHECKS": SpecValue.bool(True)}), 2
)
GOLDEN_IDENTITY = "4e34689a8c2849a1f7aed1f8ebeecfd3959a7a3e3d889ac6ffb95c3788aa91d8"
BUMP = "what an identity covers has changed: bump TUNING_VERSION, then write the new identity here"


@dataclass(frozen=True)
class Kernel:
    """A target whose identity is made of its name and the size."""

    name: str = "kernel"

    @property
    def key(self) -> AutotuneKey:
        return KEY

    def identity(self, size: str = "") -> str:
        return hashlib.sha256(f"{self.name} {size}".encode()).hexdigest()

    def accepts(self, record: AutotuneRecord) -> bool:
        return record.unroll != UNKNOWN

    def record(self, unroll: int, size: str = "", samples: int = 1) -> AutotuneRecord:
        return AutotuneRecord((64, 1, 1), unroll, (0, 0, 0), "2026-11-21", self.identity(size), samples, size=size)


def records_of(*records: AutotuneRecord, mode: TuningMode = TuningMode.READ) -> TuningRecords:
    store = AutotuneStore()
    for one in records:
        store.put(KEY, one)
    return TuningRecords(store, None, mode)


def found(records: TuningRecords, size: tuple[int, ...] = ()) -> int | None:
    record = records.best(Kernel(), size)
    return None if record is None else record.unroll


@pytest.mark.parametrize(
    ("size", "unroll"),
    [((1024, 1024), 1), ((2048, 512), 2), ((1024, 2048), 1), ((4096, 512), 2), ((2048, 1024), 1), ((1, 1), 1), ((7,), None)],
)
def test_the_record_of_the_nearest_size_is_taken_and_of_two_as_near_the_smaller(
    size: tuple[int, ...], unroll: int | None
) -> None:
    kernel = Kernel()
    records = records_of(kernel.record(1, "1024x1024"), kernel.record(2, "2048x512"), kernel.record(3))
    assert found(records, size) == unroll


def test_a_record_for_any_size_is_found_where_the_size_does_not_matter() -> None:
    assert found(records_of(Kernel().record(1, "1024"), Kernel().record(2))) == 2


def test_a_record_of_another_identity_is_never_taken_though_its_key_is_the_same() -> None:
    kernel = Kernel()
    others = AutotuneRecord((64, 1, 1), 5, (0, 0, 0), "2026-11-21")
    changed = replace(kernel.record(6, "1024"), size="512")
    records = records_of(Kernel("another").record(4, "1024"), others, changed)
    assert (found(records, (1024,)), found(records, (512,)), found(records)) == (6, None, None)


def test_a_record_of_no_use_counts_as_none() -> None:
    kernel = Kernel()
    unusable, near = kernel.record(UNKNOWN, "64", samples=9), kernel.record(UNKNOWN, "128")
    records = records_of(unusable, near, kernel.record(1, "4096"), kernel.record(UNKNOWN))
    assert (found(records, (64,)), found(records, (128,)), found(records)) == (1, 1, None)
    tuning = records_of(unusable, kernel.record(1, "4096"), mode=TuningMode.TUNE)
    assert [tuning.claim(kernel, size) for size in ((64,), (64,), (4096,), (128,))] == [True, False, False, True]


def test_switched_off_nothing_is_known() -> None:
    assert found(records_of(Kernel().record(1), mode=TuningMode.OFF)) is None


def test_what_is_kept_is_saved_and_the_better_measured_stays_unless_it_is_replaced(tmp_path: Path) -> None:
    path, kernel = tmp_path / "state" / "autotune.toml", Kernel()
    TuningRecords(None, path, TuningMode.READ).keep(kernel, kernel.record(1, samples=9))
    TuningRecords(None, path, TuningMode.READ).keep(kernel, kernel.record(2, samples=3))
    first = found(TuningRecords(None, path, TuningMode.READ))
    TuningRecords(None, path, TuningMode.READ).keep(kernel, kernel.record(3, samples=3), replace=True)
    assert (first, found(TuningRecords(None, path, TuningMode.READ))) == (1, 3)


def test_replacing_one_record_leaves_the_others_of_its_key(tmp_path: Path) -> None:
    path, kernel = tmp_path / "autotune.toml", Kernel()
    records = TuningRecords(None, path, TuningMode.READ)
    records.keep(kernel, kernel.record(1, "64", samples=9))
    records.keep(kernel, kernel.record(2, "128", samples=9))
    TuningRecords(None, path, TuningMode.READ).keep(kernel, kernel.record(3, "64"), replace=True)
    assert [one.unroll for one in AutotuneStore.load(path).of(KEY)] == [
        record.unroll
        for _, record in sorted(
            (kernel.identity(size), kernel.record(number, size)) for number, size in ((3, "64"), (2, "128"))
        )
    ]


def test_a_file_that_is_none_is_told_once_and_set_aside_when_something_is_kept(tmp_path: Path) -> None:
    path, kernel = tmp_path / "autotune.toml", Kernel()
    path.write_text("no = [toml")
    records = TuningRecords(None, path, TuningMode.READ)
    with pytest.warns(AutotuneWarning, match="^nothing is known of tuned kernels: ") as told:
        assert (found(records), found(records)) == (None, None)
    with pytest.warns(AutotuneWarning, match="unreadable"):
        records.keep(kernel, kernel.record(1))
    aside = [one.read_text() for one in tmp_path.glob("autotune.toml.unreadable-*")]
    told_of = len(told), records.refused.startswith(f"{path} is not an autotune file")
    assert (told_of, aside, found(TuningRecords(None, path, TuningMode.READ))) == ((1, True), ["no = [toml"], 1)


def test_what_a_newer_version_wrote_is_read_and_never_written_to(tmp_path: Path) -> None:
    path, kernel = tmp_path / "autotune.toml", Kernel()
    TuningRecords(None, path, TuningMode.READ).keep(kernel, kernel.record(1, "64"))
    path.write_text(path.read_text().replace("schema = 1", "schema = 2"))
    written = path.read_bytes()
    records = TuningRecords(None, path, TuningMode.READ)
    with pytest.raises(InvalidAutotuneFile):
        records.keep(kernel, kernel.record(2))
    assert (found(records, (64,)), found(records), path.read_bytes()) == (1, 2, written)


@pytest.mark.parametrize(
    ("value", "mode"), [(None, "read"), ("", "read"), ("OFF", "off"), ("tune", "tune"), ("force", "force")]
)
def test_the_variable_says_what_is_done(value: str | None, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if value is None:
        monkeypatch.delenv("VYRE_AUTOTUNE", raising=False)
    else:
        monkeypatch.setenv("VYRE_AUTOTUNE", value)
    assert TuningRecords.from_settings().mode is TuningMode(mode)


def test_another_word_in_the_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_AUTOTUNE", "yes")
    with pytest.raises(InvalidSetting) as caught:
        TuningRecords.from_settings()
    assert str(caught.value) == (
        "VYRE_AUTOTUNE is 'yes', which is none of off, read, tune, force. Fix: set VYRE_AUTOTUNE to one of them, or unset it."
    )


def test_the_place_is_the_argument_then_the_variable_then_the_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VYRE_AUTOTUNE_FILE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    default = TuningRecords.from_settings().path
    monkeypatch.setenv("VYRE_AUTOTUNE_FILE", str(tmp_path / "named.toml"))
    named, given = TuningRecords.from_settings().path, TuningRecords.from_settings("given.toml").path
    store = AutotuneStore()
    memory = TuningRecords.from_settings(store)
    expected = tmp_path / "vyre" / "autotune.toml", tmp_path / "named.toml", Path("given.toml"), None, True
    assert (default, named, given, memory.path, memory.store is store) == expected


def test_what_is_neither_a_store_nor_a_path_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^autotune is of type int\. Fix: "):
        TuningRecords.from_settings(5)  # type: ignore[arg-type] # on purpose


def test_a_relative_state_directory_is_ignored_and_without_a_home_there_is_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(*_: object, **__: object) -> str:
        raise RuntimeError

    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_STATE_HOME", "here")
    relative = default_path()
    monkeypatch.setattr(platformdirs, "user_state_dir", no_home)
    monkeypatch.setenv("HOME", "no/home")
    assert (relative, default_path()) == (Path("/home/somebody/.local/state/vyre/autotune.toml"), None)


def test_a_size_is_written_and_read_back() -> None:
    sizes: list[tuple[int, ...]] = [(), (5,), (4096, 1, 64)]
    assert [(size_text(one), read_size(size_text(one))) for one in sizes] == [
        ("", ()),
        ("5", (5,)),
        ("4096x1x64", (4096, 1, 64)),
    ]


def changed_targets() -> Iterator[tuple[str, TuningTarget, str]]:
    yield "code", replace(TARGET, code=bytes(32)), ""
    yield "a constant", replace(TARGET, space=TuningSpace(SPACE.axes[:2])), ""
    yield "the order of constants", replace(TARGET, space=TuningSpace(SPACE.axes[::-1])), ""
    yield "a fixed value", replace(TARGET, fixed=SpecMap({"CHECKS": SpecValue.bool(False)})), ""
    yield "a fixed value's type", replace(TARGET, fixed=SpecMap({"CHECKS": SpecValue.u32(1)})), ""
    yield "the ulp budget", replace(TARGET, ulp_budget=0), ""
    yield "the driver", replace(TARGET, device=device(driver_info="545.29.07")), ""
    yield "the model", replace(TARGET, device=device(device_id=0x2331)), ""
    yield "the size", TARGET, "64x64"


def test_all_that_a_choice_depends_on_makes_another_identity() -> None:
    made = {what: target.identity(size) for what, target, size in changed_targets()}
    assert len({*made.values(), TARGET.identity()}) == len(made) + 1


def test_the_unit_of_a_model_the_kernels_name_and_the_values_of_the_space_make_no_other_identity() -> None:
    same = [
        replace(TARGET, device=device(device_uuid=bytes(16), index=3)),
        replace(TARGET, kernel="renamed"),
        replace(TARGET, space=TuningSpace(tuple(replace(axis, values=axis.values[:1]) for axis in SPACE.axes))),
    ]
    assert {one.identity() for one in same} == {TARGET.identity()}


def test_the_identity_of_a_target_is_what_it_was() -> None:
    assert TARGET.identity("64") == GOLDEN_IDENTITY, BUMP


def test_a_record_says_what_was_chosen_and_on_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_780_000_000.9)
    made = TARGET.record(SPACE.candidate(GROUP=64, DEPTH=1, TILE=8), 50, 1234, "64x64")
    expected: dict[str, Any] = {
        "workgroup_size": (64, 1, 1),
        "unroll": 1,
        "tile": (1, 8, 0),
        "identity": TARGET.identity("64x64"),
        "samples": 50,
        "median_ns": 1234,
        "measured_at": 1_780_000_000,
        "kernel": "matmul",
        "device": DEVICE.name,
        "driver": "Example 545.29.06",
        "size": "64x64",
    }
    assert made == AutotuneRecord(**expected, recorded_at=made.recorded_at)


@pytest.mark.parametrize(
    ("record", "known"),
    [
        (AutotuneRecord((64, 1, 1), 1, (1, 8, 0)), SPACE.candidate(GROUP=64, DEPTH=1, TILE=8)),
        (AutotuneRecord((32, 1, 1), 1, (1, 8, 0)), None),
        (AutotuneRecord((64, 2, 1), 1, (1, 8, 0)), None),
        (AutotuneRecord((64, 1, 1), 1, (8, 8, 0)), None),
        (AutotuneRecord((256, 1, 1), 1, (1, 8, 0)), None),
    ],
)
def test_a_record_whose_choice_is_not_of_the_space_or_not_for_the_device_is_not_taken(
    record: AutotuneRecord, known: Candidate | None
) -> None:
    small = replace(DEVICE, limits=replace(DEVICE.limits, max_compute_work_group_invocations=128))
    target = replace(TARGET, device=small)
    store = AutotuneStore()
    store.put(target.key, replace(record, identity=target.identity()))
    assert target.known(TuningRecords(store, None, TuningMode.READ)) == known


def test_the_constants_that_are_not_tuned_are_fixed_by_their_bits() -> None:
    constants = (
        SpecializedConstant("GROUP", 0, "u32", 64),
        SpecializedConstant("SCALE", 1, "f32", 0x3F80_0000),
        SpecializedConstant("SHIFT", 2, "i32", 0xFFFF_FFFF),
        SpecializedConstant("CHECKS", 3, "bool", 1),
    )
    expected = SpecMap({"SCALE": SpecValue.f32(1.0), "SHIFT": SpecValue.i32(-1), "CHECKS": SpecValue.bool(True)})
    assert Specialization(constants).typed_values(without=["GROUP", "DEPTH", "TILE"]) == expected


@pytest.mark.parametrize("look", [lambda one: one.best(Kernel(), (4,)), lambda one: one.is_idle])
@pytest.mark.parametrize("by", ["argument", "variable"])
def test_a_file_that_somebody_named_and_that_is_not_there_is_warned_of_once(
    look: Callable[[TuningRecords], object], by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pinned.toml"
    if by == "variable":
        monkeypatch.setenv("VYRE_AUTOTUNE_FILE", str(path))
    records = TuningRecords.from_settings(path if by == "argument" else None)
    with pytest.warns(AutotuneWarning, match=f"^nothing is known of tuned kernels: the autotune file {path} is not there$"):
        look(records)
    look(records)


@pytest.mark.parametrize(
    "reason", ["it is the default", "it is there", "it is being made", "VYRE_AUTOTUNE=tune", "VYRE_AUTOTUNE=off"]
)
def test_nobody_is_warned_of_a_missing_file_that_may_be_missing(
    reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pinned.toml"
    if reason == "it is there":
        path.write_text("schema = 1\n")
    if "=" in reason:
        monkeypatch.setenv(*reason.split("="))
    records = TuningRecords.from_settings(None if reason == "it is the default" else path)
    if reason == "it is being made":
        records.will_be_made()
    assert (records.best(Kernel(), (4,)), records.is_idle) == (None, reason != "VYRE_AUTOTUNE=tune")


class Others:
    """Machines that have measured ``records``, and what they were asked and told."""

    def __init__(self, *records: AutotuneRecord) -> None:
        self.records = records
        self.patience: list[float] = []
        self.told: list[AutotuneRecord] = []

    def ask(self, key: AutotuneKey, take: Callable[[AutotuneKey, AutotuneRecord], bool], patience_s: float) -> None:
        self.patience.append(patience_s)
        for one in self.records:
            take(key, one)

    def tell(self, key: AutotuneKey, record: AutotuneRecord) -> None:
        assert key == KEY
        self.told.append(record)


def sharing(mode: TuningMode, *records: AutotuneRecord, path: Path | None = None) -> tuple[TuningRecords, Others]:
    others = Others(*records)
    return TuningRecords(None if path else AutotuneStore(), path, mode, others=others), others


def test_other_machines_are_asked_where_there_is_no_record_for_just_this_class_of_sizes_and_what_they_know_counts_next() -> (
    None
):
    records, others = sharing(TuningMode.READ, Kernel().record(7, "64"))
    assert (records.is_idle, [found(records, (64,)) for _ in range(3)], others.patience) == (False, [None, 7, 7], [0.0])
    assert (found(records, (128,)), others.patience, len(records.store)) == (7, [0.0, 0.0], 0)


def test_they_are_waited_for_only_before_a_kernel_is_tuned_unasked() -> None:
    records, others = sharing(TuningMode.TUNE, Kernel().record(7, "64"))
    assert ([records.claim(Kernel(), size) for size in ((64,), (64,), (32,))], others.patience) == (
        [False, False, True],
        [0.25] * 2,
    )
    records, others = sharing(TuningMode.FORCE, Kernel().record(7, "64"))
    assert (records.claim(Kernel(), (64,)), others.patience) == (True, [])
    records, others = sharing(TuningMode.OFF, Kernel().record(7, "64"))
    assert (records.is_idle, found(records, (64,)), others.patience) == (True, None, [])


def test_they_are_told_what_is_measured_here_and_never_what_they_said(tmp_path: Path) -> None:
    ours, theirs = Kernel().record(5, "32"), Kernel().record(7, "64")
    records, others = sharing(TuningMode.READ, theirs, path=tmp_path / "records.toml")
    assert found(records, (64,)) is None
    records.keep(Kernel(), ours)
    assert (others.told, found(records, (64,)), found(records, (32,))) == ([ours], 7, 5)
    files = {path.name: list(AutotuneStore.load(path).records().values()) for path in tmp_path.glob("*.toml")}
    assert files == {"records.toml": [ours], "records.taken.toml": [theirs]}


def test_of_two_that_others_have_measured_the_better_stays_and_where_no_file_can_be_written_this_process_alone_uses_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "records.taken.toml").mkdir()
    worse, better = Kernel().record(1, samples=3), Kernel().record(2, samples=9)
    records, _ = sharing(TuningMode.READ, better, worse, path=tmp_path / "records.toml")
    with pytest.warns(AutotuneWarning, match="nothing is known of tuned kernels"):
        assert found(records) is None
    assert found(records) == 2
    assert [message.partition(": ")[0] for message in caplog.messages] == [
        "what other machines have measured is used by this process alone"
    ]
