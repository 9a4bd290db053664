"""Matrices of HLSL and Slang: an array has the rows and columns of the source, though SPIR-V has them the other way round."""

from __future__ import annotations

import array
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import glsl

from vyre_driver import SpirvModule
from vyre_driver.cli import main
from vyre_driver.process.tools import GLSLANG, find_tool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver import Driver

pytestmark = pytest.mark.device
PRODUCTS = """
struct Pair {{ float first; {layout} float2x3 wide; {layout} float3x3 square; }};
{buffers}
RWStructuredBuffer<float> y : register(u4);
[numthreads(1, 1, 1)] void main(uint3 i : SV_DispatchThreadID) {{
    float2 a = mul({pair}.wide, float3(1, 10, 100)); float3 b = mul({pair}.square, float3(1, 10, 100));
    float3 c = mul(float3(1, 10, 100), {pair}.square);
    y[0] = a.x; y[1] = a.y; y[2] = b.x; y[3] = b.y; y[4] = b.z; y[5] = c.x; y[6] = c.y; y[7] = c.z; y[8] = {pair}.wide[1][2];
}}
"""
# By what holds the structure: its declaration, and how the shader names it.
HELD_BY = {
    "a uniform block": ("cbuffer Q : register(b0) { Pair pair; };", "pair"),
    "an array of a uniform block": ("cbuffer Q : register(b0) { Pair pairs[2]; };", "pairs[1]"),
    "push constants": ("[[vk::push_constant]] cbuffer Q { Pair pair; };", "pair"),
    "a storage buffer": ("StructuredBuffer<Pair> pairs : register(t0);", "pairs[1]"),
}
COPIES = """
struct M { TYPE m; };
StructuredBuffer<M> x : register(t0);
RWStructuredBuffer<M> y : register(u1);
[numthreads(1, 1, 1)] void main(uint3 i : SV_DispatchThreadID) { y[i.x].m = x[i.x].m; y[i.x].m[0][1] = 7; }
"""
# float3x3 and float2x3 in a uniform block, as Slang 2026.12 compiles them (-target spirv) with matrices laid out by rows:
#   struct S { float3x3 m; float2x3 k; };
#   [[vk::binding(0,0)]] ConstantBuffer<S> q;
#   [[vk::binding(1,0)]] StructuredBuffer<float3> x;
#   [[vk::binding(2,0)]] RWStructuredBuffer<float3> y;
#   [[vk::binding(3,0)]] RWStructuredBuffer<float2x3> z;
#   [numthreads(1,1,1)] void main(uint3 i : SV_DispatchThreadID) { y[i.x] = mul(q.m, x[i.x]); z[i.x] = q.k; }
SLANG = Path(__file__).parent.parent / "golden" / "data" / "slang_matrices.spv"
WIDE, SQUARE = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(9, dtype=np.float32).reshape(3, 3)


def hlsl(text: str, path: Path) -> SpirvModule:
    """A shader of HLSL, compiled by glslang."""
    tool = find_tool(GLSLANG)
    assert tool is not None
    arguments = ["--stdin", "-D", "-V", "-e", "main", "-S", "comp", "--target-env", "vulkan1.1", "-o", str(path)]
    done = tool.run(arguments, text.encode(), 60)
    assert done.returncode == 0, done.stdout
    return SpirvModule.from_file(path)


def without_source(module: SpirvModule, generator: int) -> SpirvModule:
    """The module of another generator, without OpSource."""
    words = array.array("I", module.code)
    words[2] = generator << 16
    at = 5
    while words[at] & 0xFFFF != 3:
        at += words[at] >> 16
    del words[at : at + (words[at] >> 16)]
    return SpirvModule.from_bytes(words.tobytes(), name="stripped")


def matrix_lines(module: SpirvModule) -> list[str]:
    return [line.strip() for line in str(module).splitlines() if line.startswith("  matrices: ")]


@pytest.mark.parametrize("layout", ["", "row_major", "column_major"])
@pytest.mark.parametrize("holder", HELD_BY)
def test_products_are_those_of_numpy_wherever_the_matrix_is(driver: Driver, tmp_path: Path, holder: str, layout: str) -> None:
    buffers, pair = HELD_BY[holder]
    kernel = driver.compile(hlsl(PRODUCTS.format(layout=layout, buffers=buffers, pair=pair), tmp_path / "m.spv"))
    given = {"first": 1.0, "wide": WIDE, "square": SQUARE}
    zero = {"first": 0.0, "wide": 0 * WIDE, "square": 0 * SQUARE}
    y, v = np.zeros(9, np.float32), np.float32([1, 10, 100])
    match holder:
        case "push constants":
            out = kernel(y, push_constants={"pair": given}, workgroups=(1,))
        case "a storage buffer":
            out = kernel([zero, given], y, workgroups=(1,))
        case "a uniform block":
            out = kernel({"pair": given}, y, workgroups=(1,))
        case _:
            out = kernel({"pairs": [zero, given]}, y, workgroups=(1,))
    assert out.tolist() == [*(WIDE @ v), *(SQUARE @ v), *(v @ SQUARE), WIDE[1, 2]]


@pytest.mark.parametrize("rows", [2, 3, 4])
@pytest.mark.parametrize("columns", [2, 3, 4])
@pytest.mark.parametrize("layout", ["row_major", "column_major"])
def test_results_come_back_with_the_rows_and_columns_of_the_source(
    driver: Driver, tmp_path: Path, layout: str, rows: int, columns: int
) -> None:
    kernel = driver.compile(hlsl(COPIES.replace("TYPE", f"{layout} float{rows}x{columns}"), tmp_path / "m.spv"))
    given: NDArray[np.float32] = np.arange(2 * rows * columns, dtype=np.float32).reshape(2, rows, columns)
    expected = given.copy()
    expected[:, 0, 1] = 7
    values = [{"m": matrix} for matrix in given]
    assert kernel(values, values, workgroups=(2,))["m"].tolist() == expected.tolist()


def test_a_module_of_slang_is_read_as_slang_has_it(layered: Driver) -> None:
    module = SpirvModule.from_file(SLANG)
    v, out = np.float32([[1, 10, 100]]), np.zeros((1, 2, 3), np.float32)
    products, copies = layered.compile(module)({"m": SQUARE, "k": WIDE}, v, np.zeros((1, 3), np.float32), out, workgroups=(1,))
    assert (products.tolist(), copies.tolist()) == ([(SQUARE @ v[0]).tolist()], [WIDE.tolist()])


def test_print_says_whose_rows_and_columns_they_are(tmp_path: Path) -> None:
    module = hlsl(COPIES.replace("TYPE", "float2x3"), tmp_path / "m.spv")
    of_hlsl = "matrices: as in HLSL and Slang, mul(m, v) is m @ v; mat3x2 is float2x3, of shape (2, 3)"
    assert matrix_lines(module) == [of_hlsl]
    assert matrix_lines(SpirvModule.from_file(SLANG)) == [of_hlsl]
    assert matrix_lines(hlsl(COPIES.replace("TYPE", "float4").replace("[0][1]", "[1]"), tmp_path / "v.spv")) == []
    text = "#version 450\nlayout(binding = 0) buffer X { mat2x3 x[]; };\nvoid main() { x[0][1][2] = 1.0; }"
    assert matrix_lines(glsl(text)) == []


@pytest.mark.parametrize("generator", [14, 40])
def test_a_compiler_of_hlsl_or_slang_stands_for_a_source_that_is_stripped(tmp_path: Path, generator: int) -> None:
    module = without_source(hlsl(COPIES.replace("TYPE", "float2x3"), tmp_path / "m.spv"), generator)
    assert module.interface.stores_rows_as_columns
    why = "no source language is named, and the compiler is of one of them"
    expected = f"matrices: as in HLSL and Slang ({why}), mul(m, v) is m @ v; mat3x2 is float2x3, of shape (2, 3)"
    assert matrix_lines(module) == [expected]


def test_json_says_whose_rows_and_columns_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def convention(code: bytes) -> object:
        (tmp_path / "of.spv").write_bytes(code)
        assert main(["spirv", str(tmp_path / "of.spv"), "--json"]) == 0
        return json.loads(capsys.readouterr().out)["matrices"]

    module = hlsl(COPIES.replace("TYPE", "float2x3"), tmp_path / "m.spv")
    text = "#version 450\nlayout(binding = 0) buffer X { TYPE x[]; };\nvoid main() { x[0][1] = x[1][1]; }"
    assert convention(module.code) == {"as_in": "HLSL", "assumed": False}
    assert convention(without_source(module, 14).code) == {"as_in": "HLSL", "assumed": True}
    assert convention(without_source(module, 8).code) == {"as_in": "GLSL", "assumed": True}
    assert convention(glsl(text.replace("TYPE", "mat2x3")).code) == {"as_in": "GLSL", "assumed": False}
    assert convention(glsl(text.replace("TYPE", "vec2")).code) is None


def test_without_a_source_language_matrices_are_taken_for_those_of_glsl(tmp_path: Path) -> None:
    module = without_source(hlsl(COPIES.replace("TYPE", "float2x3"), tmp_path / "m.spv"), 8)
    assert not module.interface.stores_rows_as_columns
    assert matrix_lines(module) == ["matrices: as in GLSL (no source language is named), m * v is m @ v"]
