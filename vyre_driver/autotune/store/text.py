"""The text format of an autotune file: TOML, schema 1, as other vyre tools read and write it (docs/autotune-format.md).

Files that this module wrote are read by a pattern, five times faster than by the TOML reader; any other file goes to the TOML
reader whole. A test checks that both give the same.

What the original accepts is accepted here too (docs/upstream-differences.md has the exceptions).

Source: spec item 2.4; TOML 1.1.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field, fields
from typing import Any

from vyre_driver._loading import missing_is_named
from vyre_driver.autotune.store.record import TIMINGS, AutotuneKey, AutotuneRecord
from vyre_driver.checks import U32_MAX
from vyre_driver.errors import InvalidAutotuneRecord, InvalidKey

SCHEMA = 1
_HEADER = "[[record]]\n"
_ADDED = ("identity", "samples", "median_ns", "measured_at", "kernel", "device", "driver", "size", "timings")
_added_of = operator.attrgetter(*_ADDED)
_KNOWN = frozenset({"key", "adapter"} | {one.name for one in fields(AutotuneRecord)})
_AXES_FIELDS = ("workgroup_size", "tile")
_AS_LIST = ("key", "adapter", "workgroup_size", "unroll", "tile", "recorded_at")

_TEXT = r'"([^"\\\x00-\x1f\x7f]*)"'
_IDENTITY = r'"([0-9a-f]{64}|)"'
_SIZE = r'"((?:(?:0|[1-9][0-9]{0,18})(?:x(?:0|[1-9][0-9]{0,18}))*)?)"'
_NUMBER = r"(0|[1-9][0-9]{0,17})"
_AXES = r"\[\n" + rf"    {_NUMBER},\n" * 3 + r"\]"
_RECORD = re.compile(
    rf"key = {_TEXT}\nadapter = {_TEXT}\nworkgroup_size = {_AXES}\nunroll = {_NUMBER}\ntile = {_AXES}\nrecorded_at = {_TEXT}\n"
    rf"(?:identity = {_IDENTITY}\nsamples = {_NUMBER}\nmedian_ns = {_NUMBER}\nmeasured_at = {_NUMBER}\n"
    rf"kernel = {_TEXT}\ndevice = {_TEXT}\ndriver = {_TEXT}\nsize = {_SIZE}\n"
    rf'(?:timings = "({TIMINGS})"\n)?)?'
)
_TO_ESCAPE = re.compile(r'["\\\x00-\x1f\x7f]')
_ESCAPES = {code: f"\\u{code:04X}" for code in (*range(0x20), 0x7F)} | {ord("\\"): "\\\\", ord('"'): '\\"'}


@dataclass(frozen=True, slots=True)
class AutotuneText:
    """What a file says: the records by key and identity, and what is kept of it as it stands.

    ``unreadable`` holds the records that are not valid, each with the reason; ``unknown`` what else others have added, and
    ``unknown_of`` the same of single records. ``digest`` is the BLAKE3 of the file's bytes, empty for what is in no file.
    """

    records: dict[tuple[AutotuneKey, str], AutotuneRecord] = field(default_factory=dict)
    schema: int = SCHEMA
    unreadable: tuple[tuple[Any, str], ...] = ()
    unknown: dict[str, Any] = field(default_factory=dict)
    unknown_of: dict[tuple[AutotuneKey, str], dict[str, Any]] = field(default_factory=dict)
    digest: bytes = field(default=b"", compare=False)


def parse(text: str) -> AutotuneText:
    """Return what a file says; of two records with one key and identity the last counts, as in the original.

    A byte order mark before it is skipped.

    Raises
    ------
    ValueError
        If it is not a TOML, or is not an autotune file: schema and records are of another type.
    """
    text = text.removeprefix("\ufeff")
    found = parse_own(text)
    if found is not None:
        return AutotuneText(found)
    import tomli  # late: files of our own need it not, and it takes longer than they do

    try:
        top = tomli.loads(text)
    except RecursionError:
        raise ValueError("its arrays are nested too deeply") from None
    schema, records = top.pop("schema", 0), top.pop("record", [])
    if type(schema) is not int or not 0 <= schema <= U32_MAX:
        raise ValueError(f"its schema is {schema!r}, which is not an integer from 0 to {U32_MAX}")
    if not isinstance(records, list):
        raise ValueError("its records are not an array")  # noqa: TRY004 -- of the text
    return _read_records(records, schema, top)


def _read_records(records: list[Any], schema: int, unknown: dict[str, Any]) -> AutotuneText:
    read = AutotuneText({}, schema, unknown=unknown)
    unreadable = []
    for given in records:
        # A record may be an array of its fields; the last may be missing, and the original looks at no more than these.
        table = dict(zip(_AS_LIST, given, strict=False)) if isinstance(given, list) else given
        try:
            at, record = _read_record(table)
        except (InvalidAutotuneRecord, InvalidKey) as error:
            unreadable.append((given, str(error).partition(". Fix:")[0]))
            continue
        read.records.pop(at, None)
        read.records[at] = record
        read.unknown_of.pop(at, None)
        added = {name: value for name, value in table.items() if name not in _KNOWN}
        if added:
            read.unknown_of[at] = added
    return AutotuneText(read.records, schema, tuple(unreadable), unknown, read.unknown_of)


def _read_record(table: object) -> tuple[tuple[AutotuneKey, str], AutotuneRecord]:
    if not isinstance(table, dict):
        raise InvalidAutotuneRecord(f"a tuning record is {table!r:.80}, which is not a table", fix="correct it", value=table)
    missing = [name for name in _AS_LIST[:-1] if name not in table]
    if missing:
        raise InvalidAutotuneRecord(f"a tuning record has no {', '.join(missing)}", fix="add it", field=missing[0])
    given: dict[str, Any] = {
        # Three numbers, and what stands after them is dropped, as the original does.
        name: tuple(value[:3]) if isinstance(value, list) and name in _AXES_FIELDS else value
        for name, value in table.items()
        if name in _KNOWN and name not in {"key", "adapter"}
    }
    record = AutotuneRecord(**given)
    return (AutotuneKey(table["key"], table["adapter"]), record.identity), record


def parse_own(text: str) -> dict[tuple[AutotuneKey, str], AutotuneRecord] | None:
    """Return the records of a file that this module wrote, or the original without anything to escape; None for others."""
    first, *blocks = text.split("\n" + _HEADER)
    if first != "schema = 1\n" or "\r" in text:
        return None
    found = {}
    for block in blocks:
        match = _RECORD.fullmatch(block)
        if match is None:
            return None
        key, adapter, x, y, z, unroll, wide, high, deep, day, identity, samples, median, at, *names, timings = match.groups()
        axes = int(x), int(y), int(z), int(wide), int(high), int(deep), int(unroll)
        if max(axes) > U32_MAX:
            return None
        added: tuple[Any, ...] = ("", 0, 0, 0, "", "", "", "", "")
        if identity is not None:
            added = (identity, int(samples), int(median), int(at), *names, timings or "")
        key = AutotuneKey(key, adapter)
        record = AutotuneRecord.unchecked(axes[:3], axes[6], axes[3:6], day, *added)
        found[key, record.identity] = record
    return found


def format_text(content: AutotuneText) -> str:
    """Return the text of a file: records in the order of keys and identities, then what could not be read, as it was."""
    in_order = sorted(content.records.items(), key=lambda item: (item[0][0].key_hex, item[0][0].adapter_id, item[0][1]))
    if content.unknown or content.unreadable or content.unknown_of:
        tables: list[Any] = [_table(*item) | content.unknown_of.get(item[0], {}) for item in in_order]
        tables += [given for given, _ in content.unreadable]
        with missing_is_named():
            import tomli_w  # late: as above

        return tomli_w.dumps({"schema": content.schema, **content.unknown, "record": tables})
    if not in_order:
        return f"schema = {content.schema}\nrecord = []\n"
    return "\n".join([f"schema = {content.schema}\n", *[_HEADER + _own_text(at[0], record) for at, record in in_order]])


def format_record(key: AutotuneKey, record: AutotuneRecord) -> str:
    """Return the text of a file with one record, as machines hand it to each other."""
    return format_text(AutotuneText({(key, record.identity): record}))


def _table(at: tuple[AutotuneKey, str], record: AutotuneRecord) -> dict[str, Any]:
    """Return a record as a table: what is added to the original's only where something was."""
    table: dict[str, Any] = {"key": at[0].key_hex, "adapter": at[0].adapter_id}
    table |= {name: getattr(record, name) for name in _AS_LIST[2:]}
    names = _ADDED if record.timings else _ADDED[:-1]
    return table | ({name: getattr(record, name) for name in names} if _has_added(record) else {})


def _own_text(key: AutotuneKey, record: AutotuneRecord) -> str:
    texts: tuple[str, ...] = (key.key_hex, key.adapter_id, record.recorded_at)
    texts += (record.identity, record.kernel, record.device, record.driver, record.size)
    if _TO_ESCAPE.search("".join(texts)) is not None:
        texts = tuple(one.translate(_ESCAPES) for one in texts)
    key_hex, adapter, day, identity, kernel, device, driver, size = texts
    text = (
        f'key = "{key_hex}"\nadapter = "{adapter}"\nworkgroup_size = {_listed(record.workgroup_size)}\n'
        f'unroll = {record.unroll}\ntile = {_listed(record.tile)}\nrecorded_at = "{day}"\n'
    )
    if not _has_added(record):
        return text
    return (
        f'{text}identity = "{identity}"\nsamples = {record.samples}\nmedian_ns = {record.median_ns}\n'
        f'measured_at = {record.measured_at}\nkernel = "{kernel}"\ndevice = "{device}"\ndriver = "{driver}"\n'
        f'size = "{size}"\n' + (f'timings = "{record.timings}"\n' if record.timings else "")
    )


def _has_added(record: AutotuneRecord) -> bool:
    return any(_added_of(record))


def _listed(axes: tuple[int, int, int]) -> str:
    return f"[\n    {axes[0]},\n    {axes[1]},\n    {axes[2]},\n]"
