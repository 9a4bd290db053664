"""Shaders as text: signatures, and what ``vyre-driver spirv`` prints; the texts lie in text/."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kernels import glsl

from vyre_driver.spirv.interface import SpecConstant
from vyre_driver.spirv.layout import Scalar
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.spirv.signature import default_text

if TYPE_CHECKING:
    from conftest import RunChild

TEXT = Path(__file__).parent / "text"
SHADERS = sorted(TEXT.glob("*.comp"))
SIGNATURES = {
    "saxpy": "kernel(x: f32[n] in, y: f32[n] inout; push: alpha f32, count u32)",
    "byte_histogram": "kernel(words: u32[n] in, counts: u32[256] inout; push: byte_count u32)",
    "mandelbrot": (
        "kernel(escape: f32[n] out; MAX_ITERATIONS: u32 = 256; push: left f32, top f32, step f32, width u32, height u32)"
    ),
}
HEAD = "#version 450\nlayout(local_size_x = 64) in;\n"


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_shipped_shader_has_the_signature_that_its_source_states(name: str) -> None:
    assert shipped_module(name).signature == SIGNATURES[name]


DECLARED = {
    "": "kernel()",
    "layout(constant_id = 0) const uint TILE = 16; layout(binding = 0) buffer Y { float y[]; };": (
        "kernel(y: f32[n] inout; TILE: u32 = 16)"
    ),
    "layout(binding = 0) buffer B { uint size; vec4 data[]; } b;": "kernel(b: {size: u32, data: vec4<f32>[n]} inout)",
    "struct P { uint a; float b; }; layout(binding = 0) readonly buffer B { P data[]; } b;": "kernel(b: P[n] in)",
    "layout(binding = 1) uniform U { mat4 turn; } u; layout(binding = 0) writeonly buffer Y { int y; };": (
        "kernel(y: i32 out, u: mat4x4<f32> in)"
    ),
    "layout(binding = 0) buffer B { float data[]; } many[3];": "kernel(many: 3 x f32[n] inout)",
    "layout(binding = 2, r32f) readonly uniform image2D picture;": "kernel(picture: storage image in)",
    "layout(push_constant) uniform P { vec3 at; double wide; } p;": "kernel(push: at vec3<f32>, wide f64)",
}


@pytest.mark.parametrize("declaration", DECLARED)
def test_a_signature_shows_types_access_defaults_and_push_constants(declaration: str) -> None:
    body = "uint t = TILE;" if "TILE" in declaration else "double w = p.wide;" if "wide" in declaration else ""
    assert glsl(f"{HEAD}{declaration}\nvoid main() {{ {body} }}\n").signature == DECLARED[declaration]


@pytest.mark.parametrize(
    ("scalar", "bits", "text"),
    [
        (Scalar("u", 32), 2**32 - 1, "4294967295"),
        (Scalar("i", 32), 2**32 - 3, "-3"),
        (Scalar("i", 16), 2**16 - 3, "-3"),
        (Scalar("i", 64), 2**63, str(-(2**63))),
        (Scalar("b", 32), 1, "true"),
        (Scalar("b", 32), 0, "false"),
        (Scalar("f", 32), 0x3DCC_CCCD, "0.1"),
        (Scalar("f", 32), 0xBF00_0000, "-0.5"),
        (Scalar("f", 32), 0x7F7F_FFFF, "3.4028235e+38"),
        (Scalar("f", 32), 0x8000_0000, "-0.0"),
        (Scalar("f", 32), 0x7F80_0000, "inf"),
        (Scalar("f", 32), 0x7FC0_0001, "nan"),
        (Scalar("f", 16), 0x2E66, "0.1"),
        (Scalar("f", 64), 0x3FB9_9999_9999_999A, "0.1"),
    ],
)
def test_a_default_is_shown_as_the_value_of_its_type(scalar: Scalar, bits: int, text: str) -> None:
    assert default_text(SpecConstant("c", 0, scalar, bits)) == text


def test_the_signatures_of_several_entry_points_are_a_line_each(tmp_path: Path) -> None:
    tool = shutil.which("glslangValidator")
    assert tool is not None
    (tmp_path / "a.comp").write_text(f"{HEAD}layout(binding = 0) buffer Y {{ float y[]; }};\nvoid main() {{ y[0] = 1.0; }}\n")
    command = [tool, "-V", "-e", "fill", "--source-entrypoint", "main", "-o", "a.spv", "a.comp"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert SpirvModule.from_file(tmp_path / "a.spv").signature == "fill(y: f32[n] inout)"


@pytest.mark.parametrize("path", SHADERS, ids=[path.stem for path in SHADERS])
def test_a_shader_is_summed_up_as_it_was(path: Path, run_here: RunChild, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(TEXT)
    done = run_here("spirv", path.name)
    assert (done.status, done.stdout) == (0, path.with_suffix(".spirv.txt").read_text("utf-8"))


@pytest.mark.parametrize("path", SHADERS, ids=[path.stem for path in SHADERS])
def test_a_shader_is_summed_up_as_the_same_data_as_before(
    path: Path, run_here: RunChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(TEXT)
    done = run_here("spirv", path.name, "--json")
    found = json.loads(done.stdout)
    varying = {"generator": found.pop("generator"), "byte_len": found.pop("byte_len")}  # of the compiler
    assert all(isinstance(value, int) for value in varying.values())
    assert found == json.loads(path.with_suffix(".spirv.json").read_text("utf-8"))


def test_there_are_three_shaders_to_sum_up() -> None:
    assert [path.stem for path in SHADERS] == ["everything", "foreign", "views"]
