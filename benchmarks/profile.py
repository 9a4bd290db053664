"""What a profile costs each run, submission and call: off, with the host's events alone, and with the device's clock.

python -m benchmarks.profile [--json]. Without a dispatch the device is left out, and with it the system's noise: that is the
host's part alone. lavapipe takes some 30 us to write its clock, which is none of ours; on a GPU look at all three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.timing import interleave, parser, print_rows, time_call
from vyre_driver import Driver, SpirvModule
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST = 1 << 24
_AT_ONCE = 50
_STEP = """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) buffer Values { float values[]; };
void main() { values[gl_GlobalInvocationID.x] += 1.0; }
"""


def kept(driver: Driver, *, clock: bool) -> list[object]:
    """Have the driver's events kept, and with the clock the device's intervals too, as long as what is returned lives."""
    layer = driver.context.device.layer
    held: list[object] = [driver.events.timeline.keep(_MOST)]
    return [*held, _layer.keep_intervals(layer, _MOST)] if clock else held


def contenders(driver: Driver, call: Callable[[], object], repeats: int) -> dict[str, Callable[[], float]]:
    """Return the same call three times."""

    def many() -> None:
        for _ in range(_AT_ONCE):
            call()

    def off() -> float:
        return time_call(many, repeats // 10, _AT_ONCE)

    def host() -> float:
        held = kept(driver, clock=False)
        try:
            return time_call(many, repeats // 10, _AT_ONCE)
        finally:
            held.clear()

    def both() -> float:
        held = kept(driver, clock=True)
        try:
            return time_call(many, repeats // 10, _AT_ONCE)
        finally:
            held.clear()

    return {"off": off, "host events": host, "host events and device clock": both}


def main() -> None:
    """Measure, and print."""
    options = parser(__doc__).parse_args()
    rows = []
    with Driver(options.device) as driver:
        kernel = driver.compile(SpirvModule.from_glsl(_STEP))
        array, values = np.ones(64, np.float32), driver.zeros(64, np.float32)
        bound = kernel.bind(values)
        nothing = kernel.bind(values, invocations=0)
        calls: dict[str, Callable[[], object]] = {
            "run of nothing": nothing.run,
            "run": bound.run,
            "submit and wait": lambda: bound.submit().result(),
            "call with an array": lambda: kernel(array),
        }
        for what, call in calls.items():
            rows += interleave(what, contenders(driver, call, options.repeats), options.rounds)
        print_rows(rows, {"device": driver.device.name}, as_json=options.json)


if __name__ == "__main__":
    main()
