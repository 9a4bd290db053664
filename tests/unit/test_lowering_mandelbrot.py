"""How many instructions a loop with a condition of two parts takes: Mandelbrot's set, the figures of docs/lowering.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from spirv_machine import decoded

from vyre_driver import SpirvModule
from vyre_driver.ir import (
    BufferDecl,
    DataType,
    Program,
    assign,
    cast,
    f32,
    gid_x,
    gid_y,
    if_,
    let,
    load,
    store,
    u32,
    var,
)
from vyre_driver.ir.builders import forever
from vyre_driver.lowering.emit.target import FLUSH, LoweringTarget
from vyre_driver.spirv.opcodes import Ins

if TYPE_CHECKING:
    from conftest import Lower

U32, F32 = DataType.U32, DataType.F32
TEXT = """
#version 450
layout(local_size_x = 8, local_size_y = 8) in;
layout(binding = 0) writeonly buffer Turns { uint turns[]; };
layout(push_constant) uniform Push { uint width; uint height; uint most; float left; float top; float step; };
void main() {
    uint x = gl_GlobalInvocationID.x, y = gl_GlobalInvocationID.y;
    if (x < width && y < height) {
        precise float cr = left + float(x) * step, ci = top + float(y) * step, zr = 0.0, zi = 0.0, next;
        uint n = 0u;
        while (n < most && zr * zr + zi * zi < 4.0) {
            next = zr * zr - zi * zi + cr;
            zi = 2.0 * zr * zi + ci;
            zr = next;
            n++;
        }
        uint place = y * width + x;
        if (place < turns.length()) turns[place] = n;
    }
}
"""


def mandelbrot() -> Program:
    """The program of the text above."""
    pushed = [("width", U32), ("height", U32), ("most", U32), ("left", F32), ("top", F32), ("step", F32)]
    buffers = [BufferDecl.push(name, place, dtype) for place, (name, dtype) in enumerate(pushed, 1)]
    width, height, most, left, top, step = (load(one, 0) for one in buffers)
    turns = BufferDecl.read_write("turns", 0, U32)
    x, y, n = gid_x(), gid_y(), var("n", U32)
    cr, ci, zr, zi, following = (var(name, F32) for name in ("cr", "ci", "zr", "zi", "following"))
    turn = [
        let(following, zr * zr - zi * zi + cr),
        assign(zi, 2.0 * zr * zi + ci),
        assign(zr, following),
        assign(n, n + 1),
    ]
    inside = [
        let(cr, left + cast(F32, x) * step),
        let(ci, top + cast(F32, y) * step),
        *(let(zr, f32(0.0)), let(zi, f32(0.0)), let(n, u32(0))),
        forever([if_((n < most).and_(zr * zr + zi * zi < 4.0), turn)]),
        store(turns, y * width + x, n),
    ]
    return Program.wrapped([turns, *buffers], (8, 8, 1), [if_((x < width).and_(y < height), inside)])


def instructions(code: bytes) -> int:
    """How many instructions the functions have, without labels."""
    opcodes = [opcode for opcode, _ in decoded(code)]
    return sum(opcode != Ins.Label for opcode in opcodes[opcodes.index(Ins.Function) :])


TARGETS = {
    "flushing itself": (LoweringTarget(frozenset({FLUSH})), 72),
    "with floats of its own": (LoweringTarget(strict=False), 72),
    "without bounds checks": (LoweringTarget(frozenset({FLUSH}), checks=False), 66),
    "flushing by bits": (LoweringTarget(), 168),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_device_gets_as_many_instructions_as_the_documents_say(lower: Lower, name: str) -> None:
    target, wanted = TARGETS[name]
    assert instructions(lower(mandelbrot(), target=target).code) == wanted
    document = (Path(__file__).parents[2] / "docs" / "lowering.md").read_text("utf-8")
    (told,) = [part for part in document.split("\n\n") if part.startswith("Mandelbrot")]
    assert str(wanted) in told.split()


def test_glslang_makes_more_of_the_same_kernel() -> None:
    """How many depends on its version: 117 of the one that was asked."""
    assert instructions(SpirvModule.from_glsl(TEXT).code) > max(
        wanted for name, (_, wanted) in TARGETS.items() if "bits" not in name
    )
