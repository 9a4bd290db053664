"""Numbers that specialization constants decide: each operation beside Python's meaning of it, and what modules make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from assembler import BASE, assemble, op
from kernels import glsl
from literals import LIMITS, reflection, refusal

from vyre_driver.binding.grid import check_shared_memory, local_size
from vyre_driver.errors import InvalidModule, InvalidSpecialization, LimitExceeded
from vyre_driver.specialization import specialize
from vyre_driver.spirv.interface import LocalSize
from vyre_driver.spirv.module import SpirvModule

if TYPE_CHECKING:
    from vyre_driver.spirv.reflection import Reflection

# Ids: 20 and 21 specialization constants 0 and 1 (u32, 7 and 3), 22 what is computed, 23 int, 24 bool, 25 constant 2, 26 ulong.
HEAD = [
    *op(21, 23, 32, 1),
    *op(20, 24),
    *op(21, 26, 64, 0),
    *op(50, 10, 20, 7),
    *op(50, 10, 21, 3),
    *op(43, 10, 25, 2),
]
IDS = [*op(71, 20, 1, 0), *op(71, 21, 1, 1)]
LESS, MORE = 0xFFFF_FFF9, 0xFFFF_FFFD  # -7 and -3

BINARY = {
    128: {(7, 3): 10, (0xFFFF_FFFF, 2): 1},
    130: {(7, 3): 4, (3, 7): 0xFFFF_FFFC},
    132: {(7, 3): 21, (0x8000_0001, 2): 2},
    134: {(7, 3): 2, (LESS, 2): 0x7FFF_FFFC, (7, 0): 0},
    135: {(7, 3): 2, (LESS, 2): MORE, (7, MORE): 0xFFFF_FFFE, (LESS, MORE): 2, (7, 0): 0},
    137: {(7, 3): 1, (7, 0): 0},
    138: {(7, 3): 1, (LESS, 3): 0xFFFF_FFFF, (7, MORE): 1, (7, 0): 7},
    139: {(7, 3): 1, (LESS, 3): 2, (7, MORE): 0xFFFF_FFFE, (7, 0): 0},
    194: {(0x8000_0000, 31): 1, (7, 32): 0},
    195: {(0x8000_0000, 31): 0xFFFF_FFFF, (7, 1): 3, (7, 32): 0},
    196: {(3, 31): 0x8000_0000, (7, 32): 0},
    197: {(5, 3): 7},
    198: {(5, 3): 6},
    199: {(5, 3): 1},
}
COMPARED = {
    170: {(7, 3): 0, (3, 3): 1},
    171: {(7, 3): 1, (3, 3): 0},
    172: {(LESS, 3): 1, (3, 3): 0},
    173: {(LESS, 3): 0, (7, 3): 1},
    174: {(LESS, 3): 1, (3, 3): 1, (2, 3): 0},
    175: {(LESS, 3): 0, (3, 3): 1},
    176: {(LESS, 3): 0, (2, 3): 1},
    177: {(LESS, 3): 1, (3, 3): 0},
    178: {(LESS, 3): 0, (3, 3): 1},
    179: {(LESS, 3): 1, (3, 3): 1, (7, 3): 0},
}


def contract(*declarations: int, local: list[int] | None = None) -> Reflection:
    """A module with constants, whose workgroup has %22 x 1 x 1 invocations unless it says something else."""
    parts = {
        "local size": local or op(331, 3, 38, 22, 27, 27),
        "decorations": IDS,
        "declarations": [*HEAD, *op(43, 10, 27, 1), *declarations],
    }
    return SpirvModule.from_bytes(assemble(BASE | parts)).reflection


def given(a: int, b: int, *computed: int) -> int:
    formula = contract(*computed).local_size[0].formula
    assert formula is not None
    return formula.value((a, b))


@pytest.mark.parametrize(("opcode", "numbers", "result"), [(op, *one) for op, cases in BINARY.items() for one in cases.items()])
def test_an_operation_on_two_numbers_gives(opcode: int, numbers: tuple[int, int], result: int) -> None:
    assert given(*numbers, *op(52, 10, 22, opcode, 20, 21)) == result


@pytest.mark.parametrize(
    ("opcode", "numbers", "result"), [(op, *one) for op, cases in COMPARED.items() for one in cases.items()]
)
def test_a_comparison_selects(opcode: int, numbers: tuple[int, int], result: int) -> None:
    computed = [*op(52, 24, 30, opcode, 20, 21), *op(52, 10, 22, 169, 30, 25, 27)]
    assert given(*numbers, *computed) == (2 if result else 1)


@pytest.mark.parametrize(("opcode", "results"), [(164, "2112"), (165, "1221"), (166, "1222"), (167, "1112")])
def test_truth_values_are_combined(opcode: int, results: str) -> None:
    truths = [word for at in (0, 1) for word in op(52, 24, 30 + at, 172, 20 + at, 27)]
    computed = [*truths, *op(52, 24, 32, opcode, 30, 31), *op(52, 10, 22, 169, 32, 25, 27)]
    assert "".join(str(given(a, b, *computed)) for a in (0, 2) for b in (0, 2)) == results


@pytest.mark.parametrize(
    ("computed", "a", "result"),
    [
        (op(52, 10, 22, 126, 20), 7, LESS),
        (op(52, 10, 22, 200, 20), 7, 0xFFFF_FFF8),
        ([*op(52, 24, 30, 172, 20, 27), *op(52, 24, 31, 168, 30), *op(52, 10, 22, 169, 31, 25, 27)], 7, 1),
        ([*op(52, 26, 30, 113, 20), *op(52, 26, 31, 132, 30, 30), *op(52, 10, 22, 113, 31)], 1 << 17, 0),
        ([*op(52, 26, 30, 113, 20), *op(52, 26, 31, 134, 30, 30), *op(52, 10, 22, 113, 31)], LESS, 1),
        (
            [*op(43, 10, 31, 32), *op(52, 26, 30, 114, 20), *op(52, 26, 32, 194, 30, 31), *op(52, 10, 22, 113, 32)],
            LESS,
            2**32 - 1,
        ),
        ([*op(23, 90, 10, 2), *op(51, 90, 30, 21, 20), *op(52, 10, 22, 81, 30, 1)], 9, 9),
    ],
    ids=["negative", "complement", "not", "widened", "widened and divided", "sign", "part of a composite"],
)
def test_an_operation_on_one_number_gives(computed: list[int], a: int, result: int) -> None:
    assert given(a, 3, *computed) == result


def test_a_number_that_no_constant_decides_is_one() -> None:
    assert contract(*op(52, 10, 22, 128, 25, 25)).local_size == (LocalSize(4), LocalSize(1), LocalSize(1))


def test_a_workgroup_follows_the_constants_and_is_held_to_the_limits() -> None:
    found = contract(*op(52, 10, 22, 132, 20, 21))
    assert [local_size(found, specialize(found.spec_constants, given), LIMITS) for given in ({}, {"constant_1": 5})] == [
        (21, 1, 1),
        (35, 1, 1),
    ]
    many = specialize(found.spec_constants, {"constant_0": 1025, "constant_1": 1})
    kind, _, message = refusal(lambda: local_size(found, many, LIMITS))
    assert (
        kind,
        message.startswith("the shader's workgroup has 1025 invocations along x, and the device allows 1 to 1024."),
    ) == (
        LimitExceeded,
        True,
    )


@pytest.mark.parametrize("computed", [op(52, 10, 22, 109, 20), op(52, 10, 22, 128, 22, 20), op(52, 5, 22, 128, 20, 21)])
def test_a_workgroup_that_does_not_follow_from_whole_numbers_is_refused(computed: list[int]) -> None:
    kind, _, message = refusal(lambda: contract(*computed))
    assert (kind, "%22 is used as a number and is not a scalar constant" in message) == (InvalidModule, True)


def test_a_workgroup_size_that_is_computed_as_a_whole_is_refused() -> None:
    declarations = [*HEAD, *op(23, 28, 10, 3), *op(51, 28, 29, 20, 20, 20), *op(52, 28, 22, 128, 29, 29)]
    parts = {"decorations": [*IDS, *op(71, 22, 11, 25)], "declarations": declarations}
    kind, _, message = refusal(lambda: SpirvModule.from_bytes(assemble(BASE | parts)))
    assert (kind, "its workgroup size %22 is computed as a whole" in message) == (InvalidModule, True)


def test_doublings_of_doublings_end() -> None:
    chain = [word for at in range(60) for word in op(52, 10, 30 + at, 128, *[29 + at if at else 20] * 2)]
    found = contract(*chain, *op(52, 10, 22, 196, 89, 27))
    formula = found.local_size[0].formula
    assert formula is not None
    assert (len(formula.steps), formula.value((1,))) == (63, 0)


SIZED = """#version 450
layout(local_size_x = 64) in;
layout(constant_id = 3) const uint N = 8u;
layout(constant_id = 4) const int M = 2;
struct Pair { vec3 a; float b[N]; };
shared float plain[16];
shared vec3 corners[N];
shared Pair pairs[M * 2 + 1];
shared uint tile[N / 3u + (N >> 1)][3];
layout(binding = 0) buffer Y { float y[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    plain[0] = 1.0; corners[0] = vec3(1); pairs[0].a = vec3(y[i]); tile[0][1] = 2u; barrier();
    y[i] = pairs[0].a.x + corners[0].x + plain[0] + float(tile[0][1]);
}
"""


@pytest.fixture(scope="module")
def sized() -> Reflection:
    return glsl(SIZED).reflection


def shared(found: Reflection, **specs: object) -> dict[str, int]:
    words = specialize(found.spec_constants, specs).words
    return {one.name: one.formula.value(words) for one in found.sized_shared if one.formula is not None}


@pytest.mark.parametrize(
    ("specs", "pairs", "tile", "corners"),
    [({}, 5 * 48, 6 * 12, 128), ({"N": 3}, 5 * 32, 2 * 12, 48), ({"N": 100, "M": 0}, 416, 83 * 12, 1600)],
)
def test_shared_memory_follows_the_constants(
    sized: Reflection, specs: dict[str, object], pairs: int, tile: int, corners: int
) -> None:
    assert (sized.shared_bytes, shared(sized, **specs)) == (64, {"pairs": pairs, "tile": tile, "corners": corners})


def test_shared_memory_over_the_limit_is_refused_with_the_largest_variable(sized: Reflection) -> None:
    specialization = specialize(sized.spec_constants, {"N": 2000})
    expected = 64 + 5 * 8016 + (666 + 1000) * 12 + 32000
    message = (
        f"the shader's workgroups share {expected} bytes with these constants, 40080 of them in 'pairs', and the device allows "
        "32768 bytes. Fix: give smaller constants."
    )
    assert refusal(lambda: check_shared_memory(sized, specialization, LIMITS)) == (LimitExceeded, 2104, message)


@pytest.mark.parametrize(("specs", "variable"), [({"N": 0}, "corners"), ({"N": 1}, "tile")])
def test_shared_memory_without_elements_is_refused(sized: Reflection, specs: dict[str, object], variable: str) -> None:
    message = (
        f"the specialization constants give shared variable {variable!r} 0 bytes. "
        "Fix: give constants that leave its arrays one element or more."
    )
    specialization = specialize(sized.spec_constants, specs)
    assert refusal(lambda: check_shared_memory(sized, specialization, LIMITS)) == (InvalidSpecialization, 2102, message)


def test_a_negative_length_is_a_large_one(sized: Reflection) -> None:
    kind, *_ = refusal(lambda: check_shared_memory(sized, specialize(sized.spec_constants, {"M": -3}), LIMITS))
    assert kind is LimitExceeded


def test_without_sized_variables_nothing_is_refused_here() -> None:
    found = reflection(shared_bytes=1 << 20)
    check_shared_memory(found, specialize((), {}), LIMITS)
