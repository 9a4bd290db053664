"""Pack push constants: the caller's named values become the words of the block, each at its declared offset (packing.py)."""

from __future__ import annotations

import keyword
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

from vyre_driver.binding import _call_form
from vyre_driver.binding.names import OPTIONS, TUNING_OPTIONS
from vyre_driver.binding.packing import Naming, ValueWriter, form_of
from vyre_driver.errors import InvalidPushConstant
from vyre_driver.spirv.layout import Scalar

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vyre_driver.spirv.layout import Member, MemoryType

_WORD_BITS = 32
_MAX_PACKED_BYTES = 256  # what _call_form.PushPacker has room for


def packer_of(members: Sequence[Member], byte_len: int, buffers: Collection[str] = ()) -> _call_form.PushPacker | None:
    """Return the fast packer of a block of single 32-bit numbers, 256 bytes at most, or of none; None for any other block.

    ``buffers`` are the names of the kernel's buffers, which its keywords may mean as well.
    """
    scalars = [member.type for member in members if isinstance(member.type, Scalar)]
    if len(scalars) < len(members) or byte_len > _MAX_PACKED_BYTES:
        return None
    if any(scalar.bits != _WORD_BITS for scalar in scalars):
        return None
    places = [(member.name, member.offset, scalar.kind) for member, scalar in zip(members, scalars, strict=True)]
    are_shared = any(member.name in buffers for member in members)
    return _call_form.PushPacker(tuple(places), byte_len // 4 if members else 0, are_shared)


def pack_push_constants(
    members: Sequence[Member], byte_len: int, given: Mapping[str, object], subject: str = "shader"
) -> tuple[int, ...]:
    """Return the push-constant block of ``byte_len`` bytes as 32-bit words; every member must be given.

    ``subject`` is what declares them, in messages: ``shader`` or ``program``.

    Raises
    ------
    InvalidPushConstant
        If they are not given by name, a name is unknown or missing, or a value does not fit its type or its shape.
    """
    if not isinstance(given, Mapping):
        raise InvalidPushConstant(
            f"push constants came as {type(given).__name__}, and are given by name",
            fix="pass a dictionary from names to values",
        )
    _refuse_for_program(subject, members, given)
    block = bytearray(byte_len)
    ValueWriter(memoryview(block), _naming(subject)).write_members(0, "", members, given)
    return struct.unpack(f"<{byte_len // 4}I", block)


def repacked_push_constants(
    members: Sequence[Member], words: tuple[int, ...], given: Mapping[str, object], subject: str = "shader"
) -> tuple[int, ...]:
    """Return the block that ``words`` are with other values of the members that are ``given``.

    Raises InvalidPushConstant as ``pack_push_constants``, but for those that are not given.
    """
    _refuse_for_program(subject, members, given)
    block = bytearray(struct.pack(f"<{len(words)}I", *words))
    ValueWriter(memoryview(block), _naming(subject)).write_members(0, "", members, given, whole=False)
    return struct.unpack(f"<{len(words)}I", block)


def _naming(subject: str) -> Naming:
    return _OF_PROGRAM if subject == "program" else _OF_SHADER


def _refuse_for_program(subject: str, members: Sequence[Member], given: Mapping[str, object]) -> None:
    if subject == "program" and given and not members:
        name = str(next(iter(given)))
        raise InvalidPushConstant(
            f"the program has no push constants, and {name!r} was given",
            fix="leave it out; declare it with BufferDecl.push, or give it as a constant of compile",
            constant=name,
        )


def _example(path: str, found: MemoryType) -> str:
    if keyword.iskeyword(path) or path in OPTIONS | TUNING_OPTIONS:
        return f"give it in push_constants={{{path!r}: ...}}, {form_of(found)}"
    if isinstance(found, Scalar) and "." not in path:
        return f"give it, for example {path}=1, or --push {path}=1"
    return f"give it, {form_of(found)}"


def _example_of_program(path: str, found: MemoryType) -> str:
    is_name = path.isidentifier() and not keyword.iskeyword(path) and path not in OPTIONS | TUNING_OPTIONS
    if isinstance(found, Scalar) and is_name:
        return f"give it, for example {path}={'True' if found.kind == 'b' else 1}"
    return f"give it in push_constants={{{path!r}: ...}}, {form_of(found)}"


def _refused(message: str, fix: str, path: str, **data: object) -> InvalidPushConstant:
    return InvalidPushConstant(message, fix=fix, constant=path, **data)


_OF_SHADER = Naming("push constant", "the shader", "", _refused, _example, takes_truth=True)
_OF_PROGRAM = Naming("push constant", "the program", "", _refused, _example_of_program)
