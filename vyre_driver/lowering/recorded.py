"""A line that says what a kernel was compiled of, so that any machine can compile it before it is needed.

It has what ``Driver.compile`` was given, and no key, entry or compiled code: those differ between devices and drivers, and that
a key is that of the code beside it could not be checked. The key is made anew where the line is read, so a line
that was changed makes another kernel ready and harms no other one. docs/fleet.md has the table of a line.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vyre_driver.errors import VyreError
from vyre_driver.ir.program import Program
from vyre_driver.lowering.program_fields import has_newer_terms, program_of, values_of
from vyre_driver.specialization.values import SpecKind, SpecMap, SpecValue
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.target.config import DispatchConfig, ProgramConfig

if TYPE_CHECKING:
    from vyre_driver.lowering.source import KernelSource

RECORDING_VERSION = 1
NEWER_TERMS_VERSION = 2  # of a line whose program 0.2 would not know; otherwise the same
MAX_LINE_BYTES = 32 << 20
MAX_FILE_BYTES = 256 << 20
MAX_KERNELS = MAX_LEFT_OUT = 65_536
_MOST_NAME = 1024
_BITS = re.compile("0x[0-9a-f]{8}")
_KINDS = {kind.name.lower(): kind for kind in SpecKind if kind is not SpecKind.DTYPE}
_CONFIG = ("ulp_budget", "workgroup_override", "subgroup_size", "floats", "bounds", "lines")
_DEFAULTS = ProgramConfig()


@dataclass(frozen=True, slots=True)
class RecordedKernel:
    """What ``Driver.compile`` takes. A program is the one that was given, with whatever workgroup the configuration has."""

    code: SpirvModule | Program
    constants: SpecMap
    config: DispatchConfig | None

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return self.code.name if isinstance(self.code, SpirvModule) else self.code.entry_op_id or "a program"


@dataclass(frozen=True, slots=True)
class Recording:
    """The kernels of a file, each once, and of its other lines their numbers, from 1 on, with why they are left out."""

    kernels: tuple[RecordedKernel, ...]
    left_out: tuple[tuple[int, str], ...]


def line_of(code: SpirvModule | Program, source: KernelSource) -> bytes:
    """Return the line of a kernel, without an end: its code as it was given, and its source with constants and configuration.

    Raises
    ------
    InvalidProgram
        If a program cannot be written down.
    """
    config = source.config
    fields: dict[str, Any] = {"recording": RECORDING_VERSION}
    if isinstance(code, SpirvModule):
        fields |= {"module": _text(code.code), "name": code.name[:_MOST_NAME], "entry": code.entry}
    else:
        fields["program"] = values_of(code)
        if has_newer_terms(code):
            fields["recording"] = NEWER_TERMS_VERSION
    given = (one for one in source.specialization.constants if one.name in source.constants)
    fields["constants"] = {one.name: f"{one.type_name}:{one.bits:#010x}" for one in given}
    asked = {} if config is None else {name: getattr(config, name, None) for name in _CONFIG}
    fields["config"] = {name: value for name, value in asked.items() if value not in (None, getattr(_DEFAULTS, name))}
    return json.dumps(fields, separators=(",", ":")).encode("ascii")


def read_recording(data: bytes) -> Recording:
    """Return what the lines of a file hold, whatever is in it. Lines that are the same count once, empty ones not at all.

    A file that is no recording has millions of lines: behind ``MAX_LEFT_OUT`` that are left out, no more are read.
    """
    kernels: dict[bytes, RecordedKernel] = {}
    left_out: list[tuple[int, str]] = []
    for number, ended in enumerate(io.BytesIO(data), 1):
        line = ended.removesuffix(b"\n")
        if not line or line in kernels:
            continue
        if len(kernels) >= MAX_KERNELS or len(left_out) >= MAX_LEFT_OUT:
            full = f"{MAX_KERNELS} kernels" if len(kernels) >= MAX_KERNELS else f"{MAX_LEFT_OUT} lines that are left out"
            left_out.append((number, f"it is behind {full}, and no more are read"))
            break
        try:
            kernels[line] = read_line(line)
        except (ValueError, VyreError) as error:
            left_out.append((number, str(error)))
    return Recording(tuple(kernels.values()), tuple(left_out))


def read_line(line: bytes) -> RecordedKernel:
    """Return the kernel of a line.

    Raises
    ------
    ValueError
        If it is no line of a recording, or of another version.
    VyreError
        If code, constants or configuration are not valid.
    """
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"it has {len(line)} bytes, and at most {MAX_LINE_BYTES} are read")
    try:
        fields = json.loads(line.decode("ascii"))
    except (ValueError, RecursionError):
        raise ValueError("it is not a whole line of a recording") from None
    if not isinstance(fields, dict) or type(fields.get("recording")) is not int:
        raise ValueError("it is no line of a recording")
    if fields.pop("recording") not in {RECORDING_VERSION, NEWER_TERMS_VERSION}:
        raise ValueError(f"another version wrote it, and this one reads versions {RECORDING_VERSION} and {NEWER_TERMS_VERSION}")
    code = _code(fields)
    constants, config = _constants(fields.pop("constants", None)), _config(fields.pop("config", None), type(code))
    if fields:
        raise ValueError(f"it has {len(fields)} fields that are not known")
    return RecordedKernel(code, constants, config)


def _code(fields: dict[str, Any]) -> SpirvModule | Program:
    if "program" in fields:
        return program_of(fields.pop("program"))
    name, entry, data = fields.pop("name", None), fields.pop("entry", None), _bytes(fields.pop("module", None))
    if type(name) is not str or len(name) > _MOST_NAME or not (entry is None or type(entry) is str):
        raise ValueError("its module has no name, or an entry point that is no text")
    return SpirvModule.from_bytes(data, name=name, entry=entry)


def _constants(found: object) -> SpecMap:
    if not isinstance(found, dict):
        raise ValueError("its constants are none")  # noqa: TRY004 -- of a line, not of an argument
    return SpecMap((name, _constant(value)) for name, value in found.items())


def _constant(value: object) -> SpecValue:
    kind, _, bits = value.partition(":") if type(value) is str else ("", "", "")
    if kind not in _KINDS or _BITS.fullmatch(bits) is None:
        raise ValueError("a constant is no type and 32 bits")
    return SpecValue(_KINDS[kind], int(bits, 16))


def _config(found: object, kind: type) -> DispatchConfig | None:
    known = _CONFIG if kind is Program else ("subgroup_size",)
    if not isinstance(found, dict) or not set(found) <= set(known):
        raise ValueError("its configuration has fields that are not known")
    if "lines" in found:
        found = {**found, "lines": _lines(found["lines"])}
    made = ProgramConfig if kind is Program else DispatchConfig
    return made(**found) if found else None


def _lines(found: object) -> tuple[tuple[str, tuple[str, int, int]], ...]:
    try:
        rows = [(path, (file, line, column)) for path, (file, line, column) in found]  # type: ignore[attr-defined] # or it raises
    except (TypeError, ValueError):
        rows = [(None, (None, None, None))]
    types = {(type(path), type(file), type(line), type(column)) for path, (file, line, column) in rows}
    if types - {(str, str, int, int)}:
        raise ValueError("its lines of source are none")
    return tuple(rows)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True)  # type: ignore[arg-type] # or it raises
    except (TypeError, ValueError, binascii.Error):
        raise ValueError("its code is no Base64") from None
