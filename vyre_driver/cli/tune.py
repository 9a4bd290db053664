"""``vyre-driver tune``: inspect, export and import tuning records, and measure new ones (``tune_run``)."""

from __future__ import annotations

import argparse
import dataclasses
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vyre_driver.autotune import AutotuneStore, AutotuneWarning
from vyre_driver.autotune.store.timings import parse_timings
from vyre_driver.cli import tune_run
from vyre_driver.cli.options import add_json, human_count, human_measure, printable, tell
from vyre_driver.cli.tune_run import records_file
from vyre_driver.errors import FileUnusable, InvalidCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vyre_driver.autotune import AutotuneKey, AutotuneRecord

_MEDIAN = 3  # of the cells of a list; numbers stand to the right
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

    tune_run.add_arguments(action("run", tune_run.run, "measure a kernel's candidates, and keep the best"))
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
    count = f"{human_count(len(rows), 'record')} in {path}{'' if path.exists() else ', which is not there yet'}"
    tell(options, data, *_aligned([[printable(cell) for cell in row.cells()] for row in rows]), count)
    return 0


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            f"{cell:>{width}}" if place == _MEDIAN else f"{cell:<{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def run_show(options: argparse.Namespace) -> int:
    """Print every field."""
    rows = _chosen(_rows(AutotuneStore.load(records_file(options))), options.records)
    blocks = ["\n".join(f"  {name}: {_shown(name, value)}" for name, value in row.as_data().items()) for row in rows]
    tell(options, {"records": [row.as_data() for row in rows]}, "\n\n".join(blocks))
    return 0


def _shown(name: str, value: object) -> str:
    if name == "timings":
        return human_count(len(value), "candidate") if isinstance(value, list) and value else "none"
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
    count = f"{human_count(len(rows), 'record')} pinned in {options.into}"
    tell(options, {"file": options.into, "pinned": len(rows)}, count)
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
            there = store.get(key, identity)
            if there is None or record.supersedes(there):
                store.put(key, record)
                taken.add((key, identity))
    store.save_if_dirty(path)
    count = f"{human_count(len(taken), 'record')} taken into {path}"
    tell(options, {"file": str(path), "taken": len(taken)}, count)
    return 0


def run_push(options: argparse.Namespace) -> int:
    """Store records for other machines."""
    from vyre_driver.cli import tune_remote

    rows = _chosen(_rows(AutotuneStore.load(records_file(options))), options.records)
    return tune_remote.run_push(options, [(row.key, row.record) for row in rows])


def run_pull(options: argparse.Namespace) -> int:
    """Take records of other machines."""
    from vyre_driver.cli import tune_remote

    return tune_remote.run_pull(options)


def run_clear(options: argparse.Namespace) -> int:
    """Remove records."""
    path = records_file(options)
    store = AutotuneStore.load(path)
    rows = _chosen(_rows(store), options.records)
    for row in rows:
        store.forget(row.key, row.record.identity)
    store.save_if_dirty(path)
    count = f"{human_count(len(rows), 'record')} removed from {path}"
    tell(options, {"file": str(path), "removed": len(rows)}, count)
    return 0


def _by(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))
