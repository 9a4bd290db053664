"""``vyre-driver tune``: measure kernels on a device, with a progress bar; inspect, export and share the records."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vyre_driver.autotune import AutotuneStore, AutotuneWarning
from vyre_driver.autotune.measure.tune import tune
from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.autotune.search.outcomes import Budget, Status
from vyre_driver.autotune.store.record import parse_timings
from vyre_driver.autotune.store.records import TuningRecords, size_text
from vyre_driver.checks import U32_MAX
from vyre_driver.cli.options import add_device, add_json, human_measure, print_json, printable, progress, say, tell
from vyre_driver.display.line import aligned, count
from vyre_driver.driver import Driver
from vyre_driver.errors import (
    DeviceOutOfMemory,
    FileUnusable,
    InvalidCommand,
    InvalidTuningSpace,
    LimitExceeded,
    TuningFailed,
    UnsupportedFeature,
)
from vyre_driver.kernels import KERNELS
from vyre_driver.runtime.trace import statistics_by_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vyre_driver.autotune import AutotuneKey, AutotuneRecord
    from vyre_driver.autotune.measure.definition import KernelDefinition, Size
    from vyre_driver.autotune.measure.tune import TuningResult
    from vyre_driver.autotune.search.outcomes import Outcome

_ALL = "all"
_OUT = (Status.FAILED, Status.HUNG, Status.WRONG)


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    default = Budget()
    parser.add_argument("kernels", nargs="+", metavar="KERNEL", help=f"{', '.join(KERNELS)}, or {_ALL}")
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="N[xN...]",
        help="a problem size; again for more (default: the kernel's own)",
    )
    parser.add_argument(
        "--seconds", type=float, default=default.seconds, metavar="S", help="for each size at most (default: %(default)g)"
    )
    parser.add_argument(
        "--run-timeout", type=float, default=default.run_timeout, metavar="S", help="for one run at most (default: %(default)g)"
    )
    parser.add_argument("--isolate", action="store_true", help="try candidates in a child process, which may die or hang")
    parser.add_argument("--force", action="store_true", help="measure again what has a record, and replace it")
    parser.add_argument("--allow-software", action="store_true", help="accept a CPU device")
    add_device(parser)


def records_file(options: argparse.Namespace) -> Path:
    """Return the file of records to write to; raises InvalidCommand if there is none."""
    path = TuningRecords.from_settings(options.file).path
    if path is None:
        raise InvalidCommand("there is no home to keep tuning records in", fix="name a file with --file")
    return path


def run_tuning(options: argparse.Namespace) -> int:
    """Tune each kernel for each size; status 1 where one has no right candidate or does not fit into memory."""
    wanted = [(one, [_size(text, one) for text in options.size] or one.sizes) for one in _named(options.kernels)]
    budget = Budget(seconds=options.seconds, run_timeout=options.run_timeout)
    path = records_file(options)
    AutotuneStore.check_savable(path)
    done: list[dict[str, Any]] = []
    with Driver(options.device, autotune=path, allow_software=options.allow_software or None) as driver:
        for definition, sizes in wanted:
            for result in _tuned(driver, definition, sizes, options, budget):
                done.append(result)
                if not options.json:
                    _print(result)
        if options.json:
            print_json({"device": driver.device.name, "file": str(path), "tuned": done})
    return 1 if any("failed" in result for result in done) else 0


def _named(names: list[str]) -> list[KernelDefinition]:
    unknown = [name for name in names if name not in KERNELS and name != _ALL]
    if unknown:
        raise InvalidCommand(f"there is no kernel {unknown[0]!r}", fix=f"name one of {', '.join(KERNELS)}, or {_ALL}")
    return list(KERNELS.values()) if _ALL in names else [KERNELS[name] for name in dict.fromkeys(names)]


def _tuned(
    driver: Driver, definition: KernelDefinition, sizes: Sequence[Size], options: argparse.Namespace, budget: Budget
) -> Iterator[dict[str, Any]]:
    try:
        kernel = TunedKernel(driver, definition)
    except (UnsupportedFeature, InvalidTuningSpace) as error:
        if _ALL not in options.kernels:
            raise
        yield {"kernel": definition.name, "skipped": error.problem}
        return
    for size in sizes:
        result: dict[str, Any] = {"kernel": definition.name, "size": size_text(size)}
        at = definition.size_class(size)
        if driver.tuning.has(kernel.target, at) and not options.force:
            yield {**result, "skipped": f"sizes about {size_text(at)} have a record, which --force replaces"}
            continue
        try:
            yield _as_data(_raced(kernel, size, options, budget), kernel)
        except (TuningFailed, DeviceOutOfMemory, LimitExceeded) as error:
            yield {**result, "failed": str(error)}
        except MemoryError as error:
            yield {**result, "failed": f"the host has no memory for its arrays: {error}"}


def _size(text: str, definition: KernelDefinition) -> Size:
    numbers = len(definition.sizes[0])
    try:
        size = tuple(int(one) for one in text.split("x"))
    except ValueError:
        size = ()
    if len(size) != numbers or not all(1 <= one <= U32_MAX for one in size):
        raise InvalidCommand(
            f"--size {text!r} is not {count(numbers, 'integer')} from 1 to {U32_MAX}, as {definition.name} takes",
            fix=f"write --size {size_text(definition.sizes[0])}",
        )
    return size


def _raced(kernel: TunedKernel, size: Size, options: argparse.Namespace, budget: Budget) -> TuningResult:
    definition = kernel.definition
    kernel.driver.context.device.check_available(definition.moved_bytes(size))  # before the host makes arrays that never fit
    with progress(f"{definition.name} {size_text(size)}", len(kernel.candidates)) as step:
        return tune(
            kernel,
            size,
            budget=budget,
            isolate=options.isolate,
            replace=options.force,
            on_progress=lambda search: step(search.tried, search.total),
        )


def _as_data(result: TuningResult, kernel: TunedKernel) -> dict[str, Any]:
    first, best = result.outcomes[0], result.best
    return {
        "kernel": result.kernel,
        "size": size_text(result.size),
        "workgroup_size": list(best.candidate.workgroup_size),
        "constants": dict(best.candidate.constants),
        "choice": str(best.candidate),
        "median_ns": round(best.median_ns),
        "samples": best.samples,
        "first": str(first.candidate),
        "first_median_ns": round(first.median_ns),
        "bytes_per_s": _rate(kernel.definition.moved_bytes(result.size), best),
        "operations_per_s": _rate(kernel.definition.operations(result.size), best),
        "seconds": round(result.seconds, 3),
        "timed_runs": result.samples,
        "ties": [str(one) for one in result.ties],
        "candidates": {one.value: sum(row.status is one for row in result.outcomes) for one in Status},
        "statistics": {
            str(one): {name: _plain(value) for name, value in statistics_by_name(told).items()}
            for one, told in result.executables.items()
        },
        "out": [
            {"choice": str(one.candidate), "why": f"{one.status.value}: {one.detail}"}
            for one in result.outcomes
            if one.status in _OUT
        ],
    }


def _plain(value: bool | float | None) -> bool | float | None:  # noqa: FBT001 -- a value of any kind
    """Return what JSON can hold: it has no infinities and no NaN."""
    return value if value is None or math.isfinite(value) else None


def _rate(amount: int, best: Outcome) -> float:
    return round(amount * 1e9 / best.median_ns, 1) if best.median_ns else 0.0


def _print(result: dict[str, Any]) -> None:
    name = f"{result['kernel']} {result.get('size', '')}".strip()
    for what in ("skipped", "failed"):
        if what in result:
            say(f"{name}: {what}: {printable(result[what])}")
            return
    facts = [human_measure(result["median_ns"] / 1e9, "s")]
    if result["operations_per_s"]:
        facts.append(human_measure(result["operations_per_s"], "FLOP/s"))
    else:
        facts.append(human_measure(result["bytes_per_s"], "B/s"))
    if result["choice"] == result["first"]:
        facts.append("as it is untuned")
    elif result["first_median_ns"] and result["median_ns"]:
        facts.append(f"{result['first_median_ns'] / result['median_ns']:.2f} times as fast as untuned")
    if result["ties"]:
        facts.append(f"{count(len(result['ties']), 'other')} as fast")
    total = sum(result["candidates"].values())
    tried = total - result["candidates"][Status.NOT_TRIED.value]
    say(f"{name}: {result['choice']}: {', '.join(facts)} ({tried} of {total} tried in {result['seconds']:.0f} s)")
    told = result["statistics"].get(result["choice"], {})
    if told:
        say(f"  {printable(', '.join(f'{name} {value}' for name, value in told.items()))}")
    for one in result["out"]:
        say(f"  {one['choice']} {printable(one['why'])}")
    sys.stdout.flush()  # the next one takes a while


_LEFT = frozenset({0, 1, 2, 4, 5, 6})  # of the cells of a list; the median stands to the right
_ID_DIGITS = 12  # of an identity in a list; any beginning that only one has will do


@dataclasses.dataclass(frozen=True, slots=True)
class _Row:
    """A record with its key; ``id`` is its identity, or the key of a record of others, which has none."""

    key: AutotuneKey
    record: AutotuneRecord

    @property
    def id(self) -> str:
        return self.record.identity or self.key.key_hex

    def cells(self) -> list[str]:
        """What a list says of it."""
        one = self.record
        tile = f", tile {_by(one.tile).removesuffix('x0').removesuffix('x0')}" if any(one.tile) else ""
        choice = f"{_by(one.workgroup_size)}{f', unrolled {one.unroll}' if one.unroll != 1 else ''}{tile}"
        took = human_measure(one.median_ns / 1e9, "s") if one.median_ns else "not measured"
        device = one.device or self.key.adapter_id
        return [
            self.id[:_ID_DIGITS],
            one.kernel or "of others",
            one.size or "-",
            took,
            one.recorded_at or "-",
            choice,
            device,
        ]

    def as_data(self) -> dict[str, Any]:
        given = {**dataclasses.asdict(self.record), "key": self.key.key_hex, "adapter": self.key.adapter_id}
        given["timings"] = [one._asdict() for one in parse_timings(self.record.timings)]
        return {"id": self.id, **{name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes: verbs of its own."""
    _add_file(parser, None)
    actions = parser.add_subparsers(required=True, metavar="ACTION", parser_class=type(parser))

    def action(name: str, act: Callable[[argparse.Namespace], int], description: str) -> argparse.ArgumentParser:
        result = actions.add_parser(name, help=description, description=f"{description.capitalize()}.")
        _add_file(result, argparse.SUPPRESS)  # so that it does not undo one before the action
        add_json(result)
        result.set_defaults(act=act)
        return result

    _add_run_arguments(action("run", run_tuning, "measure a kernel's candidates, and keep the best"))
    which = "a kernel, an id from the list, or the beginning of one"
    action("list", run_list, "list the records")
    show = action("show", run_show, "print all that records say")
    show.add_argument("records", nargs="+", metavar="RECORD", help=which)
    pin = action("pin", run_pin, "write records into a file of their own, to be kept with a program's source")
    pin.add_argument("into", metavar="FILE", help="the file; what else is in it stays")
    pin.add_argument("records", nargs="*", metavar="RECORD", help=f"only these: {which}")
    merge = action("merge", run_merge, "take the records of other files; the better measured of two stays")
    merge.add_argument("files", nargs="+", metavar="FILE")
    push = action("push", run_push, "store records of the devices here in the shared store, signed; the better measured stays")
    push.add_argument("records", nargs="*", metavar="RECORD", help=f"only these: {which}")
    action("pull", run_pull, "take the records that the shared store has for the devices here; the better measured stays")
    clear = action("clear", run_clear, "remove records")
    clear.add_argument("records", nargs="*", metavar="RECORD", help=f"only these: {which}")


def _add_file(parser: argparse.ArgumentParser, default: str | None) -> None:
    text = "the file of records (default: VYRE_AUTOTUNE_FILE, else the user's)"
    parser.add_argument("--file", metavar="FILE", default=default, help=text)


def run(options: argparse.Namespace) -> int:
    """Run an action, and tell each warning of a file as it comes."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", AutotuneWarning)
        status: int = options.act(options)
    return status


def _rows(store: AutotuneStore) -> list[_Row]:
    rows = [_Row(key, record) for (key, _), record in store.records().items()]
    return sorted(rows, key=lambda row: (row.record.kernel, row.record.device, len(row.record.size), row.record.size, row.id))


def _chosen(rows: list[_Row], wanted: Sequence[str]) -> list[_Row]:
    """Return the rows that are named, all if none is; a name is a kernel's, or the beginning of one id."""
    found: dict[int, _Row] = {}
    for name in wanted:
        named = [row for row in rows if name and row.record.kernel == name]
        if not named:
            named = [row for row in rows if name and row.id.startswith(name)]
            ids = {row.id for row in named}
            if len(ids) != 1:
                how = f"{len(ids)} records begin with" if ids else "no record is named"
                raise InvalidCommand(f"{how} {name!r}", fix="name a kernel, or more of an id, from vyre-driver tune list")
        found |= {id(row): row for row in named}
    return list(found.values()) if wanted else rows


def run_list(options: argparse.Namespace) -> int:
    """List the records."""
    path = records_file(options)
    rows = _rows(AutotuneStore.load(path))
    data = {"file": str(path), "records": [row.as_data() for row in rows]}
    said = f"{count(len(rows), 'record')} in {path}{'' if path.exists() else ', which is not there yet'}"
    tell(options, data, *aligned([[printable(cell) for cell in row.cells()] for row in rows], _LEFT), said)
    return 0


def run_show(options: argparse.Namespace) -> int:
    """Print every field."""
    rows = _chosen(_rows(AutotuneStore.load(records_file(options))), options.records)
    blocks = ["\n".join(f"  {name}: {_shown(name, value)}" for name, value in row.as_data().items()) for row in rows]
    tell(options, {"records": [row.as_data() for row in rows]}, "\n\n".join(blocks))
    return 0


def _shown(name: str, value: object) -> str:
    if name == "timings":
        return count(len(value), "candidate") if isinstance(value, list) and value else "none"
    return "x".join(map(str, value)) if isinstance(value, list) else printable(value)


def run_pin(options: argparse.Namespace) -> int:
    """Write records into a file of their own."""
    rows = _chosen(_rows(AutotuneStore.load(records_file(options))), options.records)
    if not rows:
        raise InvalidCommand("there is no record to pin", fix="find some with vyre-driver tune run KERNEL")
    pinned = AutotuneStore.load(options.into)
    for row in rows:
        pinned.forget(row.key, row.record.identity)
        pinned.put(row.key, row.record)
    pinned.save_if_dirty(options.into)
    said = f"{count(len(rows), 'record')} pinned in {options.into}"
    tell(options, {"file": options.into, "pinned": len(rows)}, said)
    return 0


def run_merge(options: argparse.Namespace) -> int:
    """Take the records of other files."""
    path = records_file(options)
    store = AutotuneStore.load(path)
    taken = set()
    for file in options.files:
        if not Path(file).exists():
            raise FileUnusable(f"there is no file {file} to merge", fix="name a file of records", path=file)
        for (key, identity), record in AutotuneStore.load(file).records().items():
            if store.put_better(key, record):
                taken.add((key, identity))
    store.save_if_dirty(path)
    said = f"{count(len(taken), 'record')} taken into {path}"
    tell(options, {"file": str(path), "taken": len(taken)}, said)
    return 0


def run_push(options: argparse.Namespace) -> int:
    """Store the records of the devices here, signed, for other machines; the better measured of two stays."""
    from vyre_driver.cache.disk import DiskPipelineCache  # late, here and below: most actions know no shared store
    from vyre_driver.cli.cache_remote import asked, needed_signer
    from vyre_driver.remote.trust import trust_of_settings
    from vyre_driver.remote.tuning import push_records

    rows = _chosen(_rows(AutotuneStore.load(records_file(options))), options.records)
    signer, trust = needed_signer(DiskPipelineCache.from_settings()), trust_of_settings()
    stored = known = 0
    devices = _device_names()
    with asked() as store:
        for named_as, device in devices.items():
            own = [(row.key, row.record) for row in rows if (row.record.device, row.record.driver) == named_as]
            added, others = push_records(store, signer, trust, device, own)
            stored, known = stored + added, known + others
    left_out = len(rows) - stored - known
    tell(
        options,
        {"store": store.address, "stored": stored, "known": known, "left_out": left_out},
        f"{count(stored, 'record')} stored in {store.address}, {known} known already, {left_out} of no device here",
    )
    return 0


def run_pull(options: argparse.Namespace) -> int:
    """Take the records for the devices here; the better measured of two stays. Status 1 when some were refused."""
    from vyre_driver.cli.cache_entries import tell_taken
    from vyre_driver.cli.cache_remote import asked, needed_trust
    from vyre_driver.remote.tuning import pull_records

    trust = needed_trust()
    path = records_file(options)
    local = AutotuneStore.load(path)
    signers: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    with asked() as store:
        for device in _device_names().values():
            records = pull_records(store, trust, device)
            refused += records.refused
            signers.update(stored.signer for stored in records.found if local.put_better(stored.key, stored.record))
    local.save_if_dirty(path)
    taken = sum(signers.values())
    facts = {"store": store.address, "file": str(path), "taken": taken, "signers": dict(sorted(signers.items()))}
    return tell_taken(options, facts, f"{count(taken, 'record')} taken into {path}", refused)


def _device_names() -> dict[tuple[str, str], str]:
    """Return the devices here as a store names them, by their names and drivers in records."""
    from vyre_driver.cli.cache_entries import physical_devices
    from vyre_driver.identity.keys import device_fields
    from vyre_driver.remote.names import device_name

    devices = physical_devices()
    return {(one.name, f"{one.driver_name} {one.driver_info}".strip()): device_name(device_fields(one)) for one in devices}


def run_clear(options: argparse.Namespace) -> int:
    """Remove records."""
    path = records_file(options)
    store = AutotuneStore.load(path)
    rows = _chosen(_rows(store), options.records)
    for row in rows:
        store.forget(row.key, row.record.identity)
    store.save_if_dirty(path)
    said = f"{count(len(rows), 'record')} removed from {path}"
    tell(options, {"file": str(path), "removed": len(rows)}, said)
    return 0


def _by(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))
