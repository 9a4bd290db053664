"""The same for the rules of what a device has, which are asked only where one is named."""

from __future__ import annotations

from dataclasses import replace

from rule_programs import (
    ABLE,
    OUT,
    SHARED,
    Case,
    X,
    declaring,
    program,
)

from vyre_driver.ir.buffers import BufferAccess, BufferDecl
from vyre_driver.ir.builders import (
    f64,
    let,
    operation,
    store,
    u32,
    u64,
)
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.nodes import IndirectDispatch, Trap
from vyre_driver.ir.operators import UnOp
from vyre_driver.ir.validation.rules import Rule

DEVICES = [
    Case(
        Rule.DEVICE_WORKGROUP,
        program(size=(64, 2, 1)),
        program(size=(65, 1, 1)),
        "workgroup_size[0]",
        "the workgroup has 65 invocations along x, and the device allows 64",
        profile=ABLE,
    ),
    Case(
        Rule.DEVICE_WORKGROUP,
        program(size=(64, 2, 1)),
        program(size=(43, 3, 1)),
        "workgroup_size",
        "the workgroup has 129 invocations, and the device allows 128",
        profile=ABLE,
    ),
    Case(
        Rule.DEVICE_SHARED,
        declaring(SHARED.with_count(256)),
        declaring(SHARED.with_count(200), replace(SHARED, name="more", count=57)),
        "buffers",
        "the workgroup buffers have 1028 bytes together, and the device has 1024",
        profile=ABLE,
    ),
    Case(
        Rule.DEVICE_SHARED,
        declaring(OUT),
        declaring(SHARED),
        "buffers[0]",
        "'shared' is workgroup memory, and the device has none",
        profile=replace(ABLE, has_shared_memory=False),
    ),
    Case(
        Rule.DEVICE_BUFFER,
        declaring(OUT.with_count(1024)),
        declaring(OUT.with_count(1025)),
        "buffers[0]",
        "buffer 'out' has 4100 bytes, and the device binds 4096",
        profile=ABLE,
    ),
    Case(
        Rule.DEVICE_TYPE,
        declaring(BufferDecl.read("a", 0, DataType.F16)),
        declaring(BufferDecl.read("a", 0, DataType.F16), BufferDecl.storage("b", 1, BufferAccess.READ_ONLY, DataType.BF16)),
        "buffers[1]",
        "buffer 'b' holds bf16, and the device has no bf16",
        profile=replace(ABLE, supports_bf16=False),
    ),
    Case(
        Rule.DEVICE_TYPE,
        program(let("x", X)),
        program(let("x", u64(1))),
        "body[0].value",
        "the device has no 64-bit integers",
        profile=replace(ABLE, max_native_int_width=32),
    ),
    Case(
        Rule.DEVICE_TYPE,
        program(let("x", f64(1.0))),
        program(let("x", operation(UnOp.SQRT, DataType.F64, f64(2.0)))),
        "body[0].value",
        "the device has no 64-bit floats, and so no sqrt<f64>",
        profile=replace(ABLE, supports_f64=False),
    ),
    Case(
        Rule.DEVICE_OPERATION,
        program(store("out", 0, X)),
        program(IndirectDispatch("out", 0)),
        "body[0]",
        "the device has no indirect dispatch",
        profile=replace(ABLE, supports_indirect_dispatch=False),
    ),
    Case(
        Rule.DEVICE_OPERATION,
        program(store("out", 0, X)),
        program(Trap(u32(0), "bad")),
        "body[0]",
        "the device has no traps",
        profile=replace(ABLE, supports_trap_propagation=False),
    ),
]
