"""Which arrays go in, which come out, and of what type."""

from __future__ import annotations

import dataclasses
import itertools
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import glsl
from lacking_devices import lack_features

import vyre_driver.driver
from vyre_driver import Driver, SpirvModule
from vyre_driver.errors import DeviceOutOfMemory, InvalidInput, LimitExceeded, UnsupportedFeature
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan import enumerate_devices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import CompileText
    from numpy.typing import NDArray

    from vyre_driver import Kernel
    from vyre_driver.vulkan import PhysicalDevice

pytestmark = pytest.mark.device

ITEM = np.dtype([("id", "<u4"), ("weight", "<f4"), ("at", "<f4", (2,))])
STRUCTURES = """
struct Item { uint id; float weight; vec2 at; };
layout(binding = 0) buffer Items { Item items[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < items.length()) { items[i].id += 1u; items[i].weight *= 2.0; items[i].at = items[i].at.yx; }
}
"""
FILL = """
layout(binding = 0) writeonly buffer Filled { %s filled[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < filled.length()) filled[i] = %s; }
"""


def typed(name: str, extension: str = "") -> str:
    """Return a shader that copies an array of a type, and tells how many elements it sees."""
    require = f"#extension {extension} : require\n" if extension else ""
    return f"""#version 450
{require}layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X {{ {name} x[]; }};
layout(binding = 1) writeonly buffer Y {{ {name} y[]; }};
layout(binding = 2) writeonly buffer Seen {{ uint seen[1]; }};
void main() {{
    uint i = gl_GlobalInvocationID.x;
    if (i < x.length()) y[i] = x[i];
    if (i == 0u) seen[0] = x.length();
}}
"""


def test_several_outputs_come_back_as_a_tuple_in_binding_order(compiled: CompileText) -> None:
    kernel = compiled("""
        layout(binding = 0) readonly buffer X { uint x[]; };
        layout(binding = 1) writeonly buffer Doubled { uint doubled[]; };
        layout(binding = 2) buffer Counter { uint counter[1]; };
        void main() {
            uint i = gl_GlobalInvocationID.x;
            if (i < x.length()) { doubled[i] = 2u * x[i]; atomicAdd(counter[0], 1u); }
        }""")
    got = kernel(np.arange(5, dtype=np.uint32), np.array([100], np.uint32), out_shapes={"doubled": 5})
    assert isinstance(got, tuple)
    assert [array.tolist() for array in got] == [[0, 2, 4, 6, 8], [105]]


def test_a_write_only_output_takes_its_size_from_out_counts(compiled: CompileText) -> None:
    got = compiled(FILL % ("uint", "i * i"))(out_shapes={"filled": 70})
    np.testing.assert_array_equal(got, np.arange(70, dtype=np.uint32) ** 2, strict=True)


def test_a_write_only_output_takes_its_size_and_shape_from_an_array(compiled: CompileText) -> None:
    got = compiled(FILL % ("uint", "i"))(np.full((2, 3), 9, np.uint32))
    np.testing.assert_array_equal(got, np.arange(6, dtype=np.uint32).reshape(2, 3), strict=True)


def test_a_write_only_output_of_fixed_size_needs_neither_array_nor_count(compiled: CompileText) -> None:
    text = FILL.replace("filled[];", "filled[3];") % ("uint", "i + 7u")
    np.testing.assert_array_equal(compiled(text)(), np.array([7, 8, 9], np.uint32), strict=True)


def test_a_read_write_buffer_comes_back_as_a_copy_and_the_callers_array_stays(saxpy: Kernel) -> None:
    x, y = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    got = saxpy(x, y, push_constants={"alpha": 2, "count": 8})
    assert (np.shares_memory(got, y), y.tolist(), got.tolist()) == (False, [1] * 8, (2 * x + 1).tolist())


def test_a_result_outlives_the_next_call_and_the_driver(driver: Driver, saxpy: Kernel) -> None:
    x, zeros = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    first = saxpy(x, zeros, push_constants={"alpha": 1, "count": 4})
    saxpy(x, zeros, push_constants={"alpha": 5, "count": 4})
    driver.close()
    assert first.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("int", np.array([-7, 7, -(2**31)], np.int32), np.array([-3, 3, -(2**30)], np.int32)),
        ("uint", np.array([7, 2**32 - 1, 2**31], np.uint32), np.array([3, 2**31 - 1, 2**30], np.uint32)),
        ("float", np.array([-7, 0.5, 3e38], np.float32), np.array([-3.5, 0.25, 1.5e38], np.float32)),
    ],
)
def test_a_32_bit_scalar_keeps_its_type_and_sign(
    compiled: CompileText, name: str, given: NDArray[Any], expected: NDArray[Any]
) -> None:
    kernel = compiled(f"""
        layout(binding = 0) buffer A {{ {name} a[]; }};
        void main() {{ uint i = gl_GlobalInvocationID.x; if (i < a.length()) a[i] = a[i] / 2; }}""")
    np.testing.assert_array_equal(kernel(given), expected, strict=True)


def test_a_vector_output_has_a_column_for_each_component(compiled: CompileText) -> None:
    got = compiled(FILL % ("vec4", "vec4(i, i + 0.5, -float(i), 1)"))(out_shapes={"filled": 3})
    expected = np.array([[i, i + 0.5, -i, 1] for i in range(3)], np.float32)
    np.testing.assert_array_equal(got, expected, strict=True)


def test_structures_travel_as_a_structured_array(compiled: CompileText) -> None:
    items = np.array([(1, 0.5, (1, 2)), (2, 1.5, (3, 4))], ITEM)
    expected = np.array([(2, 1.0, (2, 1)), (3, 3.0, (4, 3))], ITEM)
    np.testing.assert_array_equal(compiled(STRUCTURES)(items), expected, strict=True)


def test_structures_travel_as_raw_bytes(compiled: CompileText) -> None:
    raw = np.frombuffer(struct.pack("<Ifff", 7, 0.25, 8, 9), np.uint8)
    expected = np.frombuffer(struct.pack("<Ifff", 8, 0.5, 9, 8), np.uint8)
    np.testing.assert_array_equal(compiled(STRUCTURES)(raw), expected, strict=True)


def test_raw_bytes_that_are_no_whole_structures_are_refused(compiled: CompileText) -> None:
    with pytest.raises(InvalidInput) as refused:
        compiled(STRUCTURES)(np.zeros(33, np.uint8))
    assert str(refused.value) == (
        "input_output 'items' has 33 bytes, which is not a whole number of 16-byte elements. Fix: pass whole elements."
    )


def test_a_header_before_the_elements_is_part_of_the_buffer(compiled: CompileText) -> None:
    kernel = compiled("""
        layout(binding = 0) buffer Data { uint scale; uint values[]; } data;
        void main() { uint i = gl_GlobalInvocationID.x; if (i < data.values.length()) data.values[i] *= data.scale; }""")
    got = kernel(np.array([3, 1, 2, 4], np.uint32))
    np.testing.assert_array_equal(got, np.array([3, 3, 6, 12], np.uint32), strict=True)


def test_binding_numbers_may_have_gaps(compiled: CompileText) -> None:
    kernel = compiled("""
        layout(binding = 0) readonly buffer X { uint x[]; };
        layout(binding = 2) writeonly buffer Y { uint y[]; };
        void main() { uint i = gl_GlobalInvocationID.x; if (i < x.length()) y[i] = 3u * x[i]; }""")
    got = kernel(np.array([1, 2, 3], np.uint32), out_shapes={"y": 3})
    np.testing.assert_array_equal(got, np.array([3, 6, 9], np.uint32), strict=True)


def test_a_strided_array_is_read_in_its_own_order(saxpy: Kernel) -> None:
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4).T
    got = saxpy(matrix, np.zeros((4, 3), np.float32), push_constants={"alpha": 1, "count": 12})
    np.testing.assert_array_equal(got, np.ascontiguousarray(matrix), strict=True)


WIDTHS = [
    ("double", "", np.float64, "shaderFloat64"),
    ("int64_t", "GL_EXT_shader_explicit_arithmetic_types_int64", np.int64, "shaderInt64"),
    ("uint8_t", "GL_EXT_shader_8bit_storage", np.uint8, "storageBuffer8BitAccess"),
    ("uint16_t", "GL_EXT_shader_16bit_storage", np.uint16, "storageBuffer16BitAccess"),
]


@pytest.fixture(params=WIDTHS, ids=lambda row: row[0])
def copied(request: pytest.FixtureRequest, opened: Driver) -> tuple[NDArray[Any], Any]:
    """Seven elements of a type (of 8 or 16 bits not a multiple of kompute's 4 bytes), and what a shader made of them."""
    name, extension, dtype, feature = request.param
    if feature not in opened.device.features:
        pytest.skip(f"{opened.device.name} has no {feature}")
    given = np.array([1, 2, 100, 3, 5, 7, 11], dtype)
    return given, opened.compile(glsl(typed(name, extension)))(given, out_shapes={"y": given.size})


def test_a_type_that_is_not_32_bits_wide_works_where_the_device_has_it(copied: tuple[NDArray[Any], Any]) -> None:
    given, (got, _) = copied
    np.testing.assert_array_equal(got, given, strict=True)


def test_a_shader_sees_as_many_elements_as_were_given(copied: tuple[NDArray[Any], Any]) -> None:
    given, (_, seen) = copied
    assert seen.tolist() == [given.size]


def test_a_type_whose_feature_the_device_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lack_features(monkeypatch)
    with Driver() as driver:
        name = driver.device.name
        problem = f"{name!r} does not have shaderFloat64. Fix: rewrite it without, or choose another device."
        with pytest.raises(UnsupportedFeature) as refused:
            driver.compile(glsl(typed("double")))
    assert str(refused.value) == f"the shader needs Float64, and {problem}"


def with_version(word: int) -> SpirvModule:
    code = shipped_module("saxpy").code
    return SpirvModule.from_bytes(code[:4] + struct.pack("=I", word) + code[8:])


def test_spirv_newer_than_the_devices_vulkan_is_refused(opened: Driver) -> None:
    minor, most = {1: (1, "1.3"), 2: (2, "1.5")}.get(opened.context.device.api_version >> 12 & 0x3FF, (3, "1.6"))
    with pytest.raises(UnsupportedFeature) as refused:
        opened.compile(with_version(0x0001_0700))
    assert str(refused.value) == (
        f"the module is SPIR-V 1.7, and the device is open for Vulkan 1.{minor}, which takes at most {most}. "
        f"Fix: compile it for Vulkan 1.{minor} (glslangValidator --target-env vulkan1.{minor})."
    )


def most_words(device: PhysicalDevice) -> int:
    """32-bit words of the largest storage buffer."""
    return min(device.limits.max_storage_buffer_range, 2**32 - 4) // 4


def test_a_buffer_over_the_devices_range_is_refused(driver: Driver, compiled: CompileText) -> None:
    device = driver.device
    limit = min(device.limits.max_storage_buffer_range, 2**32 - 4)
    words = most_words(device) + 1
    with pytest.raises(LimitExceeded) as refused:
        compiled(FILL % ("uint", "i"))(out_shapes={"filled": words}, workgroups=(1,))
    assert str(refused.value) == (
        f"buffer 'filled' has {4 * words} bytes, and {device.name!r} allows {limit} bytes a buffer. Fix: pass it in parts."
    )


def test_buffers_that_fit_one_by_one_but_not_together_are_refused(driver: Driver, compiled: CompileText) -> None:
    heap, words = driver.device.device_local_bytes, most_words(driver.device)
    names = [f"part{i}" for i in range(heap // (4 * words) + 1)]
    declared = [f"layout(binding = {i}) writeonly buffer Part{i} {{ uint part{i}[]; }};\n" for i in range(len(names))]
    kernel = compiled("".join(declared) + "void main() { " + "".join(f"{name}[0] = 1u; " for name in names) + "}")
    with pytest.raises(DeviceOutOfMemory) as refused:
        kernel(out_shapes=dict.fromkeys(names, words), workgroups=(1,))
    # All of the heap is left: nothing was allocated before the refusal.
    requested = refused.value.context["requested_bytes"] % (4 * words * len(names))
    assert (refused.value.context["available_bytes"], requested) == (heap, 0)


@pytest.fixture
def small_driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """A driver whose device says it has 100,000 bytes of its own."""
    small_devices = tuple(
        dataclasses.replace(device, memory_heaps=((100_000, 1), (10**9, 0))) for device in enumerate_devices()
    )
    monkeypatch.setattr(vyre_driver.driver, "enumerate_devices", lambda: small_devices)
    with Driver() as opened:
        yield opened


@pytest.fixture
def small(small_driver: Driver) -> Kernel:
    """Saxpy on the ``small_driver``."""
    return small_driver.compile(shipped_module("saxpy"))


def run_saxpy(kernel: Kernel, count: int) -> bool:
    x = np.arange(count, dtype=np.float32)
    return bool(np.array_equal(kernel(x, x, push_constants={"alpha": 2, "count": count}), 3 * x))


def test_too_little_device_memory_is_told_in_both_numbers(small: Kernel, physical_device: PhysicalDevice) -> None:
    with pytest.raises(DeviceOutOfMemory) as refused:
        run_saxpy(small, 12_501)
    assert str(refused.value) == (
        f"the buffers need 100008 bytes on {physical_device.name!r}, which has 100000 bytes left of 100000 bytes. "
        "Fix: pass smaller arrays, in several calls."
    )


def test_a_call_that_fits_succeeds_after_one_that_did_not(small: Kernel) -> None:
    with pytest.raises(DeviceOutOfMemory):
        run_saxpy(small, 12_501)
    assert run_saxpy(small, 12_500)


def test_buffers_kept_for_earlier_sizes_make_room_for_new_ones(small: Kernel) -> None:
    assert [run_saxpy(small, count) for count in (8000, 8001, 8002)] == [True, True, True]


def test_buffers_of_other_kernels_that_are_gone_leave_room(small_driver: Driver) -> None:
    assert [run_saxpy(small_driver.compile(shipped_module("saxpy")), 8000) for _ in range(5)] == [True] * 5


def test_what_a_buffer_tells_of_itself_is_not_assigned(driver: Driver) -> None:
    buffer = driver.buffer(np.arange(6, dtype=np.float32))
    view = buffer.reshape(2, 3)
    fixes = {"shape": "use reshape(), which gives a view", "dtype": "use view(), which gives a view"}
    for one, name in itertools.product(
        (buffer, view), ("shape", "dtype", "nbytes", "size", "name", "offset", "device", "_storage")
    ):
        for change in (lambda one=one, name=name: setattr(one, name, None), lambda one=one, name=name: delattr(one, name)):
            with pytest.raises(AttributeError) as caught:
                change()
            assert str(caught.value) == f"{name} of a Buffer is read-only. Fix: {fixes.get(name, 'make another Buffer')}."
    with pytest.raises(AttributeError) as caught:
        buffer.label = "x"  # type: ignore[attr-defined]
    assert str(caught.value) == "a Buffer has no attribute 'label', and takes none. Fix: keep the value elsewhere."
    assert (buffer.shape, view.read().tolist()) == ((6,), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
