"""What a module declares, read whole, whether this driver can run it or not."""

from __future__ import annotations

import pytest
from assembler import BASE, assemble, invalid, op, text
from kernels import glsl
from literals import BOOL, F32, I32, U32, refusal

from vyre_driver.errors import InvalidModule
from vyre_driver.spirv.interface import (
    ComputeEntry,
    FloatControl,
    Image,
    LocalSize,
    ModuleInterface,
    PushConstantBlock,
    Resource,
    ResourceKind,
    SharedVariable,
)
from vyre_driver.spirv.layout import Address, Array, Matrix, Member, Scalar, Struct, Vector, shown
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.opcodes import Capability

PAIR = "struct Pair { int key; vec2 at; };\n"
HEAD = "#version 450\nlayout(local_size_x = 64) in;\n"


def interface(declarations: str, body: str = "") -> ModuleInterface:
    return glsl(f"{HEAD}{declarations}\nvoid main() {{ {body} }}\n").interface


def assembled(**parts: list[int]) -> ModuleInterface:
    return SpirvModule.from_bytes(assemble(BASE | {name.replace("_", " "): words for name, words in parts.items()})).interface


def test_the_base_of_these_tests_declares_this() -> None:
    floats = Struct("", (Member("member_0", 0, Array(F32, None, 4)),), 0)
    assert assembled() == ModuleInterface(
        version=(1, 3),
        generator=0,
        memory_model=("Logical", "GLSL450"),
        capabilities=(1,),
        extensions=(),
        entry_points=(ComputeEntry("main", 3, (LocalSize(64), LocalSize(1), LocalSize(1))),),
        resources=(
            Resource(
                9,
                "binding_0",
                ResourceKind.STORAGE_BUFFER,
                0,
                0,
                None,
                readable=True,
                writable=True,
                block_id=7,
                block=floats,
            ),
        ),
        push_constants=(),
        spec_constants=(),
        shared=(),
        names=0,
        has_buffer_blocks=False,
        first_function=67,
    )


KINDS = {
    "buffer Block { float data[]; } it;": (ResourceKind.STORAGE_BUFFER, None, "inout", 4),
    "readonly buffer Block { uint size; vec4 data[]; } it;": (ResourceKind.STORAGE_BUFFER, None, "in", 32),
    "writeonly buffer Block { float data[3]; } it;": (ResourceKind.STORAGE_BUFFER, None, "out", 12),
    "buffer Block { float data[]; } it[2];": (ResourceKind.STORAGE_BUFFER, 2, "inout", 4),
    "uniform Block { vec3 at; float scale[3]; } it;": (ResourceKind.UNIFORM_BLOCK, None, "in", 64),
    "uniform sampler it;": (ResourceKind.SAMPLER, None, "in", 0),
    "uniform sampler2D it[4];": (ResourceKind.COMBINED_IMAGE_SAMPLER, 4, "in", 0),
    "uniform texture2D it;": (ResourceKind.SAMPLED_IMAGE, None, "in", 0),
    "uniform samplerBuffer it;": (ResourceKind.COMBINED_IMAGE_SAMPLER, None, "in", 0),
    "uniform textureBuffer it;": (ResourceKind.UNIFORM_TEXEL_BUFFER, None, "in", 0),
}


@pytest.mark.parametrize("declaration", KINDS)
def test_a_resource_has_kind_count_access_and_least_size(declaration: str) -> None:
    (found,) = interface(f"layout(set = 3, binding = 5) {declaration}").resources
    facts = (found.kind, found.count, found.access, found.min_byte_len)
    assert (found.name, found.set, found.binding, *facts) == ("it", 3, 5, *KINDS[declaration])


@pytest.mark.parametrize(
    ("access", "expected"), [("", "inout"), ("readonly ", "in"), ("writeonly ", "out")], ids=["both", "read", "write"]
)
def test_an_image_has_dimension_type_format_and_access(access: str, expected: str) -> None:
    (found,) = interface(f"layout(binding = 0, r32i) uniform {access}iimage2DArray it;").resources
    image = Image("2D", arrayed=True, multisampled=False, sampled_type=I32, image_format=24)
    assert (found.kind, found.image, found.access) == (ResourceKind.STORAGE_IMAGE, image, expected)


def test_a_storage_texel_buffer_is_one() -> None:
    (found,) = interface("layout(binding = 0, r32f) uniform imageBuffer it;").resources
    image = Image("Buffer", arrayed=False, multisampled=False, sampled_type=F32, image_format=3)
    assert (found.kind, found.image) == (ResourceKind.STORAGE_TEXEL_BUFFER, image)


def test_a_run_time_array_of_descriptors_counts_none() -> None:
    (found,) = interface("layout(binding = 0) buffer Block { float data[]; } it[];", "it[1].data[0] = 1.0;").resources
    assert found.count in {0, 2}  # a compiler may fix it at the highest index
    (found,) = assembled(pointer=op(32, 8, 12, 20), declarations=op(29, 20, 7)).resources
    assert found.count == 0


def test_a_structure_has_its_members_with_offsets_strides_and_access() -> None:
    members = "uint n; readonly mat4x3 a; layout(row_major) mat2x3 b; Pair pairs[2]; writeonly float data[];"
    (found,) = interface(PAIR + f"layout(binding = 0) buffer Block {{ {members} }} it;").resources
    pair = Struct("Pair", (Member("key", 0, I32), Member("at", 8, Vector(F32, 2))), 16)
    assert found.block == Struct(
        "Block",
        (
            Member("n", 0, U32),
            Member("a", 16, Matrix(F32, 4, 3, 16, row_major=False), writable=False),
            Member("b", 80, Matrix(F32, 2, 3, 8, row_major=True)),
            Member("pairs", 104, Array(pair, 2, 16)),
            Member("data", 136, Array(F32, None, 4), readable=False),
        ),
        136,
    )


def test_a_device_address_in_a_buffer_takes_eight_bytes() -> None:
    source = (
        "#extension GL_EXT_buffer_reference : require\n"
        "layout(buffer_reference) buffer Node;\n"
        "layout(buffer_reference, std430) buffer Node { Node next; float value; };\n"
        "layout(binding = 0) buffer Block { uint n; Node head; } it;\n"
    )
    found = interface(source, "it.n = 1u;")
    members = (Member("n", 0, U32), Member("head", 8, Address()))
    assert (found.resources[0].block, found.memory_model) == (
        Struct("Block", members, 16),
        ("PhysicalStorageBuffer64", "GLSL450"),
    )


def test_push_constants_of_any_type_are_read() -> None:
    (found,) = interface("layout(push_constant) uniform Push { double a; mat2 b; } push;", "double x = push.a;").push_constants
    members = (Member("a", 0, Scalar("f", 64)), Member("b", 8, Matrix(F32, 2, 2, 8, row_major=False)))
    assert (found.name, found.block) == ("push", Struct("Push", members, 24))
    assert isinstance(found, PushConstantBlock)


def test_specialization_constants_of_any_width_are_read() -> None:
    constants = (
        "#extension GL_EXT_shader_explicit_arithmetic_types : require\n"
        "layout(constant_id = 0) const double big = 1.5;\n"
        "layout(constant_id = 1) const int64_t wide = -2L;\n"
        "layout(constant_id = 2) const int16_t narrow = -3s;\n"
        "layout(constant_id = 3) const bool flag = true;\n"
    )
    found = interface(f"{constants}layout(binding = 0) buffer B {{ double r[]; }};", "r[0] = big + wide + narrow + int(flag);")
    assert [(one.name, one.scalar, one.default_bits) for one in found.spec_constants] == [
        ("big", Scalar("f", 64), 0x3FF8_0000_0000_0000),
        ("wide", Scalar("i", 64), 2**64 - 2),
        ("narrow", Scalar("i", 16), 2**16 - 3),
        ("flag", BOOL, 1),
    ]


SHARED = {
    "float tile[256]": (1024, False),
    "vec3 tile[4]": (64, False),
    "bool flag": (4, False),
    "mat3 one": (48, False),
    "Pair pairs[3]": (48, False),
    "float tile[N]": (32, True),
    "float tile[2 * N][3]": (192, True),
    "Sized many[2]": (64, True),
    "uint tile[N / 3 + (N >> 1)]": (24, True),
}


@pytest.mark.parametrize("declaration", SHARED)
def test_shared_memory_is_measured_by_the_rules_of_storage_buffers(declaration: str) -> None:
    types = "struct Pair { int key; vec2 at; };\nstruct Sized { float a[N]; };"
    constant = "layout(constant_id = 0) const uint N = 8;\n"
    name = declaration.split()[1].partition("[")[0]
    accessed = f"{name}[0].a[0]" if declaration.startswith("Sized") else f"{name}[0]"
    use = "barrier();" if declaration.startswith(("bool", "mat3")) else f"{accessed} = {accessed}; barrier();"
    found = interface(f"{constant}{types}shared {declaration};", use).shared
    assert [(one.name, one.byte_len, one.is_specialized) for one in found] == [(name, *SHARED[declaration])]


def test_a_shared_variable_without_a_name_is_numbered() -> None:
    found = assembled(declarations=[*op(32, 21, 4, 10), *op(59, 21, 22, 4)]).shared
    assert found == (SharedVariable(22, "shared_22", 4, is_specialized=False),)


@pytest.mark.parametrize("operation", [(109, 22), (169, 22, 22), (128, 20, 22), (81, 22, 0), (81,), (999, 22, 22)])
def test_a_length_computed_in_an_unusual_way_is_unknown(operation: tuple[int, ...]) -> None:
    (found,) = assembled(array=op(28, 6, 5, 20), declarations=[*op(43, 10, 22, 7), *op(52, 10, 20, *operation)]).resources
    assert found.block is not None
    assert found.block.members[0].type == Array(F32, None, 4, is_specialized=True)


def test_a_long_chain_of_computed_lengths_ends() -> None:
    chain = [word for at in range(90) for word in op(52, 10, 30 + at, 128, 31 + at if at < 89 else 22, 22)]
    parts = BASE | {"array": op(28, 6, 5, 30), "declarations": [*op(43, 10, 22, 7), *chain]}
    (found,) = SpirvModule.from_bytes(assemble(parts, bound=200)).interface.resources
    assert found.block is not None
    assert found.block.members[0].type == Array(F32, None, 4, is_specialized=True)


def test_every_compute_entry_point_is_read_with_its_size() -> None:
    entries = [*op(15, 5, 3, *text("first")), *op(15, 4, 3, *text("drawn")), *op(15, 5, 40, *text("second"))]
    sizes = [*op(16, 3, 17, 64, 1, 1), *op(331, 40, 38, 20, 21, 21)]
    found = assembled(
        entry_point=entries,
        local_size=sizes,
        decorations=op(71, 20, 1, 6),
        declarations=[*op(50, 10, 20, 8), *op(43, 10, 21, 4)],
        end=[*op(56), *op(54, 1, 40, 0, 2), *op(248, 41), *op(253), *op(56)],
    )
    assert found.entry_points == (
        ComputeEntry("first", 3, (LocalSize(64), LocalSize(1), LocalSize(1))),
        ComputeEntry("second", 40, (LocalSize(8, 6), LocalSize(4), LocalSize(4))),
    )


CONTROLLED = {
    "capability": [*op(17, 1), *op(17, 4464), *op(17, 4467), *op(17, 4468)],
    "entry point": [
        word
        for model, function, name in ((5, 3, "main"), (5, 40, "second"), (5, 50, "third"), (4, 60, "drawn"))
        for word in op(15, model, function, *text(name))
    ],
    "local size": [word for function in (3, 40, 50) for word in op(16, function, 17, 64, 1, 1)]
    + [*op(16, 40, 4462, 64), *op(16, 3, 4462, 32), *op(16, 40, 4459, 16), *op(16, 40, 4462, 16), *op(16, 40, 4462, 64)]
    + op(16, 60, 4463, 32),
    "label": [*op(248, 4), *op(61, 7, 20, 9)],
    "end": [
        word
        for one in (40, 50, 60)
        for word in (*op(56), *op(54, 1, one, 0, 2), *op(248, one + 1), *op(61, 7, one + 2, 9), *op(253))
    ]
    + op(56),
}


def test_every_entry_point_has_the_float_controls_that_it_states() -> None:
    code = assemble(BASE | CONTROLLED)
    even, preserved = Capability.RoundingModeRTE, Capability.DenormPreserve
    expected = {
        "main": (FloatControl(even, 32),),
        "second": (FloatControl(preserved, 16), FloatControl(even, 16), FloatControl(even, 64)),
        "third": (),
    }
    every_even = [f"shaderRoundingModeRTEFloat{width}" for width in (16, 32, 64)]
    module = SpirvModule.from_bytes(code)
    assert {one.name: one.float_controls for one in module.interface.entry_points} == expected
    assert {name: SpirvModule.from_bytes(code, entry=name).reflection.float_controls for name in expected} == expected
    assert [line for line in str(module).splitlines() if "float controls" in line or "features" in line] == [
        "  float controls of main: RoundingModeRTE 32",
        "  float controls of second: DenormPreserve 16, RoundingModeRTE 16, RoundingModeRTE 64",
        f"  features: RoundingModeRTZ, shaderDenormPreserveFloat16, {', '.join(every_even)}",
    ]


@pytest.mark.parametrize(
    ("modes", "problem"),
    [
        (op(16, 3, 4459), "its execution mode DenormPreserve has 0 operands, not 1, a width"),
        (op(16, 3, 4463, 16, 32), "its execution mode RoundingModeRTZ has 2 operands, not 1, a width"),
        (op(16, 3, 4461, 0), "its execution mode SignedZeroInfNanPreserve is for floats of 0 bits, not 16, 32 or 64"),
        (op(16, 3, 4460, 8), "its execution mode DenormFlushToZero is for floats of 8 bits, not 16, 32 or 64"),
        (op(16, 3, 4462, 128), "its execution mode RoundingModeRTE is for floats of 128 bits, not 16, 32 or 64"),
        (
            [*op(16, 3, 4460, 64), *op(16, 3, 4460, 16), *op(16, 3, 4459, 16)],
            "entry point 'main' states both DenormPreserve and DenormFlushToZero for floats of 16 bits",
        ),
        (
            [*op(16, 3, 4462, 32), *op(16, 3, 4463, 32)],
            "entry point 'main' states both RoundingModeRTE and RoundingModeRTZ for floats of 32 bits",
        ),
    ],
    ids=["no width", "two widths", "0", "8", "128", "denorms", "rounding"],
)
def test_float_controls_that_break_the_rules_of_spirv_are_refused(modes: list[int], problem: str) -> None:
    assert refusal(lambda: assembled(local_size=[*BASE["local size"], *modes])) == invalid(problem)


def test_extensions_generator_and_names_are_read() -> None:
    found = assembled(capability=[*op(17, 1), *op(10, *text("SPV_KHR_example"))], decorations=op(5, 9, *text("data")))
    assert (found.extensions, found.names, found.resources[0].name) == (("SPV_KHR_example",), 1, "data")


def test_a_type_of_too_many_parts_is_refused() -> None:
    """17 structures, each with the one before it twice."""
    types = [word for level in range(17) for word in op(30, 40 + level, *[39 + level if level else 5] * 2)]
    offsets = [word for level in range(17) for at in range(2) for word in op(72, 40 + level, at, 35, 4 * at)]
    found = refusal(lambda: assembled(struct=[*types, *op(30, 7, 56)], decorations=offsets))
    assert found[:2] == (InvalidModule, 2101)
    assert "type %55 consists of 131071 parts, more than 65536" in found[2]


TEXTS = [
    (F32, "f32"),
    (Vector(U32, 3), "vec3<u32>"),
    (Matrix(F32, 4, 3, 16, row_major=False), "mat4x3<f32>"),
    (Array(F32, None, 4), "f32[n]"),
    (Array(F32, 5, 4), "f32[5]"),
    (Array(F32, 5, 4, is_specialized=True), "f32[n]"),
    (Array(Array(Vector(F32, 2), 3, 8), None, 24), "vec2<f32>[n][3]"),
    (Struct("Pair", (), 0), "Pair"),
    (Struct("", (), 0), "struct"),
    (Struct("a\x1b[1m", (), 0), "a\\x1b[1m"),
    (Address(), "address"),
]


@pytest.mark.parametrize(("found", "expected"), TEXTS, ids=[expected for _, expected in TEXTS])
def test_a_type_prints_as_a_signature_shows_it(found: object, expected: str) -> None:
    assert str(found) == expected


def test_a_structure_of_many_members_is_cut_where_it_is_shown() -> None:
    members = tuple(Member(f"m{at}", 4 * at, F32) for at in range(34))
    whole = ", ".join(f"m{at}: f32" for at in range(32))
    assert Struct("", members[:32], 128).text == f"{{{whole}}}"
    assert Struct("", members, 136).text == f"{{{whole}, and 2 more}}"


def test_a_name_is_shown_without_what_a_terminal_would_obey() -> None:
    assert [shown(name) for name in ("größe", "a\nb", "\x9b2J", "")] == ["größe", "a\\nb", "\\x9b2J", ""]


@pytest.mark.parametrize(
    ("capability", "subgroups", "feature"),
    [
        (64, "GroupNonUniformBallot", "none"),
        (5297, "GroupNonUniformPartitionedNV", "GroupNonUniformPartitionedNV"),
        (6026, "GroupNonUniformRotateKHR", "GroupNonUniformRotateKHR"),
        (5302, None, "RuntimeDescriptorArray"),
        (5612, None, "AtomicFloat32MinMaxEXT"),
        (5249, None, "capability 5249"),  # SampleMaskOverrideCoverageNV, of fragment shaders
    ],
)
def test_only_capabilities_of_subgroups_are_listed_as_such(capability: int, subgroups: str | None, feature: str) -> None:
    lines = str(SpirvModule.from_bytes(assemble(BASE | {"first": op(17, capability)}))).splitlines()
    listed = [line.removeprefix("  subgroups: ") for line in lines if line.startswith("  subgroups: ")]
    assert (listed, f"  features: {feature}" in lines) == ([subgroups] if subgroups else [], True)
