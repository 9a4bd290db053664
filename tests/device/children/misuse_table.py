"""The misuse matrix: what ends the interpreter, hangs, or silently computes garbage when kompute gets it.

A row is what is wrong, the misuse as code (misuses.py), and the error it must end in; None where the driver makes it work.
test_device_misuse_matrix.py runs them in a process of their own, the rows of ``MORE`` in ``make stress`` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from misuses import (
    ACCESS_CHAIN,
    ADDRESSES,
    CAPABILITY_KERNEL,
    CODE,
    FRESH,
    LOAD,
    RETURN,
    SIZED,
    SPIRV_2,
    TYPED,
    WRITES,
    ZERO,
    X,
    bind,
    body,
    close_while_threads_run,
    closed_before,
    closed_buffer,
    declaring,
    drop_everything_at_once,
    endless,
    follow_an_index_twice,
    groups_after_equal_ones,
    limit,
    result_after_close,
    run,
    saxpy,
    second_of_two_drivers,
    specialized,
    text,
    use_in_a_fork,
    use_what_nothing_defines,
    words,
)

from vyre_driver import Driver, SpecValue, SpirvModule
from vyre_driver.errors import (
    DeviceNotFound,
    DispatchFailed,
    FileUnusable,
    ForkError,
    InvalidInput,
    InvalidModule,
    InvalidPushConstant,
    InvalidSpecialization,
    LimitExceeded,
    ShaderSyntaxError,
    UnsupportedFeature,
    VyreError,
)
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Callable


class Row(NamedTuple):
    """One misuse; the code of ``error`` is its class's."""

    name: str
    misuse: Callable[[Driver], object]
    error: type[VyreError] | None


MATRIX = [
    # What is not a module.
    Row("the magic number is wrong", lambda at: run(at, words(lambda w: w.__setitem__(0, 0x07230204))), InvalidModule),
    Row("all words are big-endian", lambda at: run(at, words(lambda w: w.byteswap())), None),
    Row(
        "only the header is big-endian",
        lambda at: run(at, np.frombuffer(CODE, "u4").byteswap()[:5].tobytes() + CODE[20:]),
        InvalidModule,
    ),
    Row("there is only a header", lambda at: run(at, CODE[:20]), InvalidModule),
    Row("the id bound is 0", lambda at: run(at, words(lambda w: w.__setitem__(3, 0))), InvalidModule),
    Row("the id bound is huge", lambda at: run(at, words(lambda w: w.__setitem__(3, 2**32 - 1))), InvalidModule),
    Row("the version is of tomorrow", lambda at: run(at, words(lambda w: w.__setitem__(1, SPIRV_2))), UnsupportedFeature),
    # What is framed and declared as it should be, and breaks the rules in its functions: drivers die of it.
    Row("a function uses what nothing defines", lambda at: run(at, body(LOAD, use_what_nothing_defines)), InvalidModule),
    Row(
        "a function has a block without an end",
        lambda at: run(at, body(RETURN, lambda w, at: w.__delitem__(at))),
        InvalidModule,
    ),
    Row(
        "a function follows an index too far",
        lambda at: run(at, body(ACCESS_CHAIN, follow_an_index_twice)),
        InvalidModule,
    ),
    Row("the module is a number", lambda at: run(at, 8), InvalidInput),
    Row("compile gets bytes", lambda at: at.compile(CODE), InvalidInput),  # type: ignore[arg-type]
    Row(
        "the device lacks a capability",
        lambda at: run(at, words(lambda w: w.__setitem__(6, CAPABILITY_KERNEL))),
        UnsupportedFeature,
    ),
    # What kompute cannot bind.
    Row("an image", lambda at: declaring(at, "layout(binding = 1, r32f) uniform image2D i;"), UnsupportedFeature),
    Row("a sampler", lambda at: declaring(at, "layout(binding = 1) uniform sampler2D s;"), UnsupportedFeature),
    Row(
        "an array of buffers",
        lambda at: declaring(at, "layout(binding = 1) buffer Z { uint z[]; } many[2];"),
        UnsupportedFeature,
    ),
    Row("no buffer", lambda at: text(at, "layout(local_size_x = 1) in; void main() {}"), UnsupportedFeature),
    Row(
        "a storage buffer and a uniform block at one binding",
        lambda at: declaring(at, "layout(binding = 0) uniform Z { uint z; };", "y[1] = z;"),
        UnsupportedFeature,
    ),
    Row(
        "a gap and another set",
        lambda at: text(at, WRITES.replace("binding = 0", "set = 3, binding = 9"))(np.zeros(4, np.uint32)),
        None,
    ),
    Row("an entry point of another name", lambda at: at.compile(SpirvModule.from_bytes(CODE, entry="other")), InvalidInput),
    # Limits of the device.
    Row(
        "push constants over the limit",
        lambda at: declaring(
            at,
            f"layout(push_constant) uniform P {{ uint p[{limit(at, 'max_push_constants_size') // 4 + 1}]; }};",
            "y[1] = p[0];",
        ),
        LimitExceeded,
    ),
    Row(
        "push constants that are addresses",
        lambda at: declaring(at, ADDRESSES, "p.x = 1u;"),
        UnsupportedFeature,
    ),
    Row(
        "a matrix of push constants of another shape",
        lambda at: declaring(at, "layout(push_constant) uniform P { mat4 p; };", "y[1] = uint(p[0][0]);")(
            np.zeros(8, np.uint32), workgroups=(1,), push_constants={"p": np.eye(3)}
        ),
        InvalidPushConstant,
    ),
    Row("a workgroup over the limit", lambda at: text(at, SIZED, {"constant_0": 2**31}), LimitExceeded),
    Row("a workgroup of nothing", lambda at: text(at, SIZED, {"constant_0": 0}), LimitExceeded),
    Row(
        "a workgroup whose product is over the limit",
        lambda at: text(at, SIZED, {"constant_0": limit(at, "max_compute_work_group_invocations"), "constant_1": 2}),
        LimitExceeded,
    ),
    Row(
        "shared memory over the limit",
        lambda at: declaring(
            at, f"shared uint s[{limit(at, 'max_compute_shared_memory_size') // 4 + 1}];", "s[0] = 1u; y[1] = s[y[2]];"
        ),
        LimitExceeded,
    ),
    # Grids.
    Row("a negative number of groups", lambda at: saxpy(at, X, X, workgroups=(-1,)), InvalidInput),
    Row("a NaN for the groups", lambda at: saxpy(at, X, X, workgroups=(float("nan"),)), InvalidInput),
    Row("a truth value for the groups", lambda at: saxpy(at, X, X, workgroups=(True,)), InvalidInput),
    Row("a float for the groups, after an equal number", groups_after_equal_ones, InvalidInput),
    Row("a bare number for the workgroups", lambda at: saxpy(at, X, X, workgroups=3), None),
    Row("a fraction for the workgroups", lambda at: saxpy(at, X, X, workgroups=1.5), InvalidInput),
    Row("groups that wrap around 2**32", lambda at: saxpy(at, X, X, workgroups=(2**32 + 1,)), LimitExceeded),
    # Arrays.
    Row("4 GiB, which wraps around to 0", lambda at: saxpy(at, endless(2**30), X, workgroups=1), LimitExceeded),
    Row("4 EiB", lambda at: saxpy(at, endless(2**60), X, workgroups=(1,)), LimitExceeded),
    Row(
        "every second element, and an array that is closed to writing",
        lambda at: saxpy(at, np.repeat(X, 2)[::2], np.broadcast_to(ZERO, (8,))),
        None,
    ),
    Row("one array twice", lambda at: saxpy(at, X, X), None),
    Row("an array that is empty", lambda at: saxpy(at, X[:0], X), None),
    Row(
        "an output of more elements than there are numbers", lambda at: text(at, FRESH)(out_shapes={"y": 2**70}), LimitExceeded
    ),
    Row("counts that have no names", lambda at: text(at, FRESH)(out_shapes=[8]), InvalidInput),  # type: ignore[arg-type]
    # Constants.
    Row("a constant out of range", lambda at: specialized(at, 2**32), InvalidSpecialization),
    Row("a typed constant of another type", lambda at: specialized(at, SpecValue.f32(1.0)), InvalidSpecialization),
    Row("constants without names", lambda at: at.compile(shipped_module("saxpy"), [1]), InvalidSpecialization),  # type: ignore[arg-type]
    Row(
        "push constants that are too many",
        lambda at: saxpy(at, X, X, push_constants={"alpha": np.zeros(1000), "count": 8}),
        InvalidPushConstant,
    ),
    Row("push constants without names", lambda at: saxpy(at, X, X, push_constants=[2, 8]), InvalidPushConstant),
    # Lives.
    Row("an index of no device", lambda _: Driver(device=99), DeviceNotFound),
    Row("a buffer of another driver", second_of_two_drivers, InvalidInput),
    Row("a buffer that was freed", closed_buffer, DispatchFailed),
    Row("a bound kernel of a closed driver", lambda at: closed_before(at, lambda bound, _: bound.run()), DispatchFailed),
    Row("the result of work on a closed driver", result_after_close, None),
    Row("work whose future and buffers are dropped at once", drop_everything_at_once, None),
    Row("a driver that is closed under three threads", close_while_threads_run, DispatchFailed),
    Row("a fork while a driver is open", use_in_a_fork, ForkError),
]

MORE = [
    Row("the module is text", lambda at: run(at, "abc"), InvalidInput),
    Row("the module is nothing", lambda at: run(at, None), InvalidInput),
    Row("the module is a list of numbers", lambda at: run(at, [3, 2, 35, 7]), InvalidInput),
    Row("the module is GLSL text", lambda at: run(at, WRITES.encode().ljust(128)), InvalidModule),
    Row("the module is words in an array", lambda at: run(at, np.frombuffer(CODE, np.uint32)), None),
    Row("compile gets nothing", lambda at: at.compile(None), InvalidInput),  # type: ignore[arg-type]
    Row("a file that is not there", lambda at: at.compile(SpirvModule.from_file("/nonexistent.spv")), FileUnusable),
    Row("a file that is a folder", lambda at: at.compile(SpirvModule.from_file("/")), FileUnusable),
    Row("a path that is none", lambda _: SpirvModule.from_file(3), InvalidInput),  # type: ignore[arg-type]
    Row("GLSL with an error", lambda at: text(at, "void main() { y }"), ShaderSyntaxError),
    Row("GLSL as bytes", lambda _: SpirvModule.from_glsl(b"void main() {}"), InvalidInput),  # type: ignore[arg-type]
    Row("definitions without names", lambda _: SpirvModule.from_glsl(WRITES, defines=["A"]), InvalidInput),  # type: ignore[arg-type]
    Row("a texel buffer", lambda at: declaring(at, "layout(binding = 1, r32ui) uniform uimageBuffer t;"), UnsupportedFeature),
    Row(
        "a uniform block",
        lambda at: declaring(at, "layout(binding = 1) uniform U { uint u; };", "y[1] = u;")(
            np.zeros(4, np.uint32), np.zeros(1, np.uint32)
        ),
        None,
    ),
    Row(
        "only buffers that are read",
        lambda at: text(at, WRITES.replace("buffer", "readonly buffer").replace("y[0] = 1u;", "")),
        UnsupportedFeature,
    ),
    Row(
        "a constant of 64 bits",
        lambda at: declaring(at, "layout(constant_id = 0) const double D = 1;", "y[1] = uint(D);"),
        UnsupportedFeature,
    ),
    Row("a text for the groups", lambda at: saxpy(at, X, X, workgroups="111"), InvalidInput),
    Row("a dictionary for the groups", lambda at: saxpy(at, X, X, workgroups={1: 1}), InvalidInput),
    Row("groups in a list in a list", lambda at: saxpy(at, X, X, workgroups=[[1]]), InvalidInput),
    Row("more groups than a word counts", lambda at: saxpy(at, X, X, workgroups=(2**70,)), LimitExceeded),
    Row("groups of a binding that are none", lambda at: bind(at, at.buffer(X), at.buffer(X), workgroups=(0.5,)), InvalidInput),
    Row("a structured array", lambda at: saxpy(at, np.zeros(8, "f4,f4"), X), InvalidInput),
    Row("numbers of the other byte order", lambda at: saxpy(at, X.astype(">f4"), X), InvalidInput),
    Row("an array that is none", lambda at: saxpy(at, None, X), InvalidInput),
    Row("a resident buffer of 5 GiB", lambda at: at.buffer(endless(5 << 28)), LimitExceeded),
    Row("a write of 4 EiB", lambda at: at.buffer(X).write(endless(2**60)), InvalidInput),
    Row("a truth value for a count", lambda at: text(at, FRESH)(out_shapes={"y": True}), InvalidInput),
    Row("a text for a constant", lambda at: specialized(at, "1"), InvalidSpecialization),
    Row("a number for a truth value", lambda at: text(at, TYPED, {"B": 2}), InvalidSpecialization),
    Row("a float constant that overflows", lambda at: text(at, TYPED, {"F": 1e39}), InvalidSpecialization),
    Row("names of constants that do not sort", lambda at: text(at, TYPED, {1: 1, "a": 2}), InvalidSpecialization),
    Row(
        "a push constant that overflows",
        lambda at: saxpy(at, X, X, push_constants={"alpha": 10**400, "count": 8}),
        InvalidPushConstant,
    ),
    Row(
        "a NaN for a count in push constants",
        lambda at: saxpy(at, X, X, push_constants={"alpha": 1, "count": float("nan")}),
        InvalidPushConstant,
    ),
    Row(
        "a list of lists for a push constant",
        lambda at: saxpy(at, X, X, push_constants={"alpha": [[1]], "count": 8}),
        InvalidPushConstant,
    ),
    Row("a time-out that is none", lambda at: saxpy(at, X, X, timeout=float("nan")), InvalidInput),
    Row("a device that is none", lambda _: Driver(device=1.5), DeviceNotFound),  # type: ignore[arg-type]
    Row("a negative device", lambda _: Driver(device=-1), DeviceNotFound),
    Row("a cache that is none", lambda _: Driver(cache=5), InvalidInput),  # type: ignore[arg-type]
    Row("too few buffers", lambda at: bind(at, at.buffer(X)), InvalidInput),
    Row("arrays for buffers", lambda at: bind(at, X, X), InvalidInput),
    Row("a buffer of a closed driver", lambda at: closed_before(at, lambda _, buffer: buffer.read()), DispatchFailed),
]
