"""Words that are no whole module, and texts in them, refused at their place."""

from __future__ import annotations

import pytest
from assembler import BASE, assemble, byte_swapped, invalid, op, reflect, text
from literals import refusal

from vyre_driver.spirv.module import SpirvModule


def test_a_good_module_keeps_its_bytes() -> None:
    assert SpirvModule.from_bytes(assemble(), name="mine").code == assemble()


def test_a_byte_swapped_module_is_kept_in_host_order() -> None:
    assert SpirvModule.from_bytes(byte_swapped(assemble())) == SpirvModule.from_bytes(assemble())


def test_the_version_is_read_from_the_header() -> None:
    assert SpirvModule.from_bytes(assemble(version=0x0001_0600)).reflection.version == (1, 6)


FRAMING = {
    "it is empty": b"",
    "it has 1 bytes, which is not a multiple of 4": b"\0",
    "it has 23 bytes, which is not a multiple of 4": assemble()[:23],
    "it ends inside its five-word header": assemble()[:16],
    "its first word is not the SPIR-V magic number 0x07230203": b"\x7fELF" + assemble()[4:],
    "word 5 begins an instruction of length 0": assemble({"bad": [0]}),
    "the instruction at word 7 runs past the end": assemble({"good": op(17, 1), "bad": [3 << 16 | 17, 1]}),
    "word 11 begins a function inside a function": assemble({"one": op(54, 1, 3, 0, 2), "label": [1 << 16], "two": op(54)}),
    "word 7 ends a function that never began": assemble({"good": op(17, 1), "end": op(56)}),
    "its last function has no end, so the module was cut off": assemble(BASE | {"end": op()}),
    "the OpTypeFloat at word 46 makes %100, and its ids end before %100": assemble(BASE | {"float": op(22, 100, 32)}),
    "the OpVariable at word 63 makes %0, and its ids end before %100": assemble(BASE | {"variable": op(59, 8, 0, 12)}),
    "its id bound is 0, not between 1 and 4194303": assemble(bound=0),
    "its id bound is 4194304, not between 1 and 4194303": assemble(bound=0x40_0000),
    "entry point 'main' is function %77, which is not there": assemble(BASE | {"entry point": op(15, 5, 77, *text("main"))}),
    "it has no compute entry point": assemble(BASE | {"entry point": op()}),
}


@pytest.mark.parametrize("problem", FRAMING)
def test_bytes_that_are_no_whole_module_are_refused(problem: str) -> None:
    assert refusal(lambda: SpirvModule.from_bytes(FRAMING[problem])) == invalid(problem)


def test_the_highest_id_bound_is_accepted() -> None:
    assert SpirvModule.from_bytes(assemble(bound=0x3F_FFFF)).reflection == reflect()


def test_a_broken_module_in_the_other_byte_order_is_refused_for_what_is_broken() -> None:
    broken = byte_swapped(assemble({"bad": [0]}))
    assert refusal(lambda: SpirvModule.from_bytes(broken)) == invalid("word 5 begins an instruction of length 0")


# Opcode -> name and the operands it has at least, counted in SPIR-V 1.6, 3.42 (result type and result id are operands).
SHORTEST = {
    5: ("Name", 2),
    6: ("MemberName", 3),
    10: ("Extension", 1),
    15: ("EntryPoint", 3),
    16: ("ExecutionMode", 2),
    17: ("Capability", 1),
    21: ("TypeInt", 3),
    22: ("TypeFloat", 2),
    23: ("TypeVector", 3),
    24: ("TypeMatrix", 3),
    28: ("TypeArray", 3),
    29: ("TypeRuntimeArray", 2),
    30: ("TypeStruct", 1),
    32: ("TypePointer", 3),
    41: ("ConstantTrue", 2),
    42: ("ConstantFalse", 2),
    43: ("Constant", 3),
    44: ("ConstantComposite", 2),
    48: ("SpecConstantTrue", 2),
    49: ("SpecConstantFalse", 2),
    50: ("SpecConstant", 3),
    51: ("SpecConstantComposite", 2),
    52: ("SpecConstantOp", 3),
    59: ("Variable", 3),
    71: ("Decorate", 2),
    72: ("MemberDecorate", 3),
    74: ("GroupDecorate", 1),
    331: ("ExecutionModeId", 2),
}


@pytest.mark.parametrize("opcode", SHORTEST)
def test_an_instruction_with_too_few_operands_is_refused_at_its_word(opcode: int) -> None:
    name, shortest = SHORTEST[opcode]
    for count in range(shortest):
        problem = f"the Op{name} at word 7 has {count} operands, not {shortest} or more"
        assert refusal(lambda count=count: reflect(first=[*op(17, 1), *op(opcode, *[1] * count)])) == invalid(problem)


TEXTS = {
    "a name": op(5, 20, 0x6161_6161),
    "a member's name": op(6, 20, 0, 0x6161_6161),
    "an extension": op(10, 0x6161_6161, 0x6161_6161),
    "an entry point": op(15, 5, 3, 0x6E69_616D),
}


@pytest.mark.parametrize("where", TEXTS)
def test_a_text_without_an_end_is_refused(where: str) -> None:
    assert refusal(lambda: reflect(decorations=TEXTS[where])) == invalid("a text in it has no end")


def test_a_name_that_is_no_utf_8_is_read_with_replacement_characters() -> None:
    assert reflect(decorations=op(5, 9, 0x00FF_7978)).buffers[0].name == "xy\N{REPLACEMENT CHARACTER}"
