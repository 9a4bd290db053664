"""A tuning record: the key of a kernel, as other vyre tools write it to the shared store, and its best constants.

Source: spec item 2.4.
"""

from __future__ import annotations

import operator
import re
import struct
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver import _fast
from vyre_driver.checks import I64_MAX, U32_MAX, key_text
from vyre_driver.errors import InvalidAutotuneRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vyre_driver.upstream.keys import SpecCacheKey

MOST_TIMINGS = 16
_MOST_CHARACTERS = 80
_MOST_NUMBER = 10**18 - 1
_NUMBER = r"(?:0|[1-9][0-9]{0,17})"
_NAME = r"[!#-:<-\[\]-~](?:[ !#-:<-\[\]-~]{0,78}[!#-:<-\[\]-~])?"
_ONE = rf"{_NUMBER}\+-{_NUMBER}/{_NUMBER} {_NAME}"
TIMINGS = rf"(?:{_ONE}(?:; {_ONE}){{0,{MOST_TIMINGS - 1}}})?"
"""The pattern of the text, which is empty for no times; nothing in it has to be escaped in TOML."""
_UNFIT = re.compile(r'[^ -~]|["\\;]')
_PARTS = re.compile(r"(\d+)\+-(\d+)/(\d+) (.+)")


class Timing(NamedTuple):
    """The time of one candidate: the median of its timed runs and their median absolute deviation, in nanoseconds."""

    candidate: str
    median_ns: int
    spread_ns: int
    samples: int


def format_timings(timings: Iterable[Timing]) -> str:
    """Return the text of times, the first 16 of them."""
    return "; ".join(
        f"{_number(one.median_ns)}+-{_number(one.spread_ns)}/{_number(one.samples)} {_name(one.candidate)}"
        for one in list(timings)[:MOST_TIMINGS]
    )


def parse_timings(text: str) -> list[Timing]:
    """Return the times of a text that matches ``TIMINGS``."""
    found = [_PARTS.fullmatch(one) for one in text.split("; ")] if text else []
    parts = [one.groups() for one in found if one is not None]
    return [Timing(name, int(median), int(spread), int(samples)) for median, spread, samples, name in parts]


def _number(value: int) -> int:
    return min(max(value, 0), _MOST_NUMBER)


def _name(candidate: str) -> str:
    name = _UNFIT.sub("?", candidate)
    if len(name) > _MOST_CHARACTERS:
        name = name[: _MOST_CHARACTERS - 3] + "..."
    return name.strip() or "?"


_AXES = 3
_MOST_SHOWN = 400  # characters of a value that is refused: records come from other machines, too
_IDENTITY = re.compile(r"[0-9a-f]{64}")
_SIZE = re.compile(r"(?:(?:0|[1-9][0-9]{0,18})(?:x(?:0|[1-9][0-9]{0,18}))*)?")
_TIMINGS = re.compile(TIMINGS)
_RANGES = struct.Struct("<3I3IIqqq")


@dataclass(frozen=True, slots=True, order=True)
class AutotuneKey:
    """Upstream's key of one record, in the order of its store: by ``key_hex``, then by ``adapter_id``.

    ``new`` makes a ``key_hex`` of 32 hex digits; a store written by others may hold any text. Weak by design: the digits are
    two XORs, so that different kernels share them, and a record found by this key alone is a suggestion, not a match.
    """

    key_hex: str
    adapter_id: str

    def __post_init__(self) -> None:
        """Refuse what cannot stand in a file.

        Raises
        ------
        InvalidKey
            If a field is not a str, or has no UTF-8 form.
        """
        try:
            str.encode(self.key_hex), str.encode(self.adapter_id)
        except (TypeError, UnicodeEncodeError):
            key_text(self.key_hex, "key_hex")
            key_text(self.adapter_id, "adapter_id")

    @classmethod
    def new(cls, spec: SpecCacheKey, adapter_id: str) -> AutotuneKey:
        """Return the key of a specialized kernel on an adapter, which is any text that names one."""
        return cls(_fast.autotune_key_hex(spec.shader_hash, spec.binding_sig, spec.workgroup_size, spec.spec_hash), adapter_id)


@dataclass(frozen=True, slots=True)
class AutotuneRecord:
    """The tuner's choice: upstream's four fields, and the measurements behind it.

    Parameters
    ----------
    workgroup_size, unroll, tile
        Invocations along x, y and z, the depth of unrolling, and the tile, each number an u32; the tile (0, 0, 0) is none.
    recorded_at
        The day, as ``2026-11-21``; any text in files of others, empty where it is not known.
    identity
        64 hex digits, the BLAKE3 of everything that the choice holds for (``identity.tuning_identity``); empty in records of
        others, which are suggestions.
    samples, median_ns, measured_at
        How many times the choice was timed, the median in nanoseconds, and the end in seconds since 1970; 0 where not known.
    kernel, device, driver
        Their names.
    size
        The class of problem sizes that it was measured at, as ``1024x1024``; empty where the size does not matter.
    timings
        The times of the candidates, the winner's first, as ``timings.format_timings`` writes them; empty where not known.

    Raises
    ------
    InvalidAutotuneRecord
        If a field is of another type or out of its range.
    """

    workgroup_size: tuple[int, int, int]
    unroll: int
    tile: tuple[int, int, int]
    recorded_at: str = ""
    identity: str = ""
    samples: int = 0
    median_ns: int = 0
    measured_at: int = 0
    kernel: str = ""
    device: str = ""
    driver: str = ""
    size: str = ""
    timings: str = ""

    def __post_init__(self) -> None:
        """Check every field: all at once, and one by one to say which is wrong."""
        numbers = (self.unroll, self.samples, self.median_ns, self.measured_at)
        try:
            counts = (*self.workgroup_size, *self.tile, *numbers)
            _RANGES.pack(*counts)
            str.encode(self.recorded_at + self.kernel + self.device + self.driver)
            is_right = set(map(type, counts)) == {int} and type(self.workgroup_size) is type(self.tile) is tuple
            is_right = is_right and (self.identity == "" or _IDENTITY.fullmatch(self.identity) is not None)
            is_right = is_right and _SIZE.fullmatch(self.size) is not None
            if is_right and _TIMINGS.fullmatch(self.timings) is not None:
                return
        except (TypeError, struct.error, UnicodeEncodeError):
            pass
        self._refuse_first()

    def _refuse_first(self) -> None:
        for name in ("workgroup_size", "tile"):
            axes = getattr(self, name)
            if type(axes) is not tuple or len(axes) != _AXES:
                _refuse(name, axes, "is not three integers")
            for axis in axes:
                _check_number(name, axis, U32_MAX)
        _check_number("unroll", self.unroll, U32_MAX)
        for name in ("samples", "median_ns", "measured_at"):
            _check_number(name, getattr(self, name), I64_MAX)  # what every TOML reader takes
        for name in ("recorded_at", "kernel", "device", "driver"):
            _check_text(name, getattr(self, name))
        if type(self.size) is not str or _SIZE.fullmatch(self.size) is None:
            _refuse("size", self.size, "is not integers with an x between them")
        if type(self.timings) is not str or _TIMINGS.fullmatch(self.timings) is None:
            _refuse(
                "timings",
                self.timings,
                "is not the times of at most 16 candidates",
            )
        _refuse("identity", self.identity, "is not 64 hex digits in lower case")

    @classmethod
    def unchecked(cls, *values: object) -> AutotuneRecord:
        """Return a record of all its fields, in order, whose types and ranges the caller has checked."""
        result = object.__new__(cls)
        for put, value in zip(_PUTTERS, values, strict=True):
            put(result, value)
        return result

    def supersedes(self, other: AutotuneRecord) -> bool:
        """Whether this record replaces another one for the same kernel: the one timed more often stays, then the newer.

        Where these are equal the contents decide, so that every process keeps the same one, whichever came first.
        """
        return self._rank() > other._rank()

    def _rank(self) -> tuple[object, ...]:
        return self.samples, self.recorded_at, self.measured_at, _every_field(self)


_PUTTERS = tuple(getattr(AutotuneRecord, one.name).__set__ for one in fields(AutotuneRecord))
_every_field = operator.attrgetter(*(one.name for one in fields(AutotuneRecord)))


def _check_number(name: str, value: object, most: int) -> None:
    if type(value) is not int or not 0 <= value <= most:
        _refuse(name, value, f"is not an integer from 0 to {most}")


def _check_text(name: str, value: object) -> None:
    try:
        str.encode(value)  # type: ignore[arg-type] # what is not a str is refused here
    except (TypeError, UnicodeEncodeError):
        _refuse(name, value, "is not a str with a UTF-8 form")


def _refuse(field: str, value: object, why: str) -> None:
    shown = repr(value)
    if len(shown) > _MOST_SHOWN:
        shown = f"{shown[:_MOST_SHOWN]}..."
    raise InvalidAutotuneRecord(
        f"{field} of a tuning record is {shown}, which {why}",
        fix="tune the kernel again, or correct the record",
        field=field,
        value=value,
    )
