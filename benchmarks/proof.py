"""What a warm call spends on proof: all that a kernel does with its arguments before it runs, and what binding again takes.

"proof" is all of a call but running it: push constants checked and packed, types, shapes, groups and counts compared with the
call proven last, arrays looked at for gaps; "keywords" is the same with push constants as keyword arguments. "out" is the same
with the last array as ``out`` too, which has to be like the one proven, writable and without gaps. "other form" is the same
where calls of two forms take turns, "anew" the proof from the ground up, which the first call of a form gets besides. "plain"
is the plain-Python twin of the compiled part. "whole call, out" has no new array for the result.
"""

from __future__ import annotations

import itertools
import sys
import timeit
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.timing import interleave, parser, print_rows
from vyre_driver import Driver, SpirvModule
from vyre_driver.binding.grid import grid
from vyre_driver.binding.push_constants import pack_push_constants
from vyre_driver.runtime.options import CallOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))  # the twin

import proof_twin

_TEXT = """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) readonly buffer B { float b[]; };
layout(binding = 2) readonly buffer C { uint c[]; };
layout(binding = 3) buffer D { float d[]; };
layout(push_constant) uniform Push { float alpha; uint count; } push;
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < push.count) d[i] += a[i] * b[i] * push.alpha + float(c[i]);
}
"""
_PUSH = {"alpha": 2.0, "count": 256}


def loop(call: Callable[[], object], number: int) -> Callable[[], float]:
    """Return a measurement: the least microseconds a call of 20 loops; the loop's own 20 ns are included."""
    timer = timeit.Timer(call)
    return lambda: min(timer.repeat(20, number)) / number * 1e6


def arrays(count: int) -> tuple[Any, ...]:
    return tuple(np.ones(count, dtype) for dtype in (np.float32, np.float32, np.uint32, np.float32))


def cases(driver: Driver, number: int) -> dict[str, Mapping[str, Callable[[], float]]]:
    """Return every row's contenders."""
    module = SpirvModule.from_glsl(_TEXT)
    kernel = driver.compile(module)
    first, second = arrays(256), arrays(512)
    for given in (first, second):
        kernel(*given, push_constants=_PUSH)
    form = proof_twin.call_form(first, None, None)
    turns = itertools.cycle([first, second])
    buffers = [driver.buffer(array) for array in first]
    bound = kernel.bind(*buffers, push_constants=_PUSH)
    members = module.reflection.push_constants

    def prove(given: tuple[Any, ...]) -> object:
        found = kernel._again(given, {}, None, _PUSH, None, None)  # noqa: SLF001 -- a call without its run
        return found or prove_other(given)

    def prove_out(given: tuple[Any, ...]) -> object:
        found = kernel._again(given, {}, None, _PUSH, None, given[-1])  # noqa: SLF001 -- the same
        return found or kernel(*given, push_constants=_PUSH, out=given[-1])

    def prove_named(given: tuple[Any, ...], **named: object) -> object:
        return kernel._again(given, named, None, None, None, None)  # noqa: SLF001 -- the same

    def prove_other(given: tuple[Any, ...]) -> object:
        options = CallOptions(push_constants=_PUSH)
        arrays, words = kernel._pushed(given, {}, options)  # noqa: SLF001 -- the same
        return words, kernel._array_calls.prove(arrays, None, None)  # noqa: SLF001 -- the same

    def prove_plainly() -> object:
        words = pack_push_constants(members, 8, _PUSH)
        matches = proof_twin.matches(form, first, None, None)
        return words, matches, proof_twin.as_contiguous(first, (0, 1, 2, 3), np.ascontiguousarray)

    def prove_anew() -> object:
        pack_push_constants(members, 8, _PUSH)
        arguments = kernel.plan.check_arguments(first, {})
        return grid(None, arguments, kernel.workgroup_size, driver.device.limits), [one.data for one in arguments]

    return {
        "call with 4 arrays, 2 push constants": {
            "proof": loop(lambda: prove(first), number),
            "keywords": loop(lambda: prove_named(first, alpha=2.0, count=256), number),
            "out": loop(lambda: prove_out(first), number),
            "other form": loop(lambda: prove(next(turns)), number),
            "anew": loop(prove_anew, number),
            "plain": loop(prove_plainly, number),
            "whole call": loop(lambda: kernel(*first, push_constants=_PUSH), max(number // 20, 5)),
            "whole call, out": loop(lambda: kernel(*first, push_constants=_PUSH, out=first[-1]), max(number // 20, 5)),
        },
        "4 resident buffers, 2 push constants": {
            "bind again": loop(lambda: kernel.bind(*buffers, push_constants=_PUSH), number),
            "bound.run": loop(bound.run, max(number // 20, 5)),
        },
    }


def main() -> None:
    """Run every case."""
    options = parser(__doc__).parse_args()
    rows = []
    with Driver(options.device) as driver:
        for what, contenders in cases(driver, options.repeats).items():
            rows += interleave(what, contenders, options.rounds)
        facts = {"device": driver.device.name, "bar": "proof <= 2 us"}
    print_rows(rows, facts, as_json=options.json)


if __name__ == "__main__":
    main()
