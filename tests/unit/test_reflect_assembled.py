"""What is read from, and refused in, modules that only an assembler writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from assembler import BASE, assemble, invalid, op, reflect, text, unsupported
from literals import F32, FLOATS, U32, refusal

from vyre_driver.spirv.interface import LocalSize, SpecConstant
from vyre_driver.spirv.layout import Element, Member, Scalar
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.reflection import BufferInterface, Reflection

if TYPE_CHECKING:
    from vyre_driver.spirv.interface import ModuleInterface

# A second buffer of floats, %26 at binding 1, and a push-constant block %31 with one uint.
SECOND_BUFFER = [*op(71, 25, 2), *op(72, 25, 0, 35, 0), *op(71, 26, 34, 0), *op(71, 26, 33, 1)]
SECOND_TYPES = [*op(30, 25, 6), *op(32, 27, 12, 25), *op(59, 27, 26, 12)]
LOAD = op(61, 7, 60, 9)  # names the buffer
PUSH_DECORATIONS = [*op(71, 31, 2), *op(72, 31, 0, 35, 0)]
PUSHED = [*op(30, 31, 34), *op(32, 32, 9, 31), *op(59, 32, 35, 9)]  # a push-constant block with one %34
PUSH_TYPES = [*op(30, 31, 10), *op(32, 32, 9, 31), *op(59, 32, 33, 9)]


def interface(**parts: list[int]) -> ModuleInterface:
    changes = {name.replace("_", " "): words for name, words in parts.items()}
    assert changes.keys() <= BASE.keys()
    return SpirvModule.from_bytes(assemble(BASE | changes)).interface


def test_the_base_of_these_tests_is_a_good_module() -> None:
    assert reflect() == Reflection(
        version=(1, 3),
        capabilities=(1,),
        buffers=(BufferInterface("binding_0", 0, readable=True, writable=True, header_bytes=0, element=FLOATS, count=None),),
        push_constants=(),
        push_constant_bytes=0,
        spec_constants=(),
        local_size=(LocalSize(64), LocalSize(1), LocalSize(1)),
    )


MALFORMED = {
    "variable %9 has a type that is not a pointer": {"pointer": op(30, 8, 5)},
    "%8 is used as a type and is none": {"pointer": op()},
    "%7 is used as a type and is none": {"struct": op()},
    "%6 is used as a type and is none": {"array": op()},
    "%5 is used as a type and is none": {"float": op()},
    "'binding_0' has no descriptor set": {"set": op()},
    "'binding_9' has no binding": {"binding": op()},
    "'late' has no binding": {"binding": op(71, 9, 33), "decorations": op(5, 9, *text("late"))},
    "buffer structure %7 has no members": {"struct": op(30, 7)},
    "member 0 of structure %7 in a buffer has no offset": {"offset": op()},
    "array type %6 in a buffer has no stride": {"stride": op()},
    "type %1 has no size in a buffer": {"struct": op(30, 7, 1)},
    "type %6 has no size in a buffer": {"array": op(25, 6, 5, 1, 0, 0, 0, 2, 0)},
    "type %7 takes 1099511627777 bytes, more than any device has": {
        "uint": [*op(21, 10, 32, 0), *op(43, 10, 20, 256)],
        "array": op(28, 6, 5, 20),
        "stride": op(71, 6, 6, 0xFFFF_FFFF),
        "struct": op(30, 7, 5, 6),
        "offset": [*op(72, 7, 0, 35, 0), *op(72, 7, 1, 35, 257)],
    },
    "%20 is used as a number and is not a scalar constant": {"array": op(28, 6, 5, 20)},
    "%21 is used as a number and is not a scalar constant": {
        "uint": [*op(21, 10, 32, 0), *op(43, 10, 20, 4), *op(44, 10, 21, 20)],
        "array": op(28, 6, 5, 21),
    },
    "type %5 is a number of 8 bits": {"float": op(22, 5, 8)},
    "type %5 is a number of 128 bits": {"float": op(22, 5, 128)},
    "type %5 is a number of 24 bits": {"float": op(21, 5, 24, 0)},
    "type %5 is a number of 0 bits": {"float": op(21, 5, 0, 0)},
    "type %20 has 0 components": {"struct": op(30, 7, 20), "declarations": op(23, 20, 5, 0)},
    "type %20 has 1 components": {"struct": op(30, 7, 20), "declarations": op(24, 20, 5, 1)},
    "type %20 has 17 components": {"struct": op(30, 7, 20), "declarations": op(23, 20, 5, 17)},
    "buffer structure %7 takes no bytes": {"struct": op(30, 7, 20), "declarations": op(30, 20)},
    "%20 is the type of a vector's components and is not a scalar": {
        "struct": op(30, 7, 20),
        "declarations": op(23, 20, 20, 2),
    },
    "matrix type %20 has columns that are not vectors": {"struct": op(30, 7, 20), "declarations": op(24, 20, 5, 2)},
    "variable %9 has a type that no descriptor stands for": {"pointer": op(32, 8, 12, 5)},
    "specialization constant 'many' has no number of its type": {
        "decorations": [*op(71, 20, 1, 0), *op(5, 20, *text("many"))],
        "declarations": op(50, 6, 20, 5),
    },
    "specialization constant 'constant_0' has no number of its type": {
        "decorations": op(71, 20, 1, 0),
        "declarations": [*op(21, 21, 64, 0), *op(50, 21, 20, 5)],
    },
    "two of its compute entry points have one name": {"entry_point": op(15, 5, 3, *text("main")) * 2},
    "it has 1025 compute entry points, more than 1024": {"entry_point": op(15, 5, 3, *text("main")) * 1025},
    "type %20 has no size in workgroup memory": {
        "declarations": [*op(29, 20, 5), *op(32, 21, 4, 20), *op(59, 21, 22, 4)],
    },
    "%20 gives an array no elements": {"array": op(28, 6, 5, 20), "declarations": op(43, 10, 20, 0)},
    "it does not say its workgroup size": {"local size": op()},
    "its push constants are not a structure": {"declarations": [*op(32, 32, 9, 10), *op(59, 32, 33, 9)]},
    "member 0 of structure %31 in a buffer has no offset": {"declarations": PUSH_TYPES},
    "push constant 'member_0' has offset 6, which is not a multiple of 4": {
        "decorations": [*op(71, 31, 2), *op(72, 31, 0, 35, 6)],
        "declarations": PUSH_TYPES,
    },
    "push constant 'member_0' has elements of 12 bytes each, 4 bytes apart": {
        "decorations": [*op(71, 31, 2), *op(72, 31, 0, 35, 0), *op(71, 34, 6, 4)],
        "declarations": [*op(23, 33, 5, 3), *op(43, 10, 36, 3), *op(28, 34, 33, 36), *PUSHED],
    },
    "push constant 'member_0' has rows of 8 bytes each, 4 bytes apart": {
        "decorations": [*op(71, 31, 2), *op(72, 31, 0, 35, 0), *op(72, 31, 0, 4), *op(72, 31, 0, 7, 4)],
        "declarations": [*op(23, 33, 5, 3), *op(24, 34, 33, 2), *PUSHED],
    },
    "push constant 'member_0' has columns of 8 bytes each, 4 bytes apart": {  # the same in HLSL
        "local size": [*op(16, 3, 17, 64, 1, 1), *op(3, 5, 600)],
        "decorations": [*op(71, 31, 2), *op(72, 31, 0, 35, 0), *op(72, 31, 0, 4), *op(72, 31, 0, 7, 4)],
        "declarations": [*op(23, 33, 5, 3), *op(24, 34, 33, 2), *PUSHED],
    },
}


@pytest.mark.parametrize("problem", MALFORMED)
def test_a_module_whose_declarations_do_not_fit_together_is_refused(problem: str) -> None:
    changes = {name.replace(" ", "_"): words for name, words in MALFORMED[problem].items()}
    assert refusal(lambda: reflect(**changes)) == invalid(problem)


def nested(levels: int) -> dict[str, list[int]]:
    """The buffer's only member is a structure in a structure, ``levels`` deep, with a float inside."""
    types = [word for level in range(levels) for word in op(30, 40 + level, 39 + level if level else 5)]
    offsets = [word for level in range(levels) for word in op(72, 40 + level, 0, 35, 0)]
    return {"struct": [*types, *op(30, 7, 39 + levels)], "decorations": offsets}


def test_types_nested_32_deep_are_read() -> None:
    assert reflect(**nested(31)).buffers[0].element == Element(4, None, 4)


TOO_DEEP, NO_SIZE = "its types nest deeper than 32", "it does not say its workgroup size"
REFUSED = {
    "types nested deeper than 32": (TOO_DEEP, nested(32)),
    "a structure that contains itself": (TOO_DEEP, {"struct": op(30, 7, 7), "offset": op(72, 7, 0, 35, 0)}),
    "a matrix that contains itself": (TOO_DEEP, {"struct": op(30, 7, 20), "declarations": op(24, 20, 20, 2)}),
    "an array that contains itself": (TOO_DEEP, {"array": op(28, 6, 6, 20), "declarations": op(43, 10, 20, 4)}),
    "a workgroup size without axes": (NO_SIZE, {"local_size": op(16, 3, 17)}),
    "a workgroup size of one axis": (NO_SIZE, {"local_size": op(16, 3, 17, 64)}),
    "a workgroup size of two axes": (NO_SIZE, {"local_size": op(16, 3, 17, 64, 1)}),
    "a workgroup size of four axes": (NO_SIZE, {"local_size": op(16, 3, 17, 1, 1, 1, 1)}),
    "the workgroup size of another entry point": (NO_SIZE, {"local_size": op(16, 4, 17, 64, 1, 1)}),
    "an array stride of zero": ("array type %6 in a buffer has no stride", {"stride": op(71, 6, 6, 0)}),
    "an entry point of another stage": ("it has no compute entry point", {"entry_point": op(15, 4, 3, *text("main"))}),
    "an entry point that is not run and lacks its function": (
        "entry point 'other' is function %77, which is not there",
        {"entry_point": [*op(15, 5, 77, *text("other")), *op(15, 5, 3, *text("main"))]},
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_declarations_that_no_compiler_makes_are_refused(name: str) -> None:
    problem, changes = REFUSED[name]
    assert refusal(lambda: reflect(**changes)) == invalid(problem)


def test_the_entry_point_main_is_found_behind_others() -> None:
    others = [*op(15, 0, 3, *text("main")), *op(15, 5, 3, *text("other"))]
    assert reflect(entry_point=[*others, *op(15, 5, 3, *text("main"))], label=[*op(248, 4), *LOAD]) == reflect()


def test_two_buffers_of_one_name_are_refused() -> None:
    names = [*op(5, 9, *text("data")), *op(5, 26, *text("data"))]
    assert refusal(
        lambda: reflect(decorations=[*SECOND_BUFFER, *names], declarations=SECOND_TYPES),
    ) == unsupported("two of its buffers have one name (data, data)", "give each a name")


def test_a_shader_that_writes_through_device_addresses_alone_is_refused_for_that() -> None:
    problem = "it has no storage buffer to write to but through device addresses, and kompute binds buffers only"
    capabilities = [*op(17, 1), *op(17, 5347)]
    assert refusal(lambda: reflect(capability=capabilities, decorations=op(71, 9, 24))) == unsupported(
        problem, "write to a storage buffer with a binding"
    )


def test_a_storage_buffer_that_is_no_structure_is_refused() -> None:
    problem = "'binding_0' is an array of descriptors, and kompute binds single buffers"
    fix = "declare a buffer for each, or put their contents into one"
    many = {"pointer": op(32, 8, 12, 20), "declarations": op(29, 20, 7)}
    assert refusal(lambda: reflect(**many)) == unsupported(problem, fix)


@pytest.mark.parametrize(
    ("spec_id", "expected"),
    [
        (1023, None),
        (1024, unsupported("specialization constant 'constant_1024' has id 1024, over 1023", "number them from 0")),
    ],
)
def test_the_highest_specialization_id_is_1023(spec_id: int, expected: object) -> None:
    parts = {"decorations": op(71, 20, 1, spec_id), "declarations": op(50, 10, 20, 5)}
    if expected is None:
        assert reflect(**parts).spec_constants == (SpecConstant("constant_1023", 1023, U32, 5),)
    else:
        assert refusal(lambda: reflect(**parts)) == expected


def test_a_constant_without_a_specialization_id_cannot_be_specialized() -> None:
    assert reflect(declarations=op(50, 10, 20, 5)).spec_constants == ()


SIZES = [*op(50, 10, 20, 8), *op(43, 10, 21, 4), *op(43, 10, 22, 2)]


def test_the_workgroup_size_may_be_given_by_ids() -> None:
    found = reflect(local_size=op(331, 3, 38, 20, 21, 22), decorations=op(71, 20, 1, 6), declarations=SIZES)
    assert found.local_size == (LocalSize(8, 6), LocalSize(4), LocalSize(2))


def test_the_built_in_workgroup_size_wins_over_every_mode() -> None:
    modes = [*op(16, 3, 17, 64, 1, 1), *op(331, 3, 38, 21, 21, 21)]
    built_in = [*SIZES, *op(23, 23, 10, 3), *op(51, 23, 24, 20, 21, 22)]
    found = reflect(local_size=modes, decorations=[*op(71, 20, 1, 6), *op(71, 24, 11, 25)], declarations=built_in)
    assert found.local_size == (LocalSize(8, 6), LocalSize(4), LocalSize(2))


def test_a_workgroup_axis_by_a_plain_constant_is_never_specialized() -> None:
    sizes = [*op(43, 10, 20, 8), *op(43, 10, 21, 4), *op(43, 10, 22, 2)]
    found = reflect(local_size=op(331, 3, 38, 20, 21, 22), decorations=op(71, 20, 1, 6), declarations=sizes)
    assert found.local_size == (LocalSize(8), LocalSize(4), LocalSize(2))


@pytest.mark.parametrize("length", [op(50, 10, 20, 4), [*op(43, 10, 21, 4), *op(52, 10, 20, 128, 21, 21)]])
def test_a_length_that_can_be_specialized_is_left_to_run_time(length: list[int]) -> None:
    found = reflect(array=op(28, 6, 5, 20), declarations=length).buffers[0]
    assert (found.header_bytes, found.element, found.count) == (0, FLOATS, None)


def test_a_specialized_length_after_a_header_is_left_to_run_time() -> None:
    offsets = [*op(72, 7, 0, 35, 0), *op(72, 7, 1, 35, 16)]
    found = reflect(array=op(28, 6, 5, 20), struct=op(30, 7, 5, 6), offset=offsets, declarations=op(50, 10, 20, 4)).buffers[0]
    assert (found.header_bytes, found.element, found.count) == (16, FLOATS, None)


def test_decorations_of_a_group_reach_its_targets() -> None:
    group = [*op(71, 40, 34, 2), *op(71, 40, 33, 5), *op(73, 40), *op(74, 40, 9)]
    (found,) = interface(set=op(), binding=op(), decorations=group).resources
    assert (found.set, found.binding) == (2, 5)


def test_a_buffer_is_closed_when_its_variable_is_decorated() -> None:
    closed = [*SECOND_BUFFER, *op(71, 9, 24)]
    found = reflect(decorations=closed, declarations=SECOND_TYPES).buffers
    assert [(buffer.name, buffer.readable, buffer.writable) for buffer in found] == [
        ("binding_0", True, False),
        ("binding_1", True, True),
    ]


def test_push_constants_without_names_are_numbered() -> None:
    found = reflect(decorations=PUSH_DECORATIONS, declarations=PUSH_TYPES)
    assert (found.push_constants, found.push_constant_bytes) == ((Member("member_0", 0, U32),), 4)


def test_an_empty_push_constant_block_takes_no_bytes() -> None:
    types = [*op(30, 31), *op(32, 32, 9, 31), *op(59, 32, 33, 9)]
    found = reflect(declarations=types)
    assert (found.push_constants, found.push_constant_bytes) == ((), 0)


@pytest.mark.parametrize(
    ("scalar", "expected"),
    [
        (op(21, 5, 8, 0), Element(1, Scalar("u", 8), 1)),
        (op(21, 5, 16, 1), Element(2, Scalar("i", 16), 1)),
        (op(22, 5, 16), Element(2, Scalar("f", 16), 1)),
        (op(21, 5, 64, 0), Element(8, Scalar("u", 64), 1)),
        (op(22, 5, 32), Element(4, F32, 1)),
        (op(20, 5), Element(4, None, 4)),
    ],
)
def test_an_element_is_typed_where_numpy_has_its_type(scalar: list[int], expected: Element) -> None:
    assert reflect(float=scalar, stride=op(71, 6, 6, expected.stride)).buffers[0].element == expected


@pytest.mark.parametrize("own", [20, 23], ids=["before", "after"])
def test_of_two_unnamed_constants_of_one_id_the_one_that_no_vector_is_made_of_counts(own: int) -> None:
    sizing = 43 - own
    parts = {
        "local size": op(331, 3, 38, sizing, 22, 22),
        "decorations": [*op(71, 20, 1, 0), *op(71, 23, 1, 0)],
        "declarations": [*op(50, 10, own, 256), *op(50, 10, sizing, 1), *op(43, 10, 22, 1)],
    }
    found = SpirvModule.from_bytes(assemble(BASE | parts)).reflection
    assert (found.spec_constants, found.local_size[0]) == ((SpecConstant("constant_0", 0, U32, 256),), LocalSize(1, 0))


def test_capabilities_of_other_stages_are_called_by_their_names() -> None:
    declared = [*op(17, 1), *op(17, 5283), *op(17, 4479), *op(17, 70), *op(17, 65000)]
    shown = str(SpirvModule.from_bytes(assemble(BASE | {"capability": declared})))
    assert "  capabilities: Shader, MeshShadingEXT, RayTracingKHR, ShaderViewportIndex, capability 65000\n" in shown
