"""The digests of a program: upstream's two, bit for bit, and our own.

Upstream's digests v2 and v3 and its fingerprints are kept for other vyre tools, and select nothing: they leave fields out
(docs/keys.md). The strong digest covers the whole program.

Source: spec items 3.1 (digest v2) and 3.4 (fingerprint); upstream 0.7, section 1.3 (digest v3); the strong digest is ours.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from blake3 import blake3

from vyre_driver.errors import InvalidProgram
from vyre_driver.ir.buffers import BufferAccess, MemoryKind
from vyre_driver.ir.canonical import wire_bytes, wire_bytes_of_format_4
from vyre_driver.ir.dtypes import wire_problem
from vyre_driver.ir.fields import encoded_text, refuse
from vyre_driver.ir.wire.writer import hints_bytes

if TYPE_CHECKING:
    from vyre_driver.ir.buffers import BufferDecl
    from vyre_driver.ir.program import Program

PROGRAM_DIGEST_VERSION = 1

_STRONG_DOMAIN = b"vyre-driver program\0"
_FALLBACK_DOMAIN = b"vyre-driver fingerprint of a program without wire form\0"
_THREE_U32, _TWO_U32, _U32 = struct.Struct("<III"), struct.Struct("<II"), struct.Struct("<I")


def strong_digest(program: Program) -> bytes:
    """Return the 32-byte identity of a program: every field of it changes it (docs/keys.md has the byte table).

    Only ``structurally_validated`` is left out, which says nothing about the program itself.
    """
    op = program.entry_op_id
    hasher = blake3(_STRONG_DOMAIN)
    hasher.update(
        b"".join(
            [
                _U32.pack(PROGRAM_DIGEST_VERSION),
                b"\0" if op is None else b"\1" + encoded_text(op, "the op id"),
                _THREE_U32.pack(*program.workgroup_size),
                bytes((program.non_composable_with_self,)),
                _U32.pack(len(program.buffers)),
                *map(_buffer_bytes, program.buffers),
                _U32.pack(len(program.entry)),
                *(_U32.pack(len(node.key)) + node.key for node in program.entry),
            ]
        )
    )
    return hasher.digest()


def _buffer_bytes(buffer: BufferDecl) -> bytes:
    byte_range, predicate = buffer.output_byte_range, buffer.shape_predicate
    return b"".join(
        [
            encoded_text(buffer.name, "the name of a buffer"),
            _TWO_U32.pack(buffer.binding, buffer.count),
            bytes((buffer.access.value, buffer.kind.value)),
            _U32.pack(len(buffer.element.encoded)),
            buffer.element.encoded,
            bytes((buffer.is_output, buffer.pipeline_live_out, buffer.bytes_extraction, buffer.linear_type.value)),
            b"\0" if byte_range is None else struct.pack("<BQQ", 1, *byte_range),
            hints_bytes(buffer.hints),
            b"\0" if predicate is None else b"\1" + predicate.encoded,
        ]
    )


def normalized_cache_digest_v2(program: Program) -> bytes:
    """Return the digest v2 (32 bytes) of upstream's 0.4 to 0.6.

    Raises
    ------
    InvalidProgram
        If a type has no encoding, or the nodes pass 2**26 bytes.
    """
    hasher = blake3(b"vyre-pipeline-cache-norm-v2\0wg\0")
    hasher.update(_THREE_U32.pack(*program.workgroup_size))
    hasher.update(b"\0op\0" + ("<anon>" if program.entry_op_id is None else program.entry_op_id).encode())
    hasher.update(b"\0v\0" + bytes((program.structurally_validated,)) + b"\0bufs\0")
    for buffer in program.buffers:
        _check_element(buffer)
        places = bytes((buffer.kind.value, buffer.access.value))
        hasher.update(buffer.name.encode() + b"\0" + places + buffer.element.encoded + b"\0")
    hasher.update(b"\0body\0" + _U32.pack(len(program.entry)) + wire_bytes_of_format_4(*program.entry))
    return hasher.digest()


def normalized_cache_digest_v3(program: Program) -> bytes:
    """Return the digest v3 (32 bytes) of upstream's 0.7 and 0.8: whether the program was validated is not in it.

    Raises
    ------
    InvalidProgram
        If a type has no encoding, or the nodes pass 2**26 bytes.
    """
    hasher = blake3(b"vyre-pipeline-cache-norm-v3\0wg\0")
    hasher.update(_THREE_U32.pack(*program.workgroup_size))
    hasher.update(b"\0op\0" + encoded_text(program.entry_op_id or "", "the op id") + b"\0bufs\0")
    for buffer in program.buffers:
        _check_element(buffer)
        in_workgroup = buffer.access is BufferAccess.WORKGROUP or buffer.kind in {MemoryKind.SHARED, MemoryKind.LOCAL}
        is_static = in_workgroup and buffer.kind is not MemoryKind.PERSISTENT
        hasher.update(encoded_text(buffer.name, "the name of a buffer"))
        hasher.update(bytes((buffer.kind.value, buffer.access.wire_tag)) + _U32.pack(buffer.binding))
        hasher.update(buffer.element.encoded + _U32.pack(buffer.count if is_static else 0))
    hasher.update(b"\0body\0" + _U32.pack(len(program.entry)) + wire_bytes(*program.entry))
    return hasher.digest()


def _check_element(buffer: BufferDecl) -> None:
    problem = wire_problem(buffer.element)
    if problem is not None:
        refuse(f"buffer {buffer.name!r} cannot be encoded: {problem}", "use a storage that is allowed", buffer=buffer.name)


def fingerprint(program: Program, version: int) -> bytes:
    """Return upstream's fingerprint (32 bytes): BLAKE3 of the canonical container of this format.

    A program that has no container gets a name of our own, made of its strong digest: upstream's is made of error texts.
    """
    try:
        return blake3(program.canonical_wire_bytes(version)).digest()
    except InvalidProgram:
        return blake3(_FALLBACK_DOMAIN + strong_digest(program)).digest()
