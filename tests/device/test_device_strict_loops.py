"""Strict calls find the loops of GLSL and SPIR-V that llvmpipe has ended early, and refuse no call that is right."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import HEAD, glsl
from loop_limits import LIMIT, skip_unless_limited

from vyre_driver import Driver, SpirvModule
from vyre_driver.errors import InvalidModule, LoopCut

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from vyre_driver import Kernel

pytestmark = pytest.mark.device

BUFFERS = "layout(binding = 0) readonly buffer N { int n[]; };\nlayout(binding = 1) buffer Made { int made[]; };\n"
MAIN = "void main() { uint i = gl_GlobalInvocationID.x; int t = 0; BODY made[i] = t; }\n"
BODIES = {
    "for": "for (int k = 0; k < n[i]; k++) t += 1;",
    "while": "while (t < n[i]) t += 1;",
    "do": "do t += 1; while (t < n[i]);",
    "break": "for (int k = 0; k < 1000000; k++) { if (t == n[i]) break; t += 1; }",
    "endless with a break": "for (;;) { if (t == n[i]) break; t += 1; }",
    "endless with a return": "while (true) { if (t == n[i]) { made[i] = t; return; } t += 1; }",
    "one after the other": "for (int k = 0; k < n[i] / 2; k++) t += 1; for (int k = n[i] / 2; k < n[i]; k++) t += 1;",
    "nested": "for (int a = 0; a < n[i] / 100; a++) for (int b = 0; b < max(100, a % 2); b++) t += 1; t += n[i] % 100;",
    "short ones in a long one": "for (int a = 0; a < n[i]; a++) for (int b = 0; b < 4; b++) t += b == 1 ? 1 : 0;",
    "in a function": "t = counted(n[i] / 2) + counted(n[i] - n[i] / 2);",
    "in a function that returns from its loop": "t = returned(n[i]);",
    "with a barrier": "for (int k = 0; k < n[13]; k++) { t += 1; barrier(); } t += n[i] - n[13];",
    "with a switch": "bool on = true; while (on) { switch (n[i] - t) { case 0: on = false; break; default: t += 1; } }",
}
FUNCTIONS = """
int counted(int most) { int t = 0; for (int k = 0; k < most; k++) t += 1; return t; }
int returned(int most) { int t = 0; while (true) { if (t >= most) return t; t += 1; } }
"""
# What compilers other than glslang write: the loops of 8 invocations from word 0 to word 1, as the part %body says.
ASSEMBLY = """OpCapability Shader
OpCapability Int64
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" %place INTERFACE
OpExecutionMode %main LocalSize 64 1 1
OpDecorate %place BuiltIn GlobalInvocationId
OpDecorate %words ArrayStride 4
OpDecorate %block Block
OpMemberDecorate %block 0 Offset 0
OpDecorate %n DescriptorSet 0
OpDecorate %n Binding 0
OpDecorate %n NonWritable
OpDecorate %made DescriptorSet 0
OpDecorate %made Binding 1
%void = OpTypeVoid
%function = OpTypeFunction %void
%u32 = OpTypeInt 32 0
%u64 = OpTypeInt 64 0
%bool = OpTypeBool
%u32x3 = OpTypeVector %u32 3
%vector = OpTypePointer Input %u32x3
%axis = OpTypePointer Input %u32
%place = OpVariable %vector Input
%words = OpTypeRuntimeArray %u32
%block = OpTypeStruct %words
%buffer = OpTypePointer StorageBuffer %block
%word = OpTypePointer StorageBuffer %u32
%n = OpVariable %buffer StorageBuffer
%made = OpVariable %buffer StorageBuffer
%0 = OpConstant %u32 0
%1 = OpConstant %u32 1
%main = OpFunction %void None %function
%start = OpLabel
%x = OpAccessChain %axis %place %0
%i = OpLoad %u32 %x
%from = OpAccessChain %word %n %0 %i
%most = OpLoad %u32 %from
%to = OpAccessChain %word %made %0 %i
BODY
OpStore %to %result
OpReturn
OpFunctionEnd
"""
ASSEMBLED = {
    "a loop of one block": """OpBranch %loop
%loop = OpLabel
%t = OpPhi %u32 %0 %start %result %loop
%result = OpIAdd %u32 %t %1
%goes_on = OpULessThan %bool %result %most
OpLoopMerge %end %loop None
OpBranchConditional %goes_on %loop %end
%end = OpLabel""",
    "a test in the header": """OpBranch %loop
%loop = OpLabel
%result = OpPhi %u32 %0 %start %next %body
%goes_on = OpULessThan %bool %result %most
OpLoopMerge %end %body None
OpBranchConditional %goes_on %body %end
%body = OpLabel
%next = OpIAdd %u32 %result %1
OpBranch %loop
%end = OpLabel""",
    "a loop that begins where another ends": """%half = OpShiftRightLogical %u32 %most %1
OpBranch %first
%first = OpLabel
%t = OpPhi %u32 %0 %start %next %body
%goes_on = OpULessThan %bool %t %half
OpLoopMerge %second %body None
OpBranchConditional %goes_on %body %second
%body = OpLabel
%next = OpIAdd %u32 %t %1
OpBranch %first
%second = OpLabel
%result = OpPhi %u32 %t %first %more %rest
%has_more = OpULessThan %bool %result %most
OpLoopMerge %end %rest None
OpBranchConditional %has_more %rest %end
%rest = OpLabel
%more = OpIAdd %u32 %result %1
OpBranch %second
%end = OpLabel""",
    "a loop that is the case of a switch": """%wide = OpUConvert %u64 %most
OpSelectionMerge %end None
OpSwitch %wide %loop 0 %end 4294967297 %end
%loop = OpLabel
%t = OpPhi %u32 %0 %start %next %loop
%next = OpIAdd %u32 %t %1
%goes_on = OpULessThan %bool %next %most
OpLoopMerge %after %loop None
OpBranchConditional %goes_on %loop %after
%after = OpLabel
OpBranch %end
%end = OpLabel
%result = OpPhi %u32 %0 %start %next %after""",
    "a loop that is a branch": """%any = OpINotEqual %bool %most %0
OpSelectionMerge %end None
OpBranchConditional %any %loop %end
%loop = OpLabel
%t = OpPhi %u32 %0 %start %next %body
OpLoopMerge %after %body None
OpBranch %body
%body = OpLabel
%next = OpIAdd %u32 %t %1
%goes_on = OpULessThan %bool %next %most
OpBranchConditional %goes_on %loop %after
%after = OpLabel
OpBranch %end
%end = OpLabel
%result = OpPhi %u32 %0 %start %next %after""",
}
COUNTED = BUFFERS + MAIN.replace("BODY", BODIES["for"])


def run_tool(tool: str, *arguments: str) -> None:
    path = shutil.which(tool)
    assert path is not None
    subprocess.run([path, *arguments], check=True, capture_output=True)


@pytest.fixture(autouse=True)
def _is_limited(layered: Driver) -> None:
    skip_unless_limited(layered)


@pytest.fixture
def strict_driver() -> Iterator[Driver]:
    with Driver(strict=True) as opened:
        yield opened


def turns(most: int) -> NDArray[np.int32]:
    """Turns for 64 invocations: one makes the most, the others few."""
    asked = np.arange(1, 65, dtype=np.int32)
    asked[13] = most
    return asked


def check(kernel: Kernel) -> None:
    """Call it strictly with turns that are right, and with too many."""
    made = np.zeros(64, np.int32)
    for most in (1, 1_000, 60_000):
        assert kernel(turns(most), made, strict=True).tolist() == turns(most).tolist()
    for most in (70_000, 200_000):
        assert kernel(turns(most), made).tolist() != turns(most).tolist()
        with pytest.raises(LoopCut, match=r"^the driver of '.*' has ended a loop of kernel .* 65,535 turns together") as raised:
            kernel(turns(most), made, strict=True)
        assert raised.value.context == {"limit": LIMIT}
    assert kernel(turns(3), made, strict=True).tolist() == turns(3).tolist()


@pytest.mark.parametrize("body", BODIES)
def test_a_strict_call_finds_a_loop_of_glsl_that_was_cut(driver: Driver, body: str) -> None:
    check(driver.compile(glsl(BUFFERS + FUNCTIONS + MAIN.replace("BODY", BODIES[body]))))


@pytest.mark.parametrize("body", BODIES)
def test_a_strict_call_finds_it_in_optimized_modules(driver: Driver, body: str, tmp_path: Path) -> None:
    plain, optimized = tmp_path / "plain.spv", tmp_path / "optimized.spv"
    plain.write_bytes(glsl(BUFFERS + FUNCTIONS + MAIN.replace("BODY", BODIES[body])).code)
    run_tool("spirv-opt", "-O", str(plain), "-o", str(optimized))
    check(driver.compile(SpirvModule.from_file(optimized)))


@pytest.mark.parametrize("version", ["spv1.3", "spv1.6"])
@pytest.mark.parametrize("body", ASSEMBLED)
def test_a_strict_call_finds_it_in_loops_of_other_forms(layered: Driver, body: str, version: str, tmp_path: Path) -> None:
    text, module = tmp_path / "loop.spvasm", tmp_path / "loop.spv"
    interface = "%n %made" if version == "spv1.6" else ""
    text.write_text(ASSEMBLY.replace("INTERFACE", interface).replace("BODY", ASSEMBLED[body]))
    run_tool("spirv-as", "--target-env", version, "-o", str(module), str(text))
    made = np.zeros(64, np.uint32)
    kernel = layered.compile(SpirvModule.from_file(module))
    for most in (1, 60_000):
        asked = turns(most).astype(np.uint32)
        assert kernel(asked, made, strict=True).tolist() == asked.tolist()
    with pytest.raises(LoopCut):
        kernel(turns(70_000).astype(np.uint32), made, strict=True)


def test_loops_in_modules_of_spirv_1_0_are_watched_too(driver: Driver, tmp_path: Path) -> None:
    source, module = tmp_path / "loop.comp", tmp_path / "loop.spv"
    source.write_text(HEAD + COUNTED)
    run_tool("glslangValidator", "--target-env", "vulkan1.0", "-o", str(module), str(source))
    check(driver.compile(SpirvModule.from_file(module)))


@pytest.mark.parametrize(
    "rest",
    [
        "for (int k = 0; k < n[0]; k++) t += 1;",
        "while (t % 9 != 8) t += 1;",
        "for (int a = 0; a < n[1]; a++) { for (int b = 0; b < n[0]; b++) t += 1; if (t == n[2]) break; }",
        "if (n[5] == 6) { do t += 2; while (t % 7 != 0); } else t = returned(5);",
    ],
)
def test_near_the_limit_a_strict_call_raises_or_is_right(layered: Driver, rest: str) -> None:
    kernel = layered.compile(glsl(BUFFERS + FUNCTIONS + MAIN.replace("BODY", f"{BODIES['for']} t %= 16; {rest}")))
    made, outcomes = np.zeros(64, np.int32), []
    for most in (*range(65_480, 65_540, 3), 70_000):
        right = kernel(turns(most % 16 + 1_600), made).tolist()
        try:
            assert kernel(turns(most), made, strict=True).tolist() == right
        except LoopCut:
            outcomes.append("cut")
        else:
            outcomes.append("right")
    assert outcomes == sorted(outcomes, reverse=True)
    assert set(outcomes) == {"right", "cut"}


@pytest.mark.parametrize("flags", [["-g"], ["-gVS"], ["-gVS", "-Os"]], ids=" ".join)
def test_a_strict_call_finds_it_in_modules_with_debug_information(layered: Driver, flags: list[str], tmp_path: Path) -> None:
    source, module = tmp_path / "loop.comp", tmp_path / "loop.spv"
    source.write_text(HEAD + BUFFERS + FUNCTIONS + MAIN.replace("BODY", BODIES["in a function that returns from its loop"]))
    run_tool("glslangValidator", "--target-env", "vulkan1.3", *flags, "-o", str(module), str(source))
    check(layered.compile(SpirvModule.from_file(module)))


def test_modules_of_vulkans_memory_model_are_watched_too(layered: Driver) -> None:
    head = "#extension GL_KHR_memory_scope_semantics : require\n#pragma use_vulkan_memory_model\n"
    check(layered.compile(glsl(HEAD.replace("layout", head + "layout") + COUNTED)))


def test_a_strict_driver_refuses_an_invalid_module_in_the_words_of_another(
    layered: Driver, strict_driver: Driver, tmp_path: Path
) -> None:
    text, module = tmp_path / "loop.spvasm", tmp_path / "loop.spv"
    nowhere = ASSEMBLED["a test in the header"].replace("%goes_on %body %end", "%goes_on %body %nowhere")
    text.write_text(ASSEMBLY.replace("INTERFACE", "").replace("BODY", nowhere))
    run_tool("spirv-as", "--target-env", "spv1.3", "-o", str(module), str(text))
    found = []
    for opened in (layered, strict_driver):
        with pytest.raises(InvalidModule) as raised:
            opened.compile(SpirvModule.from_file(module))
        found.append(str(raised.value))
    assert found[0] == found[1]


def test_a_strict_call_with_buffers_finds_it(driver: Driver) -> None:
    kernel = driver.compile(glsl(COUNTED))
    made = driver.zeros(64, np.int32)
    assert kernel(driver.buffer(turns(60_000)), made, strict=True).read().tolist() == turns(60_000).tolist()
    with pytest.raises(LoopCut):
        kernel(driver.buffer(turns(70_000)), made, strict=True)


def test_whatever_a_strict_driver_runs_finds_it(strict_driver: Driver) -> None:
    kernel = strict_driver.compile(glsl(COUNTED))
    made = strict_driver.zeros(64, np.int32)
    good, cut = (kernel.bind(strict_driver.buffer(turns(most)), made) for most in (60_000, 70_000))
    good.run()
    for run in (cut.run, lambda: cut.submit().result(), lambda: kernel(turns(70_000), np.zeros(64, np.int32), strict=False)):
        with pytest.raises(LoopCut):
            run()

    async def awaited() -> None:
        await cut.submit()

    with pytest.raises(LoopCut):
        asyncio.run(awaited())
    good.run()
    assert made.read().tolist() == turns(60_000).tolist()


def test_a_module_is_watched_under_a_key_of_its_own_and_one_without_loops_is_not(
    layered: Driver, strict_driver: Driver
) -> None:
    straight, looped = glsl(BUFFERS + MAIN.replace("BODY", "t = n[i];")), glsl(COUNTED)
    found = [[opened.compile(module).source for opened in (layered, strict_driver)] for module in (straight, looped)]
    assert [[one.loop_limit for one in both] for both in found] == [[0, 0], [0, LIMIT]]
    assert [both[0].digest == both[1].digest for both in found] == [True, False]
    kernel = layered.compile(looped)
    key = kernel.trace.key
    kernel(turns(5), np.zeros(64, np.int32), strict=True)
    assert kernel.trace.key == key


def test_the_trace_of_a_strict_call_has_its_times(driver: Driver) -> None:
    kernel = driver.compile(glsl(COUNTED))
    kernel(turns(5), np.zeros(64, np.int32), strict=True)
    assert kernel.trace.stages is not None
    assert kernel.trace.stages.dispatch_ns > 0


def test_a_module_that_has_all_buffers_of_the_device_is_run_with_a_warning(driver: Driver) -> None:
    most = driver.device.limits.max_per_stage_descriptor_storage_buffers
    if most > 64:
        pytest.skip(f"{driver.device.name!r} binds {most} buffers")
    declared = "".join(f"layout(binding = {at}) readonly buffer B{at} {{ int b{at}[]; }};\n" for at in range(2, most))
    summed = "".join(f"t += b{at}[0];" for at in range(2, most))
    kernel = driver.compile(glsl(BUFFERS + declared + MAIN.replace("BODY", BODIES["for"] + summed)))
    arrays = [turns(5), np.zeros(64, np.int32), *[np.zeros(1, np.int32)] * (most - 2)]
    with pytest.warns(RuntimeWarning, match=rf"has {most} buffers, and .* binds {most}: .* Fix: use {most - 1} or fewer\.$"):
        assert kernel(*arrays, strict=True).tolist() == turns(5).tolist()
