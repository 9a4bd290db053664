"""The attributes that a tuned kernel and a pool's kernel share with a kernel."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver import DriverPool, Kernel, SpirvModule, kernels
from vyre_driver.pool import PooledKernel
from vyre_driver.process.tools import SPIRV_DIS, find_tool
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from vyre_driver import Driver
    from vyre_driver.vulkan import PhysicalDevice

pytestmark = pytest.mark.device

X = np.arange(100, dtype=np.float32)
has_disassembler = find_tool(SPIRV_DIS) is not None


def test_a_tuned_kernel_names_itself_its_space_and_what_was_chosen(layered: Driver) -> None:
    saxpy = kernels.saxpy(layered)
    first, before = saxpy.candidates[0], repr(saxpy)
    saxpy(X, X, alpha=2.0)
    saxpy(X[:7], X[:7])
    space = f"{len(saxpy.candidates)} candidates of WORKGROUP_X, UNROLL, TURNS"
    assert before == f"<vyre_driver.TunedKernel saxpy(x, y; alpha=1.0), {space}, nothing chosen yet>"
    assert repr(saxpy) == f"<vyre_driver.TunedKernel saxpy(x, y; alpha=1.0), {space}, chosen for 7: {first}>"
    assert (saxpy.name, saxpy.signature, saxpy.constants) == ("saxpy", "saxpy(x, y; alpha=1.0)", dict(first.constants))
    assert saxpy.workgroup_size == first.workgroup_size
    assert [one.name for one in saxpy.kernels] == ["saxpy_vectors.spv"]
    assert [one.name for one in saxpy.kernels[0].push_constants] == ["alpha", "count"]


def test_a_tuned_kernels_signature_is_that_of_its_calls(layered: Driver) -> None:
    found = {
        made.name: [(one.name, one.kind.name, one.default) for one in inspect.signature(made).parameters.values()]
        for made in (kernels.matmul(layered), kernels.histogram(layered))
    }
    position, out = "POSITIONAL_ONLY", ("out", "KEYWORD_ONLY", None)
    assert found == {
        "matmul": [("a", position, inspect.Parameter.empty), ("b", position, inspect.Parameter.empty), out],
        "histogram": [("x", position, inspect.Parameter.empty), ("bins", "KEYWORD_ONLY", 256), out],
    }


@pytest.mark.parametrize(
    ("declaration", "shown"),
    [
        ("buffer X { float x[]; }", "x: f32[n] inout"),
        ("buffer X { vec4 x[]; }", "x: vec4<f32>[n] inout"),
        ("buffer X { uint n; vec4 x[]; }", "X: {n: u32, x: vec4<f32>[n]} inout"),
        ("buffer X { uint n; Item x[]; }", "X: {n: u32, x: Item[n]} inout"),
        ("buffer X { Item x[]; }", "x: Item[n] inout"),
        ("buffer X { float x[][4]; }", "x: f32[n][4] inout"),
        ("buffer X { mat4x3 x[3]; }", "x: mat4x3<f32>[3] inout"),
        ("buffer X { float x; vec3 y; }", "X: {x: f32, y: vec3<f32>} inout"),
        ("writeonly buffer X { ivec2 x[7]; }", "x: vec2<i32>[7] out"),
    ],
)
def test_a_kernel_shows_its_buffers_as_its_module_does(layered: Driver, declaration: str, shown: str) -> None:
    text = f"#version 450\nstruct Item {{ float a; }};\nlayout(binding = 0) {declaration};\nvoid main() {{}}"
    module = SpirvModule.from_glsl(text, name="described")
    kernel = layered.compile(module)
    assert (module.signature, kernel.signature) == (f"kernel({shown})", f"described({shown})")
    assert f"<td>{shown.partition(': ')[2].replace('<', '&lt;').replace('>', '&gt;')}</td>" in kernel._repr_html_()


def test_a_kernel_shows_all_views_of_a_buffer_as_its_module_does(layered: Driver) -> None:
    text = (
        "#version 450\nstruct Item { uint n; float a[3]; };\nlayout(binding = 0) readonly buffer X { float x[]; };\n"
        "layout(binding = 0) readonly buffer V { vec4 x4[]; };\nlayout(binding = 0) readonly buffer I { Item items[]; };\n"
        "layout(binding = 1) buffer Y { float y[]; };\nlayout(binding = 1) buffer Z { float z[]; };\n"
        "void main() { y[0] = x[0] + x4[0].x + items[0].a[1]; z[1] = 1.0; }"
    )
    module = SpirvModule.from_glsl(text, name="views")
    shown = "(x|x4|items: f32[n]|vec4<f32>[n]|Item[n] in, y|z: f32[n] inout)"
    kernel = layered.compile(module)
    assert (module.signature, kernel.signature) == (f"kernel{shown}", f"views{shown}")
    assert "<td>f32[n]|vec4&lt;f32&gt;[n]|Item[n] in</td>" in kernel._repr_html_()


@pytest.mark.parametrize("kind", [Kernel, PooledKernel, kernels.TunedKernel])
def test_the_class_has_the_signature_of_its_init(kind: type) -> None:
    assert list(inspect.signature(kind).parameters) == list(inspect.signature(kind.__init__).parameters)[1:]  # type: ignore[misc]


@pytest.mark.skipif(not has_disassembler, reason="spirv-dis is not installed")
def test_the_code_of_all_modules_of_a_tuned_kernel_is_shown(layered: Driver) -> None:
    text = kernels.transpose(layered).disassemble()
    assert (text.count("OpMemoryModel"), "OpEntryPoint GLCompute" in text) == (2, True)


def test_a_pools_kernel_tells_what_a_kernel_tells(physical_device: PhysicalDevice) -> None:
    name = f"uuid:{physical_device.device_uuid.hex()}"
    with DriverPool([name, name]) as pool:
        pooled = pool.compile(shipped_module("saxpy"))
        kernel = pool.drivers[0].compile(shipped_module("saxpy"))
        for fact in ("name", "signature", "buffers", "push_constants", "constants", "workgroup_size"):
            assert getattr(pooled, fact) == getattr(kernel, fact)
        assert inspect.signature(pooled) == inspect.signature(kernel)
        assert pooled._repr_html_() == kernel._repr_html_()
        if has_disassembler:
            assert pooled.disassemble() == kernel.disassemble()
        told = f"{kernel.signature}, workgroups of 128x1x1"
        found = [repr(pooled)]
        pooled.map([(X, X)] * 8, push_constants={"alpha": 1.0, "count": 100})
        found.append(repr(pooled))
    assert found[0] == f"<vyre_driver.PooledKernel {told}, compiled for 1 device>"
    assert found[1] == f"<vyre_driver.PooledKernel {told}, compiled for 2 devices>"
    assert repr(pooled) == found[1]
