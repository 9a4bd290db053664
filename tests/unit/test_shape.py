"""The structural check: what drivers die of is refused by the instruction's place, and nothing that SPIR-V allows is."""

from __future__ import annotations

import array
from typing import TYPE_CHECKING

import pytest
from assembler import BASE, assemble, op, text
from literals import refusal
from mutations import complaint, faulty_mutants
from spirv_corpus import modules

from vyre_driver.errors import InvalidModule
from vyre_driver.spirv import _shape
from vyre_driver.spirv.module import SpirvModule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Beside BASE's ids: 20 and 21 are constants, 22 a pointer to a float, 23 another function's type, 24 to 26 that function.
CONSTANTS = [*op(43, 10, 20, 0), *op(43, 5, 21, 0x3F80_0000), *op(32, 22, 12, 5), *op(33, 23, 5, 5)]
OTHER = [*op(54, 5, 24, 0, 23), *op(55, 5, 25), *op(248, 26), *op(254, 25), *op(56)]
CHAIN, LOAD = op(65, 22, 30, 9, 20, 20), op(61, 5, 31, 30)
SOUND = [*CHAIN, *LOAD, *op(129, 5, 32, 31, 21), *op(62, 30, 32), *op(57, 5, 33, 24, 32)]


def with_body(body: Sequence[int], **changes: list[int]) -> bytes:
    """BASE with constants, a second function, and this body before the return."""
    parts = {name.replace("_", " "): words for name, words in changes.items()}
    made = {"declarations": CONSTANTS, "label": [*op(248, 4), *body], "end": [*op(56), *OTHER]} | parts
    return assemble(BASE | made)


def refused(code: bytes) -> str:
    """The problem that a module is refused for, without what every message has, and without the places of words."""
    kind, number, message = refusal(lambda: SpirvModule.from_bytes(code))
    assert (kind, number) == (InvalidModule, 2101)
    head, tail = (
        "<bytes> is not a valid SPIR-V module: ",
        ". Fix: rebuild the shader with its compiler and pass the whole .spv file.",
    )
    assert message.startswith(head)
    assert message.endswith(tail)
    return message[len(head) : -len(tail)]


def place_of(code: bytes, opcode: int, which: int = 0) -> int:
    """The word at which the instruction of this opcode begins, the first or a later one."""
    words, at, found = array.array("I", code), 5, []
    while at < len(words):
        if words[at] & 0xFFFF == opcode:
            found.append(at)
        at += words[at] >> 16
    return found[which]


FAULTS: dict[str, tuple[bytes, int, int, str]] = {
    "too few operands": (with_body([*CHAIN, *op(61, 5, 31)]), 61, 0, "has too few operands"),
    "too many operands": (with_body(op(126, 10, 31, 20, 20)), 126, 0, "has too many operands"),
    "an id over the bound": (with_body(op(126, 10, 100, 20)), 126, 0, "makes %100, and its ids end before %100"),
    "an id made twice": (with_body([*CHAIN, *CHAIN]), 65, 1, "makes %30, which another instruction makes too"),
    "an id that nothing makes": (with_body(op(126, 10, 31, 77)), 126, 0, "uses %77, which nothing defines"),
    "a value for a type": (with_body(op(126, 20, 31, 20)), 126, 0, "uses %20 as a type, and it is none"),
    "a type for a value": (with_body(op(126, 10, 31, 10)), 126, 0, "uses %10 as a value, and it is none"),
    "a label for a value": (with_body(op(126, 10, 31, 4)), 126, 0, "uses %4 as a value, and it is none"),
    "a call of no function": (with_body(op(57, 5, 31, 20, 21)), 57, 0, "calls %20, which is not a function"),
    "a branch to another function": (
        with_body([], **{"return": op(249, 26)}),
        249,
        0,
        "goes to %26, which is not a label of its function",
    ),
    "a branch to a value": (
        with_body([], **{"return": op(249, 20)}),
        249,
        0,
        "goes to %20, which is not a label of its function",
    ),
    "a type in a function": (with_body(op(21, 40, 32, 1)), 21, 1, "declares something of the module, and stands in a function"),
    "code between functions": (with_body([], end=[*op(56), *op(126, 10, 31, 20), *OTHER]), 126, 0, "stands outside a function"),
    "code after a return": (with_body([*op(253), *CHAIN]), 65, 0, "stands outside a block"),
    "code before the first label": (with_body([], label=[*CHAIN, *op(248, 4)]), 65, 0, "stands outside a block"),
    "a parameter in a block": (with_body(op(55, 5, 31)), 55, 0, "stands outside a block"),
    "a block without an end": (
        with_body([], **{"return": op()}),
        56,
        0,
        "comes before the block it stands in has ended with a branch or return",
    ),
    "a label in a block": (
        with_body(op(248, 40)),
        248,
        1,
        "comes before the block it stands in has ended with a branch or return",
    ),
    "a value of another function": (with_body(op(127, 5, 31, 25)), 127, 0, "uses %25, which another function defines"),
    "a function without a block": (
        with_body([], end=[*op(56), *op(54, 1, 40, 0, 2), *op(56)]),
        56,
        1,
        "ends a function that has no block",
    ),
    "an opcode that is none": (with_body(op(0x4000, 5)), 0x4000, 0, "is none that SPIR-V has"),
    "a parameter of another type": (
        with_body([], end=[*op(56), *op(54, 5, 24, 0, 23), *op(55, 10, 25), *op(248, 26), *op(254, 21), *op(56)]),
        54,
        1,
        "begins a function that does not have the parameters of its type",
    ),
    "a parameter too few": (
        with_body([], end=[*op(56), *op(54, 5, 24, 0, 23), *op(248, 26), *op(254, 21), *op(56)]),
        54,
        1,
        "begins a function that does not have the parameters of its type",
    ),
}
FLOATS = [*op(23, 40, 5, 3), *op(43, 40, 41, 0), *op(43, 40, 42, 0, 0)]
TYPES: dict[str, tuple[bytes, int, int]] = {
    "a chain through a number": (with_body(op(65, 22, 30, 9, 20, 20, 20)), 65, 0),
    "a chain that ends elsewhere": (with_body(op(65, 22, 30, 9, 20)), 65, 0),
    "a chain by a float": (with_body(op(65, 22, 30, 9, 20, 21)), 65, 0),
    "a chain to a member that is not there": (
        with_body(op(65, 22, 30, 9, 34, 20), declarations=[*CONSTANTS, *op(43, 10, 34, 1)]),
        65,
        0,
    ),
    "a chain of a value": (with_body(op(65, 22, 30, 20, 20, 20)), 65, 0),
    "a chain by elements without the capability": (with_body([*CHAIN, *op(67, 22, 31, 30, 20)]), 67, 0),
    "a load of a value": (with_body(op(61, 5, 31, 21)), 61, 0),
    "a load of another type": (with_body([*CHAIN, *op(61, 10, 31, 30)]), 61, 0),
    "a store of another type": (with_body([*CHAIN, *op(62, 30, 20)]), 62, 0),
    "integers added as floats": (with_body(op(129, 5, 31, 20, 20)), 129, 0),
    "a sum of floats that is whole": (with_body(op(129, 10, 31, 21, 21)), 129, 0),
    "floats compared as integers": (with_body(op(170, 41, 31, 21, 21), declarations=[*CONSTANTS, *op(20, 41)]), 170, 0),
    "a comparison that is a number": (with_body(op(170, 10, 31, 20, 20)), 170, 0),
    "an atomic on a float": (with_body([*CHAIN, *op(234, 5, 31, 30, 20, 20, 21)]), 234, 0),
    "an atomic on another type": (with_body([*CHAIN, *op(234, 10, 31, 30, 20, 20, 20)]), 234, 0),
    "a call with too few arguments": (with_body(op(57, 5, 31, 24)), 57, 0),
    "a call with an argument of another type": (with_body(op(57, 5, 31, 24, 20)), 57, 0),
    "a call that gives another type": (with_body(op(57, 10, 31, 24, 21)), 57, 0),
    "a constant with too many words": (with_body([], declarations=[*CONSTANTS, *op(43, 10, 40, 0, 0)]), 43, 2),
    "a constant of no number": (with_body([], declarations=[*CONSTANTS, *op(43, 6, 40, 0)]), 43, 2),
    "a vector of too few parts": (with_body([], declarations=[*CONSTANTS, *op(23, 40, 5, 3), *op(44, 40, 41, 21)]), 44, 0),
    "a truth value that is a number": (with_body([], declarations=[*CONSTANTS, *op(41, 10, 40)]), 41, 0),
    "an array as long as a float's type": (
        with_body([], declarations=[*CONSTANTS, *op(41, 42, 40), *op(20, 42), *op(28, 41, 5, 40)]),
        28,
        0,
    ),
    "a variable of another storage class": (with_body([], declarations=[*CONSTANTS, *op(59, 8, 40, 6)]), 59, 1),
    "a function that gives another type": (
        with_body([], end=[*op(56), *op(54, 10, 24, 0, 23), *op(55, 5, 25), *op(248, 26), *op(254, 20), *op(56)]),
        54,
        1,
    ),
    "an entry point that gives something": (
        with_body([], entry_point=op(15, 5, 24, *text("main")), local_size=op(16, 24, 17, 1, 1, 1)),
        15,
        0,
    ),
    "a switch on a float": (with_body([], **{"return": [*op(247, 40, 0), *op(251, 21, 40), *op(248, 40), *op(253)]}), 251, 0),
    "a switch to a value": (
        with_body([], **{"return": [*op(247, 40, 0), *op(251, 20, 40, 1, 21), *op(248, 40), *op(253)]}),
        251,
        0,
    ),
    "a product of a vector and no number": (
        with_body(op(142, 40, 31, 41, 20), declarations=[*CONSTANTS, *op(23, 40, 5, 2), *op(44, 40, 41, 21, 21)]),
        142,
        0,
    ),
    "a function of floats for an integer": (
        with_body(op(12, 10, 31, 40, 13, 20), capability=[*op(17, 1), *op(11, 40, *text("GLSL.std.450"))]),
        12,
        0,
    ),
    "a function with an operand too many": (
        with_body(op(12, 5, 31, 40, 13, 21, 21), capability=[*op(17, 1), *op(11, 40, *text("GLSL.std.450"))]),
        12,
        0,
    ),
    "a function that is none": (
        with_body(op(12, 5, 31, 40, 82, 21), capability=[*op(17, 1), *op(11, 40, *text("GLSL.std.450"))]),
        12,
        0,
    ),
}
PROBLEMS: Mapping[str, tuple[bytes, int, int, str]] = FAULTS | {
    kind: (code, opcode, which, "has operands whose types do not fit together") for kind, (code, opcode, which) in TYPES.items()
}
# SPIR-V 1.6, 3.42.9: as many OpFunctionParameter as the type has. spirv-val 2023.1 counts none.
VALIDATOR_IS_SILENT = {"a parameter too few"}


SHADER_INFO, OPENCL_INFO, OTHER_INFO = "NonSemantic.Shader.DebugInfo.100", "OpenCL.DebugInfo.100", "NonSemantic.Other"
PLACES = ("between blocks", "behind the last block")
DEBUG_NO_SCOPE, DEBUG_NO_LINE, DEBUG_SOURCE = 24, 104, 35


def with_debug_info(place: str, set_name: str, number: int, *operands: int) -> bytes:
    """A module with an instruction of debug information at a place outside blocks; 40 is its set, 41 a DebugInfoNone."""
    extension = op(10, *text("SPV_KHR_non_semantic_info")) if set_name.startswith("NonSemantic") else []
    inserted = op(12, 1, 42, 40, number, *operands)
    ends = {
        "between blocks": [*op(249, 43), *inserted, *op(248, 43), *op(253)],
        "behind the last block": [*op(253), *inserted],
    }
    return with_body(
        [],
        capability=[*op(17, 1), *extension, *op(11, 40, *text(set_name))],
        declarations=[*CONSTANTS, *op(12, 1, 41, 40, 0)],
        **{"return": ends[place]},
    )


def test_a_sound_body_is_accepted() -> None:
    code = with_body(SOUND)
    assert (_shape.check(code), complaint(code)) == ((0, 0, 0), "")


@pytest.mark.parametrize("kind", PROBLEMS)
def test_it_is_refused_by_its_place_when_there_is(kind: str) -> None:
    code, opcode, which, problem = PROBLEMS[kind]
    assert refused(code) == f"the instruction at word {place_of(code, opcode, which)} (opcode {opcode}) {problem}"


@pytest.mark.parametrize("kind", sorted(PROBLEMS.keys() - VALIDATOR_IS_SILENT))
def test_spirv_val_refuses_too(kind: str) -> None:
    assert complaint(PROBLEMS[kind][0]) != ""


def test_every_fault_is_tried() -> None:
    tried = {_shape.check(code)[0] for code, *_ in PROBLEMS.values()}
    assert tried == set(range(1, len(_shape.FAULTS)))


@pytest.fixture(scope="module")
def real() -> list[bytes]:
    """Real modules, compiled once; `make stress` takes those with more debugging information, and less."""
    return modules(debug_levels=[()])


def test_real_modules_are_accepted(real: list[bytes]) -> None:
    assert [_shape.check(code) for code in real] == [(0, 0, 0)] * len(real)


def test_spirv_val_refuses_what_is_refused_of_mutated_modules(real: list[bytes]) -> None:
    faulty = faulty_mutants(real, count=100, seed=1)
    assert [code.hex() for code in faulty if not complaint(code)] == []
    assert len(faulty) > 30


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("set_name", "number", "operands"),
    [
        (SHADER_INFO, DEBUG_NO_SCOPE, ()),
        (SHADER_INFO, DEBUG_NO_LINE, ()),
        (OPENCL_INFO, DEBUG_NO_SCOPE, ()),
    ],
)
def test_debug_information_may_stand_outside_blocks(place: str, set_name: str, number: int, operands: tuple[int, ...]) -> None:
    code = with_debug_info(place, set_name, number, *operands)
    assert (_shape.check(code), complaint(code)) == ((0, 0, 0), "")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("set_name", "number", "operands"),
    [
        (OTHER_INFO, DEBUG_NO_SCOPE, ()),
        (SHADER_INFO[:-1], DEBUG_NO_SCOPE, ()),
        ("NonSemantic.DebugPrintf", 1, (41,)),
        (SHADER_INFO, DEBUG_SOURCE, (41,)),
        (OPENCL_INFO, DEBUG_NO_LINE, ()),
        ("GLSL.std.450", 13, (21,)),
    ],
)
def test_other_extended_instructions_may_not(place: str, set_name: str, number: int, operands: tuple[int, ...]) -> None:
    code = with_debug_info(place, set_name, number, *operands)
    assert refused(code) == f"the instruction at word {place_of(code, 12, 1)} (opcode 12) stands outside a block"
    assert complaint(code) != ""


@pytest.mark.parametrize("version", ["101", "102", "999", "1000", "4294967396"])
def test_later_versions_of_the_set_are_read_as_the_first(version: str) -> None:
    code = with_debug_info(PLACES[0], SHADER_INFO[:-3] + version, DEBUG_NO_LINE)
    assert _shape.check(code) == (0, 0, 0)


@pytest.mark.parametrize("version", ["", "1", "99", "010", "0100", "10x", "100.1", "100 ", "-100"])
def test_what_is_no_version_of_the_set_is_another_set(version: str) -> None:
    code = with_debug_info(PLACES[0], SHADER_INFO[:-3] + version, DEBUG_NO_LINE)
    assert refused(code) == f"the instruction at word {place_of(code, 12, 1)} (opcode 12) stands outside a block"


def test_debug_information_may_stand_between_a_function_and_its_parameters() -> None:
    info = [*op(17, 1), *op(10, *text("SPV_KHR_non_semantic_info")), *op(11, 40, *text(SHADER_INFO))]
    function = [*op(54, 5, 24, 0, 23), *op(12, 1, 42, 40, DEBUG_NO_SCOPE), *op(55, 5, 25)]
    code = with_body([], capability=info, end=[*op(56), *function, *op(248, 26), *op(254, 25), *op(56)])
    assert (_shape.check(code), complaint(code)) == ((0, 0, 0), "")


def test_what_compilers_make_with_debug_information_and_optimization_is_accepted() -> None:
    optimized = modules(debug_levels=[("-gVS", "-Os"), ("-gVS",), ("-g", "-Os")])
    assert [_shape.check(code) for code in optimized] == [(0, 0, 0)] * len(optimized)
    no_scopes = [code for code in optimized if SHADER_INFO[:-1].encode() in code]  # 102, by newer compilers
    assert no_scopes, "no module has the set for shaders"


@pytest.mark.parametrize("words", [0, 1, 4])
def test_less_than_a_header_is_no_module(words: int) -> None:
    with pytest.raises(ValueError, match=f"a module of {words} words has no header"):
        _shape.check(assemble()[: 4 * words])


def test_an_id_bound_over_the_universal_limit_is_no_module() -> None:
    with pytest.raises(ValueError, match="its id bound is 4194305"):
        _shape.check(assemble(bound=0x400001))
