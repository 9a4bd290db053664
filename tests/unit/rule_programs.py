"""What the cases of the validator's rules are made of: buffers, a device, signatures, small programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vyre_driver.ir import OperationSignature
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.builders import (
    block,
    u32,
    unop,
)
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import UnOp
from vyre_driver.ir.program import Program
from vyre_driver.target.profile import DeviceProfile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.validation.rules import Rule

OUT = BufferDecl.read_write("out", 0, DataType.U32).with_count(8)
IN = BufferDecl.read("in", 1, DataType.U32)
FLOATS = BufferDecl.read_write("floats", 2, DataType.F32)
SHARED = BufferDecl.workgroup("shared", 16, DataType.U32)
BYTES = BufferDecl.read_write("bytes", 3, DataType.Bytes)
OPEN_BYTES = BufferDecl.read_write("open_bytes", 4, DataType.Bytes).with_bytes_extraction(True)
SIGNED = BufferDecl.read_write("signed", 5, DataType.I32)
BUFFERS = (OUT, IN, FLOATS, SHARED, BYTES, OPEN_BYTES, SIGNED)

ABLE = DeviceProfile(
    backend="test",
    supports_subgroup_ops=True,
    supports_indirect_dispatch=True,
    supports_distributed_collectives=True,
    supports_f16=True,
    supports_bf16=True,
    supports_f64=True,
    supports_trap_propagation=True,
    has_shared_memory=True,
    max_native_int_width=64,
    max_workgroup_size=(64, 64, 64),
    max_invocations_per_workgroup=128,
    max_shared_memory_bytes=1024,
    max_storage_buffer_binding_size=4096,
)
SIGNATURES = {
    "twice": OperationSignature(("u32",), "u32"),
    "strange": OperationSignature(("u33",), "u32"),
    "first": OperationSignature(("buffer<u32>",), "u32"),
    "deep": OperationSignature((), "u32", call_depth=33),
    "deepest": OperationSignature((), "u32", call_depth=32),
}


def program(*nodes: Node, buffers: Sequence[BufferDecl] = BUFFERS, size: tuple[int, int, int] = (64, 1, 1)) -> Program:
    """A wrapped program."""
    return Program.wrapped(buffers, size, nodes)


def declaring(*buffers: BufferDecl) -> Program:
    """A program that does nothing with its buffers."""
    return program(buffers=buffers)


def chain(length: int) -> Any:  # noqa: ANN401 -- an expression
    """An expression of this depth."""
    expr: Any = u32(1)
    for _ in range(length - 1):
        expr = unop(UnOp.BIT_NOT, expr)
    return expr


def nest(levels: int) -> Program:
    """A program whose nodes nest this deep."""
    body: tuple[Node, ...] = (block(),)
    for _ in range(levels - 2):
        body = (block(*body),)
    return program(*body)


@dataclass(frozen=True)
class Case:
    """A rule with a program that it accepts and one that it refuses, and the path and message of that."""

    rule: Rule
    accepted: Program
    refused: Program
    finding: str
    profile: DeviceProfile | None
    operations: Mapping[str, OperationSignature] | None


def case(  # noqa: PLR0913 -- a row
    rule: Rule,
    accepted: Program | Node | tuple[Node, ...],
    refused: Program | Node | tuple[Node, ...],
    finding: str,
    *,
    profile: DeviceProfile | None = None,
    operations: Mapping[str, OperationSignature] | None = None,
) -> Case:
    """A row of the tables of rules; nodes stand for a program of them."""
    programs = [
        one if isinstance(one, Program) else program(*(one if isinstance(one, tuple) else [one])) for one in (accepted, refused)
    ]
    return Case(rule, *programs, finding, profile, operations)


X = u32(1)
