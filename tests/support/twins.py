"""Plain twins of the compiled loops in ``vyre_driver._fast``: the same answers, readable as their specification.

The words of a SPIR-V module are 32-bit numbers in the host's byte order. Its header has five words, of which the first is the
magic number. Then come instructions; the upper half of an instruction's first word is its length in words, the lower half its
opcode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WHOLE = 0
SHORT = 1
NO_MAGIC = 2
SWAPPED = 3
EMPTY_INSTRUCTION = 4
OVERRUN = 5
NESTED_FUNCTION = 6
STRAY_FUNCTION_END = 7
OPEN_FUNCTION = 8

MAGIC = 0x07230203
MAGIC_SWAPPED = 0x03022307
HEADER_WORDS = 5
OP_FUNCTION = 54
OP_FUNCTION_END = 56


def shard_path(digest: bytes) -> str:
    """Two hex digits, a slash, all 64 hex digits, ``.bin``."""
    if len(digest) != 32:
        raise ValueError(f"digest has {len(digest)} bytes, not 32")
    return f"{digest[:1].hex()}/{digest.hex()}.bin"


def scan_spirv(module: bytes) -> tuple[int, int, int, int]:
    """Return (fault, word at which it shows, word of the first function, number of functions).

    The word is that of the instruction looked at last. Without a function, the first function's word is the word count.
    """
    if len(module) % 4:
        raise ValueError(f"module has {len(module)} bytes, not a multiple of 4")
    words = memoryview(module).cast("I")
    if len(words) < HEADER_WORDS:
        return SHORT, 0, len(words), 0
    if words[0] != MAGIC:
        return (SWAPPED if words[0] == MAGIC_SWAPPED else NO_MAGIC), 0, len(words), 0
    at, last, is_open = HEADER_WORDS, 0, False
    functions: list[int] = []
    fault = WHOLE
    while at < len(words) and fault == WHOLE:
        last, length, opcode = at, words[at] >> 16, words[at] & 0xFFFF
        fault = _fault_of(length, opcode, left=len(words) - at, is_open=is_open)
        if fault == WHOLE and opcode in {OP_FUNCTION, OP_FUNCTION_END}:
            is_open = opcode == OP_FUNCTION
            functions += [at] * is_open
        at += length
    if fault == WHOLE and is_open:
        fault = OPEN_FUNCTION
    return fault, last, functions[0] if functions else len(words), len(functions)


def _fault_of(length: int, opcode: int, *, left: int, is_open: bool) -> int:
    """Return what is wrong with one instruction; ``left`` words remain with it, ``is_open`` inside a function."""
    if length == 0:
        return EMPTY_INSTRUCTION
    if length > left:
        return OVERRUN
    if opcode == OP_FUNCTION and is_open:
        return NESTED_FUNCTION
    if opcode == OP_FUNCTION_END and not is_open:
        return STRAY_FUNCTION_END
    return WHOLE


def defines_function(module: bytes, start: int, function: int) -> bool:
    """Whether some ``OpFunction`` from the instruction at word ``start`` on has ``function`` as its result, its second operand.

    An instruction of length 0 ends the search.
    """
    words = memoryview(module[: len(module) // 4 * 4]).cast("I")
    if not 0 <= start <= len(words):
        raise ValueError(f"start is word {start} of a module of {len(words)} words")
    at = start
    while at < len(words) and words[at] >> 16:
        if words[at] & 0xFFFF == OP_FUNCTION and words[at + 2 : at + 3].tolist() == [function]:
            return True
        at += words[at] >> 16
    return False


FNV_BASIS = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3


def spec_map_hash(rows: list[tuple[bytes, int]]) -> int:
    """FNV-1a of 64 bits over each name and the eight bytes of its value's hash, lowest first, with nothing between them."""
    found = FNV_BASIS
    for name, value_hash, *_ in rows:
        for byte in name + value_hash.to_bytes(8, "little"):
            found = (found ^ byte) * FNV_PRIME % 2**64
    return found


def autotune_key_hex(shader_hash: int, binding_sig: int, workgroup_size: tuple[int, int, int], spec_hash: int) -> str:
    """Two u64, lowest byte first: constants folded with the workgroup at 16 bits an axis, shader folded with bindings."""
    x, y, z = workgroup_size
    first = spec_hash ^ x ^ y << 16 ^ z << 32
    return (first.to_bytes(8, "little") + (shader_hash ^ binding_sig).to_bytes(8, "little")).hex()


def hex_text(data: bytes) -> str:
    """Two lower-case digits a byte."""
    return "".join(f"{byte:02x}" for byte in data)


PLAN_WHOLE, UNKNOWN_ACCESS, RUNTIME_SIZED, LENGTH_OVERFLOW, ALIGNMENT = range(5)
FIT, WRONG_COUNT, TOO_SHORT, MISALIGNED, MISMATCH = range(5)
INPUT, OUTPUT, INPUT_OUTPUT, UNIFORM, SHARED, PERSISTENT = range(6)
READ_ONLY, READ_WRITE, UNIFORM_ACCESS, WRITE_ONLY, WORKGROUP = range(5)
KIND_SHARED, KIND_PERSISTENT = 1, 5
ROLE_OF_ACCESS = {READ_ONLY: INPUT, READ_WRITE: INPUT_OUTPUT, UNIFORM_ACCESS: UNIFORM, WRITE_ONLY: OUTPUT, WORKGROUP: SHARED}


@dataclass(frozen=True)
class Declared:
    """A buffer as a program declares it; ``preferred_alignment`` is its hint."""

    element_size: int
    binding: int
    count: int
    preferred_alignment: int
    access: int
    kind: int
    is_output: bool
    pipeline_live_out: bool


@dataclass(frozen=True)
class Planned:
    """A buffer of a plan."""

    element_size: int
    preferred_alignment: int
    static_byte_len: int | None
    buffer_index: int
    input_index: int | None
    output_index: int | None
    binding: int
    element_count: int
    role: int


@dataclass(frozen=True)
class Measured:
    """What a buffer's input must measure."""

    element_size: int
    header_bytes: int
    least_byte_len: int
    static_byte_len: int | None
    input_index: int | None


@dataclass(frozen=True)
class Extent:
    """The size of an element where elements are packed, in bits or bytes; 0 where its type fixes none."""

    size: int
    in_bits: bool
    fault: int = PLAN_WHOLE


def build_plan(
    declared: Sequence[Declared], lengths: Sequence[int], packed: Sequence[Extent] = (), *, in_declaration_order: bool = False
) -> tuple[int, list[Planned] | int]:
    """Return (0, bindings), or (status, place of the first declaration at fault in the order of the binding numbers)."""
    extents = packed or [Extent(buffer.element_size, in_bits=False) for buffer in declared]
    places = sorted(range(len(declared)), key=lambda place: declared[place].binding)
    for place in places:
        status = _declaration_fault(declared[place], extents[place])
        if status:
            return status, place
    numbered = range(len(declared)) if in_declaration_order else places
    takers = [place for place in numbered if _role(declared[place]) in {INPUT, INPUT_OUTPUT, UNIFORM}]
    givers = [place for place in numbered if _gives(declared[place])]
    return PLAN_WHOLE, [_planned(declared[place], extents[place], place, takers, givers, lengths) for place in places]


def _gives(one: Declared) -> bool:
    return _role(one) in {OUTPUT, INPUT_OUTPUT} or one.pipeline_live_out


def _planned(  # noqa: PLR0913 -- of one buffer all that is known
    one: Declared, extent: Extent, place: int, takers: Sequence[int], givers: Sequence[int], lengths: Sequence[int]
) -> Planned:
    role, units = _role(one), one.count * extent.size
    assert role is not None
    counted = 0
    if place in takers and takers.index(place) < len(lengths) and extent.size:
        units_given = lengths[takers.index(place)] * (8 if extent.in_bits else 1)
        counted = units_given // extent.size if units_given < 2**64 else 0
    return Planned(
        element_size=one.element_size,
        preferred_alignment=max(one.preferred_alignment, one.element_size, 1),
        static_byte_len=(-(-units // 8) if extent.in_bits else units) if one.count else None,
        buffer_index=place,
        input_index=takers.index(place) if place in takers else None,
        output_index=givers.index(place) if place in givers else None,
        binding=one.binding,
        element_count=one.count or (counted if counted < 2**32 else 0),
        role=role,
    )


def _role(one: Declared) -> int | None:
    if one.kind == KIND_SHARED or one.access == WORKGROUP:
        return SHARED
    if one.kind == KIND_PERSISTENT:
        return PERSISTENT
    return OUTPUT if one.is_output else ROLE_OF_ACCESS.get(one.access)


def _declaration_fault(one: Declared, extent: Extent) -> int:
    if _role(one) is None:
        return UNKNOWN_ACCESS
    if extent.fault:
        return extent.fault
    if one.count and not extent.size:
        return RUNTIME_SIZED
    if one.count * extent.size >= 2**64:
        return LENGTH_OVERFLOW
    return ALIGNMENT if one.preferred_alignment.bit_count() > 1 else PLAN_WHOLE


def validate_lengths(bindings: Sequence[Measured], lengths: Sequence[int]) -> tuple[int, int, int, int] | None:
    """Return None when inputs of these lengths fit, else (status, place of the binding, expected, received).

    Indices that leave a gap belong to no plan; the first that has no length counts as a wrong number of inputs.
    """
    takers = [(place, one) for place, one in enumerate(bindings) if one.input_index is not None]
    if len(takers) != len(lengths):
        return WRONG_COUNT, len(bindings), len(takers), len(lengths)
    for place, one in takers:
        assert one.input_index is not None
        if one.input_index >= len(lengths):
            return WRONG_COUNT, len(bindings), one.input_index + 1, len(lengths)
        length = lengths[one.input_index]
        least = max(one.least_byte_len, one.header_bytes)
        if length < least:
            return TOO_SHORT, place, least, length
        if one.element_size and (length - one.header_bytes) % one.element_size:
            return MISALIGNED, place, one.element_size, length
        if one.static_byte_len is not None and length != one.static_byte_len:
            return MISMATCH, place, one.static_byte_len, length
    return None
