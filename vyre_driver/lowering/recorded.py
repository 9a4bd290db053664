"""A line that says what a kernel was compiled of, so that any machine can compile it before it is needed.

It has what ``Driver.compile`` was given, and no key, entry or compiled code: those differ between devices and drivers, and that
a key is that of the code beside it could not be checked. The key is made anew where the line is read, so a line
that was changed makes another kernel ready and harms no other one. docs/fleet.md has the table of a line.

A program stands there as plain values of JSON, every field of it, so that its digest is the same: the wire format has a
canonical form, which runs the same and has another digest, and no place for some fields. A reader makes terms by their own
constructors, which check every field, and no other objects.
"""

from __future__ import annotations

import base64
import binascii
import enum
import inspect
import io
import json
import re
import struct
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from vyre_driver.errors import InvalidProgram, VyreError
from vyre_driver.ir import arithmetic, buffers, dtypes, expressions, nodes, operators, predicates, quantization
from vyre_driver.ir.expressions import BufferRef, SubgroupAdd, SubgroupReduce
from vyre_driver.ir.operators import SubgroupOp
from vyre_driver.ir.program import Program
from vyre_driver.ir.terms import terms_within
from vyre_driver.specialization.values import SpecKind, SpecMap, SpecValue
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.target.config import DispatchConfig, ProgramConfig

if TYPE_CHECKING:
    from vyre_driver.lowering.source import KernelSource


MOST_VALUES = 1 << 20
_IR = "vyre_driver.ir."
_SUM = "SubgroupAdd"  # what 0.2 calls a subgroup reduction that adds
_MODULES = (arithmetic, buffers, dtypes, expressions, nodes, operators, predicates, quantization)
_FOUND = {
    name: one for module in _MODULES for name, one in inspect.getmembers(module, inspect.isclass) if _IR in one.__module__
}
_ENUMS = {name: one for name, one in _FOUND.items() if issubclass(one, enum.Enum)}
_TERMS: dict[str, type[Any]] = {
    name: one
    for name, one in {**_FOUND, "Program": Program}.items()
    if is_dataclass(one) and not name.startswith("_") and one is not predicates.ShapePredicate
}
_NAMES = {one: [field.name for field in fields(one) if field.init] for one in _TERMS.values()}


def values_of(program: Program) -> object:
    """Return a program as values of JSON.

    Raises
    ------
    InvalidProgram
        If it is nested too deeply, has more than 2**20 values, or would not come back the same.
    """
    try:
        found = _Writer().value(program)
        is_same = program_of(found).digest() == program.digest()
    except (RecursionError, TypeError, ValueError) as error:
        raise _unwritable(str(error) or type(error).__name__) from error
    if not is_same:
        raise _unwritable("it would come back as another one")
    return found


def has_newer_terms(program: Program) -> bool:
    """Return whether a program has terms that vyre_driver 0.2 does not know."""
    return any(
        isinstance(term, BufferRef) or (isinstance(term, SubgroupReduce) and term.op is not SubgroupOp.ADD)
        for term in terms_within(*program.entry)
    )


def program_of(value: object) -> Program:
    """Return the program of such values.

    Raises
    ------
    ValueError
        If they are no such values.
    InvalidProgram
        If a field is not valid.
    """
    try:
        found = _read(value)
    except VyreError:
        raise
    except (RecursionError, TypeError, ValueError, LookupError, AttributeError, struct.error):
        found = None
    if not isinstance(found, Program):
        raise ValueError("its program is none")  # noqa: TRY004 -- of a line, not of an argument
    return found


class _Writer:
    """Counts what it writes: terms that are used several times are written as often."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def value(self, one: object) -> object:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it has more than {MOST_VALUES} values")
        kind = type(one)
        if one is None or kind in {bool, int, str}:
            return one
        if isinstance(one, float):
            return {"float": struct.pack("<d", one).hex()}
        if isinstance(one, bytes):
            return {"bytes": base64.b64encode(one).decode("ascii")}
        if isinstance(one, tuple | list):
            return [self.value(part) for part in one]
        if isinstance(one, enum.Enum) and _ENUMS.get(kind.__name__) is kind:
            return {"enum": [kind.__name__, one.name]}
        if isinstance(one, SubgroupReduce) and one.op is SubgroupOp.ADD:
            return {_SUM: [self.value(one.value)]}
        if _TERMS.get(kind.__name__) is kind:
            return {kind.__name__: [self.value(getattr(one, name)) for name in _NAMES[kind]]}
        raise TypeError(f"it has a value of type {kind.__name__}")


def _read(value: object) -> Any:  # noqa: ANN401 -- a field
    if isinstance(value, list):
        return tuple([_read(one) for one in value])
    if not isinstance(value, dict):
        if isinstance(value, float):
            raise TypeError
        return value
    ((name, content),) = value.items()
    match name:
        case "float":
            return struct.unpack("<d", bytes.fromhex(content))[0]
        case "bytes":
            return base64.b64decode(content, validate=True)
        case "enum":
            kind, member = content
            return _ENUMS[kind][member]
        case _ if name == _SUM:
            return SubgroupAdd(*map(_read, content))
    made = _TERMS[name]
    return made(**dict(zip(_NAMES[made], [_read(one) for one in content], strict=True)))


def _unwritable(reason: str) -> InvalidProgram:
    return InvalidProgram(f"the program cannot be written down: {reason}", fix="compile it where it is needed")


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
