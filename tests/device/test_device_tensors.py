"""Tensors of PyTorch in the memory of the CPU: of bfloat16 as of any other type, as arguments and as ``out``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from kernels import glsl
from literals import refusal

from vyre_driver import Driver, kernels
from vyre_driver.errors import InvalidInput
from vyre_driver.lang import In, Index, InOut, Out, bf16, elementwise, f32, kernel

if TYPE_CHECKING:
    from conftest import RunChild

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

pytestmark = pytest.mark.device

DOUBLED = """#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Y { float y[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < x.length()) { y[i] = 2.0 * x[i]; }
}
"""
COPIED_BITS = """#version 450
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer X { uint16_t x[]; };
layout(set = 0, binding = 1) writeonly buffer Y { uint16_t y[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < x.length()) { y[i] = x[i]; }
}
"""


@kernel
def doubled_floats(i: Index, x: In[f32], y: Out[f32]) -> None:
    y[i] = x[i] * 2.0


@kernel
def doubled_bfloats(i: Index, x: In[bf16], y: Out[bf16]) -> None:
    y[i] = x[i] * 2.0


@kernel
def raised(i: Index, x: InOut[bf16]) -> None:
    x[i] = x[i] + 1.0


@elementwise
def twice(x):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201 -- of any type
    return x * 2.0


def numbers(*shape: int, dtype: str = "float32") -> Any:  # noqa: ANN401 -- PyTorch has no types here
    count = int(np.prod(shape))
    return torch.arange(count, dtype=torch.float32).reshape(shape).to(getattr(torch, dtype))


def test_a_buffer_of_bfloat16_holds_the_bits_of_the_tensor(opened: Driver) -> None:
    tensor = numbers(2, 3, dtype="bfloat16")
    buffer = opened.buffer(tensor)
    assert (buffer.shape, buffer.dtype) == ((2, 3), np.dtype(ml_dtypes.bfloat16))
    assert np.array_equal(buffer.read().view(np.uint16), tensor.view(torch.uint16).numpy())
    out = torch.zeros(2, 3, dtype=torch.bfloat16)
    assert (buffer.read(out=out) is out, bool(torch.equal(out, tensor))) == (True, True)


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)], ids=str)
@pytest.mark.parametrize(("dtype", "held"), [("bfloat16", "bfloat16"), ("float8_e4m3fn", "float8_e4m3fn")])
def test_types_that_numpy_lacks_come_at_any_shape(opened: Driver, shape: tuple[int, ...], dtype: str, held: str) -> None:
    buffer = opened.buffer(numbers(*shape, dtype=dtype))
    assert (buffer.shape, buffer.dtype) == (shape, np.dtype(getattr(ml_dtypes, held)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_a_buffer_of_types_that_numpy_lacks_is_a_tensor_in_the_same_memory(opened: Driver, dtype: str) -> None:
    kind = getattr(torch, dtype)
    buffer = opened.buffer(torch.arange(6.0).reshape(2, 3).to(kind))
    seen = torch.from_dlpack(buffer)
    buffer.fill(torch.tensor(2.0).to(kind))
    buffer[1, :1] = torch.tensor(3.0).to(kind)
    assert (seen.dtype, seen.float().tolist()) == (kind, [[2, 2, 2], [3, 2, 2]])
    copied = torch.from_dlpack(buffer[1], copy=True)
    seen[1, 2] = 4.0
    assert (copied.float().tolist(), buffer.read()[1].astype(np.float32).tolist()) == ([3, 2, 2], [3, 2, 4])
    assert torch.from_dlpack(opened.zeros((0, 3), dtype)).shape == (0, 3)


def test_a_capsule_that_nobody_takes_lets_go_of_the_memory(opened: Driver) -> None:
    buffer = opened.buffer(torch.zeros(1000).bfloat16())
    counts = [sys.getrefcount(buffer.memory)]
    for version in (None, (1, 0)):
        capsule = buffer.__dlpack__(max_version=version)
        counts.append(sys.getrefcount(buffer.memory))
        del capsule
        counts.append(sys.getrefcount(buffer.memory))
    assert [count - counts[0] for count in counts] == [0, 1, 0, 1, 0]


def test_a_transposed_tensor_of_bfloat16_comes_in_its_order(opened: Driver) -> None:
    tensor = numbers(2, 3, dtype="bfloat16")
    assert opened.buffer(tensor.t()).read().astype(np.float32).tolist() == [[0, 3], [1, 4], [2, 5]]


def test_python_kernels_read_and_write_tensors_of_bfloat16_in_place() -> None:
    x, y = numbers(6, dtype="bfloat16"), torch.zeros(6, dtype=torch.bfloat16)
    assert doubled_bfloats(x).astype(np.float32).tolist() == [0, 2, 4, 6, 8, 10]
    assert (doubled_bfloats(x, y=y) is y, y.tolist()) == (True, [0, 2, 4, 6, 8, 10])
    raised(x)
    assert x.tolist() == [1, 2, 3, 4, 5, 6]


def test_elementwise_functions_write_a_tensor_and_return_it() -> None:
    out = torch.zeros(6)
    assert (twice(numbers(6), out=out) is out, out.tolist()) == (True, [0, 2, 4, 6, 8, 10])


def test_included_kernels_write_a_tensor_and_return_it(opened: Driver) -> None:
    softmax, x = kernels.softmax(opened), numbers(2, 3)
    right = torch.softmax(x, -1)
    for arrays in ((x,), (x,), (opened.buffer(x),)):
        out = torch.zeros(2, 3)
        assert (softmax(*arrays, out=out) is out, bool(torch.allclose(out, right))) == (True, True)
    a, out = numbers(2, 3, dtype="bfloat16"), torch.zeros(2, 2, dtype=torch.bfloat16)
    product = kernels.matmul(opened, "bfloat16", out_dtype="bfloat16", transpose_b=True)
    assert (product(a, a, out=out) is out, out.tolist()) == (True, [[5, 14], [14, 50]])


def test_weights_that_are_tensors_are_quantized_as_arrays_are() -> None:
    weight = numbers(4, 64) - 128
    for quantized in (kernels.quantized_int4, kernels.quantized_int8):
        for found, right in zip(quantized(weight), quantized(weight.numpy()), strict=True):
            assert np.array_equal(found, right)
        rounded = weight.to(torch.bfloat16)
        for found, right in zip(quantized(rounded), quantized(rounded.float().numpy()), strict=True):
            assert np.array_equal(found, right)


@pytest.mark.parametrize("way", ["1", "python"])
def test_python_kernels_take_tensors_of_bfloat16_without_a_device_too(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv("VYRE_INTERPRET", way)
    x, y = numbers(6, dtype="bfloat16"), torch.zeros(6, dtype=torch.bfloat16)
    assert (doubled_bfloats(x, y=y) is y, y.tolist()) == (True, [0, 2, 4, 6, 8, 10])


def test_glsl_kernels_write_a_tensor_and_return_it_at_each_call(opened: Driver) -> None:
    doubled, x = opened.compile(glsl(DOUBLED)), numbers(6)
    for given in (x, x, x.numpy(), opened.buffer(x)):
        out = torch.zeros(6)
        assert (doubled(given, out=out) is out, out.tolist()) == (True, [0, 2, 4, 6, 8, 10])
    by_name, in_tuple = torch.zeros(6), torch.zeros(6)
    assert (doubled(x, out={"y": by_name}) is by_name, doubled(x, out=(in_tuple,)) is in_tuple) == (True, True)
    assert (by_name.tolist(), in_tuple.tolist()) == ([0, 2, 4, 6, 8, 10],) * 2


def test_a_shader_of_words_takes_and_gives_the_bits_of_bfloat16(opened: Driver) -> None:
    copied, x, out = (
        opened.compile(glsl(COPIED_BITS)),
        numbers(6, dtype="bfloat16"),
        numbers(6, dtype="bfloat16") + 7,
    )
    assert (copied(x, out=out) is out, bool(torch.equal(out, x))) == (True, True)


def test_streams_write_tensors_and_give_them_back(opened: Driver) -> None:
    doubled, x = opened.compile(glsl(DOUBLED)), numbers(6)
    outs = [torch.zeros(6) for _ in range(3)]
    results = list(opened.stream(doubled, [x, x + 1, x + 2], out=outs))
    assert [result is out for result, out in zip(results, outs, strict=True)] == [True] * 3
    assert outs[2].tolist() == [4, 6, 8, 10, 12, 14]


def test_isolated_kernels_write_a_tensor_and_return_it() -> None:
    with Driver(isolated=True) as isolated:
        doubled, x = isolated.compile(glsl(DOUBLED)), numbers(6)
        for _ in range(2):
            out = torch.zeros(6)
            assert (doubled(x, out=out) is out, out.tolist()) == (True, [0, 2, 4, 6, 8, 10])


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (
            torch.zeros(6, requires_grad=True),
            (
                "out= got something that is not an array (Can't call numpy() on Tensor that requires grad. "
                "Use tensor.detach().numpy() instead.). Fix: pass tensor.detach()."
            ),
        ),
        (
            torch.zeros(12)[::2],
            "out= for output 'y' is not contiguous. Fix: give a contiguous array that can be written to, and copy from that.",
        ),
        (
            torch.zeros(6, dtype=torch.float64),
            (
                "out= has shape (6,) and type float64, and output 'y' gives shape (6,) and type float32. "
                "Fix: give numpy.empty((6,), 'float32')."
            ),
        ),
    ],
    ids=["requires grad", "strided", "of another type"],
)
def test_a_tensor_that_cannot_be_written_is_refused_as_an_array_is(opened: Driver, out: object, message: str) -> None:
    doubled = opened.compile(glsl(DOUBLED))
    assert refusal(lambda: doubled(numbers(6), out=out)) == (InvalidInput, 2201, message)


def test_a_tensor_of_bfloat16_that_requires_grad_is_refused(opened: Driver) -> None:
    assert refusal(lambda: opened.buffer(torch.zeros(6, dtype=torch.bfloat16, requires_grad=True))) == (
        InvalidInput,
        2201,
        (
            "a buffer got something that is not an array (Can't call numpy() on Tensor that requires grad. "
            "Use tensor.detach().numpy() instead.). Fix: pass tensor.detach()."
        ),
    )


@pytest.mark.parametrize(
    "tensor", [torch.zeros(4).to_sparse(), torch.zeros(4, device="meta"), torch.zeros(4, dtype=torch.complex64).conj().imag]
)
def test_a_tensor_that_numpy_cannot_read_is_refused_with_the_words_of_pytorch(opened: Driver, tensor: object) -> None:
    kind, code, message = refusal(lambda: opened.buffer(tensor))
    assert (kind, code) == (InvalidInput, 2201)
    assert message.endswith("). Fix: convert the tensor as PyTorch says, or pass a numpy array.")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32"])
def test_the_fix_for_a_tensor_of_another_type_is_pytorchs(opened: Driver, dtype: str) -> None:
    doubled = opened.compile(glsl(DOUBLED))
    problem = f"input 'x' holds float32 and got an array of {dtype}. Fix: pass tensor.to(torch.float32)."
    tensor = torch.zeros(6, dtype=getattr(torch, dtype))
    assert refusal(lambda: doubled(tensor, out_shapes={"y": 6})) == (InvalidInput, 2201, problem)


def test_pytorch_is_not_imported_for_those_who_do_not_use_it(run_python: RunChild) -> None:
    code = (
        "import sys, numpy\n"
        "from vyre_driver import Driver, kernels\n"
        "with Driver() as driver:\n"
        "    kernels.softmax(driver)(numpy.ones((1, 2), numpy.float32), out=numpy.zeros((1, 2), numpy.float32))\n"
        "print('torch' in sys.modules)\n"
    )
    done = run_python("-c", code)
    assert (done.status, done.stderr, done.stdout) == (0, "", "False\n")
