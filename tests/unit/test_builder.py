"""Modules put together, word by word: header, sections in their order, literals, and what is declared once."""

from __future__ import annotations

import array
import shutil
import struct
import subprocess

import pytest

from vyre_driver.spirv.builder import ModuleBuilder, literal_text
from vyre_driver.spirv.opcodes import GL_COMPUTE, MODE_LOCAL_SIZE, BuiltIn, Decoration, Ins, Op, StorageClass

_PRIVATE = 6  # a storage class


def words(module: ModuleBuilder) -> list[int]:
    return array.array("I", module.build()).tolist()


def body(module: ModuleBuilder) -> list[int]:
    return words(module)[5:]


def test_an_empty_module_is_its_header() -> None:
    assert words(ModuleBuilder()) == [0x07230203, 0x00010300, 0, 1, 0]


def test_the_version_is_the_callers_and_the_bound_passes_every_id() -> None:
    module = ModuleBuilder(0x0001_0500)
    ids = [module.new_id() for _ in range(7)]
    assert (ids, words(module)) == (list(range(1, 8)), [0x07230203, 0x00010500, 0, 8, 0])


def test_the_sections_stand_in_their_order_whatever_was_declared_first() -> None:
    """SPIR-V 2.4: nothing of a later section stands before what belongs to an earlier one."""
    module = ModuleBuilder()
    main, void = module.new_id(), module.type(Op.TypeVoid)
    kind = module.type(Op.TypeFunction, void)
    label = module.new_id()
    module.function += [5 << 16 | Ins.Function, void, main, 0, kind, 2 << 16 | Ins.Label, label]
    module.function += [1 << 16 | Ins.Return, 1 << 16 | Ins.FunctionEnd]
    module.decorate(main, Decoration.NO_CONTRACTION)
    module.name(main, "main")
    module.execution_mode(main, MODE_LOCAL_SIZE, 8, 4, 2)
    module.entry_point(GL_COMPUTE, main, "main", [])
    module.memory_model(0, 1)
    library = module.ext_inst_import("GLSL.std.450")
    module.extension("SPV_KHR_8bit_storage")
    module.capability(1)
    main_text = [0x6E69616D, 0]  # "main" and its end
    assert body(module) == [
        *(2 << 16 | Op.Capability, 1),
        *(7 << 16 | 10, *literal_text("SPV_KHR_8bit_storage")),
        *(6 << 16 | 11, library, *literal_text("GLSL.std.450")),
        *(3 << 16 | 14, 0, 1),
        *(5 << 16 | 15, 5, main, *main_text),
        *(6 << 16 | 16, main, 17, 8, 4, 2),
        *(4 << 16 | 5, main, *main_text),
        *(3 << 16 | 71, main, 42),
        *(2 << 16 | 19, void),
        *(3 << 16 | 33, kind, void),
        *(5 << 16 | 54, void, main, 0, kind, 2 << 16 | 248, label, 1 << 16 | 253, 1 << 16 | 56),
    ]


@pytest.mark.parametrize(
    ("text", "packed"),
    [
        ("", [0]),
        ("a", [0x61]),
        ("abc", [0x636261]),
        ("main", [0x6E69616D, 0]),
        ("main!", [0x6E69616D, 0x21]),
        ("\u00e4", [0xA4C3]),
        ("ab\u20ac", [0x82E26261, 0xAC]),
        ("\U0001f600", [0x80989FF0, 0]),
    ],
)
def test_a_text_is_utf_8_that_ends_with_a_zero_byte_and_fills_its_last_word(text: str, packed: list[int]) -> None:
    assert literal_text(text) == packed


def test_what_is_declared_again_is_declared_once() -> None:
    module = ModuleBuilder()
    for _ in range(2):
        module.capability(1)
        module.extension("SPV_KHR_float_controls")
        module.ext_inst_import("GLSL.std.450")
        word = module.type(Op.TypeInt, 32, 0)
        pair = module.type(Op.TypeVector, word, 2)
        seven = module.constant(Op.Constant, word, 7)
        module.constant(Op.ConstantComposite, pair, seven, seven)
        module.array_type(Op.TypeRuntimeArray, word, stride=4)
    assert body(module) == [
        *(2 << 16 | 17, 1),
        *(7 << 16 | 10, *literal_text("SPV_KHR_float_controls")),
        *(6 << 16 | 11, 1, *literal_text("GLSL.std.450")),
        *(4 << 16 | 71, 6, 6, 4),
        *(4 << 16 | 21, 2, 32, 0),
        *(4 << 16 | 23, 3, 2, 2),
        *(4 << 16 | 43, 2, 4, 7),
        *(5 << 16 | 44, 3, 5, 4, 4),
        *(3 << 16 | 29, 6, 2),
    ]


def test_what_may_be_decorated_apart_is_declared_apart() -> None:
    """SPIR-V 2.8: equal types are one unless they are aggregates; structures and arrays may differ by decorations."""
    module = ModuleBuilder()
    word, number = module.type(Op.TypeInt, 32, 0), module.type(Op.TypeInt, 32, 1)
    arrays = [module.array_type(Op.TypeRuntimeArray, word, stride=stride) for stride in (4, 16, None, 4)]
    structs = [module.struct_type(word), module.struct_type(word)]
    specs = [module.spec_constant(Op.SpecConstant, word, 1) for _ in range(2)]
    pointer = module.type(Op.TypePointer, _PRIVATE, word)
    variables = [module.global_variable(pointer, _PRIVATE) for _ in range(2)]
    zeros = [module.constant(Op.Constant, word, 0), module.constant(Op.Constant, number, 0)]
    made = [word, number, *arrays[:3], *structs, *specs, pointer, *variables, *zeros]
    assert (arrays[3], sorted(set(made))) == (arrays[0], made)


@pytest.mark.parametrize(
    ("opcode", "operands", "literal"),
    [
        ((Op.TypeInt, 8, 0), 0xFF, [0xFF]),
        ((Op.TypeInt, 8, 1), -1 & 0xFFFF_FFFF, [0xFFFF_FFFF]),  # a narrow signed literal is extended by its sign
        ((Op.TypeInt, 16, 0), 0xBEEF, [0xBEEF]),
        ((Op.TypeInt, 32, 0), 0xDEADBEEF, [0xDEADBEEF]),
        ((Op.TypeFloat, 32), struct.unpack("<I", struct.pack("<f", -1.5))[0], [0xBFC00000]),
    ],
)
def test_a_literal_of_up_to_32_bits_is_one_word(opcode: tuple[int, ...], operands: int, literal: list[int]) -> None:
    module = ModuleBuilder()
    kind = module.type(*opcode)
    made = module.constant(Op.Constant, kind, operands)
    assert body(module)[-4:] == [4 << 16 | 43, kind, made, *literal]


def test_a_literal_of_64_bits_has_its_low_word_first() -> None:
    module = ModuleBuilder()
    kind = module.type(Op.TypeInt, 64, 0)
    made = module.constant(Op.Constant, kind, 0xCAFEF00D, 0xDEADBEEF)
    assert body(module)[-5:] == [5 << 16 | 43, kind, made, 0xCAFEF00D, 0xDEADBEEF]


def small_module() -> bytes:
    """A module of all sections, which writes 7 into a buffer."""
    module = ModuleBuilder()
    module.capability(1)
    module.memory_model(0, 1)
    main, void, word = module.name(module.new_id(), "main"), module.type(Op.TypeVoid), module.type(Op.TypeInt, 32, 0)
    elements = module.array_type(Op.TypeRuntimeArray, word, stride=4)
    block = module.name(module.struct_type(elements), "Block")
    module.member_name(block, 0, "elements")
    module.decorate(block, Decoration.BLOCK)
    module.member_decorate(block, 0, Decoration.OFFSET, 0)
    pointer = module.type(Op.TypePointer, StorageClass.STORAGE_BUFFER, block)
    out = module.name(module.global_variable(pointer, StorageClass.STORAGE_BUFFER), "out")
    module.decorate(out, Decoration.DESCRIPTOR_SET, 0)
    module.decorate(out, Decoration.BINDING, 0)
    three = module.type(Op.TypeVector, word, 3)
    ids_pointer = module.type(Op.TypePointer, StorageClass.INPUT, three)
    ids = module.name(module.global_variable(ids_pointer, StorageClass.INPUT), "ids")
    module.decorate(ids, Decoration.BUILT_IN, BuiltIn.GLOBAL_INVOCATION_ID)
    element = module.type(Op.TypePointer, StorageClass.STORAGE_BUFFER, word)
    zero, seven = (module.constant(Op.Constant, word, value) for value in (0, 7))
    kind = module.type(Op.TypeFunction, void)
    label, place = module.new_id(), module.new_id()
    module.function += [5 << 16 | Ins.Function, void, main, 0, kind, 2 << 16 | Ins.Label, label]
    module.function += [6 << 16 | Ins.AccessChain, element, place, out, zero, zero, 3 << 16 | Ins.Store, place, seven]
    module.function += [1 << 16 | Ins.Return, 1 << 16 | Ins.FunctionEnd]
    module.entry_point(GL_COMPUTE, main, "main", [ids])
    module.execution_mode(main, MODE_LOCAL_SIZE, 64, 1, 1)
    return module.build()


TEXT = """\
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" %ids
OpExecutionMode %main LocalSize 64 1 1
OpName %main "main"
OpName %Block "Block"
OpMemberName %Block 0 "elements"
OpName %out "out"
OpName %ids "ids"
OpDecorate %_runtimearr_uint ArrayStride 4
OpDecorate %Block Block
OpMemberDecorate %Block 0 Offset 0
OpDecorate %out DescriptorSet 0
OpDecorate %out Binding 0
OpDecorate %ids BuiltIn GlobalInvocationId
%void = OpTypeVoid
%uint = OpTypeInt 32 0
%_runtimearr_uint = OpTypeRuntimeArray %uint
%Block = OpTypeStruct %_runtimearr_uint
%_ptr_StorageBuffer_Block = OpTypePointer StorageBuffer %Block
%out = OpVariable %_ptr_StorageBuffer_Block StorageBuffer
%v3uint = OpTypeVector %uint 3
%_ptr_Input_v3uint = OpTypePointer Input %v3uint
%ids = OpVariable %_ptr_Input_v3uint Input
%_ptr_StorageBuffer_uint = OpTypePointer StorageBuffer %uint
%uint_0 = OpConstant %uint 0
%uint_7 = OpConstant %uint 7
%14 = OpTypeFunction %void
%main = OpFunction %void None %14
%15 = OpLabel
%16 = OpAccessChain %_ptr_StorageBuffer_uint %out %uint_0 %uint_0
OpStore %16 %uint_7
OpReturn
OpFunctionEnd
"""


@pytest.mark.validation
def test_the_validator_accepts_a_module_of_all_sections_and_the_disassembler_reads_it() -> None:
    tool = shutil.which("spirv-dis")
    assert tool is not None, "spirv-dis comes with spirv-val"
    checked = subprocess.run(
        [shutil.which("spirv-val") or "", "--target-env", "vulkan1.1", "-"],
        input=small_module(),
        capture_output=True,
        check=False,
    )
    shown = subprocess.run([tool, "--no-header", "--no-indent", "-"], input=small_module(), capture_output=True, check=True)
    assert (checked.returncode, checked.stderr, shown.stdout.decode()) == (0, b"", TEXT)
