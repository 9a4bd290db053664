"""What conv2d refuses, which dispatches a call is, and what it is held against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from literals import DEVICE, refusal

from vyre_driver.autotune.measure.definition import DeviceFacts, Operand
from vyre_driver.errors import InvalidInput, LimitExceeded, VyreError
from vyre_driver.kernels.convolution import MOST, Window, convolution

if TYPE_CHECKING:
    from vyre_driver.autotune.measure.definition import Plan
    from vyre_driver.kernels.convolution import Convolution

FACTS = DeviceFacts(DEVICE, frozenset({"storageBuffer16BitAccess", "storageBuffer8BitAccess"}))
F16, F32, I8 = (np.dtype(one) for one in (np.float16, np.float32, np.int8))
PLAIN = convolution("float16", bias=False)
BIASED = convolution("float16")
WITH_ALL = convolution("float16", residual=True, activation="gelu")
LAST = "Fix: channels are the last axis: .transpose(0, 2, 3, 1) of an array with channels second; one image is a batch of one."


def given(
    x: tuple[int, ...], weight: tuple[int, ...], dtype: np.dtype[Any] = F16, **extra: tuple[int, ...]
) -> dict[str, Operand]:
    return {name: Operand(shape, dtype) for name, shape in {"x": x, "weight": weight, **extra}.items()}


def planned(definition: Convolution, operands: dict[str, Operand], parts: int = 1, **parameters: float) -> Plan:
    space = definition.space(FACTS)
    candidate = space.candidate(TILE_X=64, TILE_Y=32, SPLIT_K=parts, WORKGROUP_X=8, WORKGROUP_Y=8)
    return definition.plan(definition.call(operands, parameters, candidate, FACTS))


REFUSED: dict[str, tuple[Convolution, dict[str, Operand], type[VyreError], str]] = {
    "one image": (
        *(BIASED, given((8, 8, 4), (2, 3, 3, 4)), InvalidInput),
        f"x of conv2d has the shape (8, 8, 4), and must have four axes: batch, height, width, channels. {LAST}",
    ),
    "weights as a matrix": (
        *(BIASED, given((1, 8, 8, 4), (2, 36)), InvalidInput),
        (
            "weight of conv2d has the shape (2, 36), and must have four axes: "
            f"out channels, kernel height, kernel width, channels. {LAST}"
        ),
    ),
    "channels second, or groups": (
        *(BIASED, given((1, 8, 8, 4), (6, 3, 3, 2)), InvalidInput),
        (
            "x of conv2d has the shape (1, 8, 8, 4) and weight (6, 3, 3, 2): 4 and 2 channels in the last axis, and these "
            "must be as many, since there are no groups. Fix: move the channels to the last axis of both by "
            ".transpose(0, 2, 3, 1); convolve each group by itself."
        ),
    ),
    "no pixels": (
        *(BIASED, given((1, 0, 8, 4), (2, 1, 1, 4)), InvalidInput),
        (
            "the height of x of conv2d is 0 and that of weight 1, and neither may be 0. "
            "Fix: give images and kernels of one pixel at least."
        ),
    ),
    "no taps": (
        *(BIASED, given((1, 8, 8, 4), (2, 1, 0, 4)), InvalidInput),
        (
            "the width of x of conv2d is 8 and that of weight 0, and neither may be 0. "
            "Fix: give images and kernels of one pixel at least."
        ),
    ),
    "a kernel that is larger than the image and its padding": (
        *(convolution("float16", window=Window((1, 1), (3, 1), (1, 3))), given((1, 8, 4, 4), (2, 3, 3, 4)), InvalidInput),
        (
            "weight of conv2d reaches over 7 pixels of the width (3 taps, dilation 3), and x has 6 (4, padding 1 on both "
            "sides). Fix: take more padding, larger images or a smaller kernel."
        ),
    ),
    "too large an image": (
        *(convolution("float16", window=Window(padding=(1 << 30, 0))), given((1, 8, 4, 4), (2, 3, 3, 4)), LimitExceeded),
        (
            "x of conv2d has the height 8, with padding 2147483656, and 2147483647 are allowed. "
            "Fix: take less padding, or parts of the images."
        ),
    ),
    "another type": (
        *(BIASED, given((1, 8, 8, 4), (2, 3, 3, 4), F32), InvalidInput),
        ("x of conv2d is of float32, and must be of float16. Fix: convert it with .astype(), or take the kernel of its type."),
    ),
    "a bias of other channels": (
        *(BIASED, given((1, 8, 8, 4), (2, 3, 3, 4), bias=(4,)), InvalidInput),
        "bias of conv2d has the shape (4,), and must have (2,). Fix: give an array of that shape.",
    ),
    "a residual of another shape": (
        *(
            convolution("float16", residual=True),
            given((1, 8, 8, 4), (2, 3, 3, 4), bias=(2,), residual=(1, 8, 8, 2)),
            InvalidInput,
        ),
        ("residual of conv2d has the shape (1, 8, 8, 2), and must have (1, 6, 6, 2). Fix: give an array of that shape."),
    ),
    "sums that int32 may not hold": (
        *(convolution("int8", bias=False), given((1, 8, 8, 1 << 15), (2, 2, 2, 1 << 15), I8), LimitExceeded),
        (
            "conv2d would sum 131072 products of int8 as int32, which holds the sum of any 131071. "
            "Fix: multiply parts of at most 131071 along k, and add them as int64."
        ),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_by_name(case: str) -> None:
    definition, operands, error, message = REFUSED[case]
    found = refusal(lambda: definition.size(operands, {}))
    assert (found[0], found[2]) == (error, message)


@pytest.mark.parametrize(
    ("name", "value", "least", "meant"),
    [
        *(("stride", one, 1, (1, 1)) for one in ((0, 1), (1, -1), (1.0, 1), (True, 1), (1, MOST + 1), (2, 2, 2), (), 0, None)),
        *(("stride", one, 1, (2, 2)) for one in (2, (2,), [2, 2], (np.int64(2), 2))),
        *(("padding", one, 0, (1, 1)) for one in ("same", (0, -1), [1, 1])),
        ("padding", 0, 0, (0, 0)),
        ("dilation", (1, 0), 1, (1, 1)),
        ("dilation", [2, 3], 1, (2, 3)),
    ],
)
def test_strides_padding_and_dilation_are_two_numbers(name: str, value: Any, least: int, meant: tuple[int, int]) -> None:  # noqa: ANN401 -- wrong ones
    assert refusal(lambda: convolution("float16", window=Window(**{name: value})))[::2] == (
        InvalidInput,
        (
            f"{name} of conv2d is {value!r}, and must be two ints from {least} to 2147483647, down and across. "
            f"Fix: give a tuple such as {meant}."
        ),
    )


def test_int8_takes_a_bias_with_results_that_are_no_sums() -> None:
    assert refusal(lambda: convolution("int8"))[::2] == (
        InvalidInput,
        (
            "results of int32 are sums of int8 as they are, and int8 with bias=True, residual=False, activation=None was asked "
            "for. Fix: give out_dtype float32, float16 or bfloat16."
        ),
    )


def test_names_tell_types_and_what_becomes_of_sums() -> None:
    made = [convolution("float16", out_dtype="float16"), convolution("float16", out_dtype="float32"), WITH_ALL, PLAIN]
    made += [
        convolution("bfloat16"),
        convolution("int8", out_dtype="int32", bias=False),
        convolution("int8", out_dtype="float32", bias=True),
    ]
    assert [one.name for one in made] == [
        *("conv2d_f16", "conv2d_f16_f32", "conv2d_f16_residual_gelu", "conv2d_f16_no_bias"),
        *("conv2d_bf16", "conv2d_int8_no_bias", "conv2d_int8_f32"),
    ]


def test_windows_are_the_rows_of_one_product() -> None:
    definition = convolution("float16", bias=False, window=Window((2, 3), (1, 2), (2, 1)))
    plan = planned(definition, given((5, 9, 8, 16), (70, 3, 4, 16)), scale=2.0)
    (step,), across = plan.steps, -(-5 * 4 * 3 // 32) * 2
    assert plan.outputs == {"out": Operand((5, 4, 3, 70), F16)}
    assert (step.buffers, step.workgroups, step.views) == (("x", "weight", "out"), (across, 1, 1), {})
    assert step.push_constants == {
        "m": 60,
        "n": 70,
        "k": 192,
        "a_stride": 16,
        "b_stride": 192,
        "c_stride": 70,
        "a_batch": 0,
        "b_batch": 0,
        "c_batch": 4200,
        "parts": 1,
        "k_part": 192,
        "scale": 0x4000_0000,
        "height": 9,
        "width": 8,
        "out_height": 4,
        "out_width": 3,
        "kernel_width": 4,
        "stride_y": 2,
        "stride_x": 3,
        "padding_y": 1,
        "padding_x": 2,
        "dilation_y": 2,
        "dilation_x": 1,
    }


def test_pixels_in_their_order_are_a_product_of_matrices() -> None:
    operands = given((2, 5, 6, 8), (16, 1, 1, 8))
    dilated = convolution("float16", bias=False, window=Window(dilation=(3, 3)))
    pushed = [set(planned(one, operands).steps[0].push_constants) for one in (PLAIN, dilated)]
    others = [Window(stride=(1, 2)), Window(padding=(1, 0))]
    windows = [planned(convolution("float16", bias=False, window=one), operands).steps[0].push_constants for one in others]
    assert [len(one) for one in (*pushed, *windows)] == [12, 12, 23, 23]


def test_sums_in_parts_are_added_up() -> None:
    operands = given((1, 6, 6, 64), (8, 3, 3, 64), bias=(8,), residual=(1, 4, 4, 8))
    plan = planned(WITH_ALL, operands, 4)
    assert [one.buffers for one in plan.steps] == [("x", "weight", "partial"), ("partial", "out", "bias", "residual")]
    assert plan.temporaries == {"partial": Operand((4 * 16 * 8,), F32)}


def test_expected_is_what_loops_over_windows_give() -> None:
    window, size = Window((2, 1), (1, 2), (1, 2)), (2, 6, 5, 3, 4, 3, 2)
    definition = convolution("float32", window=window)
    (x, weight, bias), _ = definition.example(size, 1)
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (2, 2), (0, 0)))
    want = np.zeros((2, 3, 7, 4))
    for image, y, column, n in np.ndindex(want.shape):
        seen = padded[image, 2 * y : 2 * y + 3, column : column + 3 : 2]
        want[image, y, column, n] = (seen * weight[n]).sum() + bias[n]
    assert np.abs(definition.expected(x, weight, bias) - want).max() < 1e-6
    assert (
        definition.size({"x": Operand(x.shape, F32), "weight": Operand(weight.shape, F32), "bias": Operand((4,), F32)}, {})
        == size
    )


def test_a_size_tells_what_is_moved_and_computed() -> None:
    size = (2, 6, 5, 3, 4, 3, 2)
    assert (PLAIN.moved_bytes(size), PLAIN.operations(size)) == (2 * (180 + 72 + 128), 2 * 32 * 4 * 18)
    assert PLAIN.tolerance(size) == 2.0**-23 * (16 + 18 / 8) + 2.0**-10
