"""Modules that say whether one of their loops was cut: valid, with one buffer and its additions more."""

from __future__ import annotations

import array

import pytest
from kernels import glsl
from spirv_machine import decoded

from vyre_driver.errors import InvalidModule
from vyre_driver.spirv.loop_balance import has_loops, with_balance
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.opcodes import Ins
from vyre_driver.spirv.shipped import shipped_module, shipped_names
from vyre_driver.spirv.validator import check_valid
from vyre_driver.vulkan.version import API_1_2

HEAD = "#version 450\nlayout(binding = 0) buffer Made { int made[]; };\n"
LOOPED = sorted(name for name in shipped_names() if has_loops(shipped_module(name).code))


def opcodes(code: bytes) -> list[int]:
    return [opcode for opcode, _ in decoded(code)]


@pytest.mark.parametrize("name", LOOPED)
def test_included_shaders_with_loops_are_valid_with_the_additions(name: str) -> None:
    module = shipped_module(name)
    watched = with_balance(module.code, len(module.interface.resources), name)
    check_valid(watched, module.reflection.capabilities, API_1_2, name)
    again = SpirvModule.from_bytes(watched)
    assert len(again.interface.resources) == len(module.interface.resources) + 1
    assert again.interface.entry_points == module.interface.entry_points


def test_a_branch_to_a_block_that_is_not_there_is_refused() -> None:
    words = array.array("I", glsl(HEAD + "void main() { while (made[0] > 1) made[0] /= 2; }").code)
    places = [at for at, word in enumerate(words) if word == 2 << 16 | Ins.Branch]
    words[places[-1] + 1] = words[3]
    with pytest.raises(InvalidModule) as raised:
        with_balance(words.tobytes(), 1, "it.spv")
    assert str(raised.value) == (
        "it.spv has a loop in a function that does not consist of blocks, and cannot be watched for loops that the driver "
        "ends. Fix: see what spirv-val says of it, or leave strict out."
    )


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("void main() { if (made[0] > 1) made[1] = 2; }", False),
        ("void main() { while (made[0] > 1) made[0] /= 2; }", True),
        ("int f(int n) { int t = 0; for (int k = 0; k < n; k++) t += k; return t; }\nvoid main() { made[0] = f(9); }", True),
    ],
)
def test_shaders_with_and_without_loops_are_told_apart(text: str, has: bool) -> None:  # noqa: FBT001 -- what is expected
    assert has_loops(glsl(HEAD + text).code) is has


@pytest.mark.parametrize(
    ("body", "additions"),
    [
        ("for (int k = 0; k < made[1]; k++) made[0] += k;", 2),
        ("for (;;) { if (made[0] == made[1]) return; made[0] += 1; }", 2),
        ("for (int k = 0; k < made[1]; k++) { if (k == made[2]) break; if (k == made[3]) return; made[0] += k; }", 4),
        ("do made[0] += 1; while (made[0] < made[1]);", 2),
    ],
)
def test_each_way_into_a_loop_and_out_of_it_has_an_addition_and_no_turn_has(body: str, additions: int) -> None:
    code = glsl(f"{HEAD}void main() {{ {body} }}").code
    assert opcodes(with_balance(code, 1, "it")).count(Ins.AtomicIAdd) == additions
