"""A kernel to tune whose cost is known: 3 x + 1, after as many turns of a loop as a constant says.

It is in a module of its own because the tuner's child processes import it.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from kernels import glsl

from vyre_driver.autotune import Axis, TuningSpace
from vyre_driver.autotune.measure.definition import KernelDefinition, Operand, Plan, Step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vyre_driver import SpirvModule
    from vyre_driver.autotune.measure.definition import Call, DeviceFacts, Size

# All loops of an invocation of llvmpipe turn no more than 65,535 times together: each turn has much to do, one step after the
# other, so that it goes on for minutes.
TEXT = """
layout(constant_id = 0) const uint TURNS = 1;
layout(constant_id = 1) const uint WRONG = 0;
layout(constant_id = 2) const uint ENDLESS = 0;
layout(constant_id = 3) const uint SILENT = 0;
layout(binding = 0) {x_access} buffer X {{ uint x[]; }};
{y_declared}
uint again(uint value) {{ return value * 1664525u + 1013904223u; }}
void main() {{
    uint i = gl_GlobalInvocationID.x;
    if (i >= x.length()) return;
    uint value = x[i];
    for (uint turn = 0u; turn < TURNS; turn++) value = again(value);
    if (ENDLESS != 0u)
        for (uint a = 0u; a < 65000u; a++) for (uint b = 0u; b < 65000u; b++)
            for (uint c = 0u; c < 65000u; c++) for (uint d = 0u; d < 65000u; d++) {{ {step} }}
    if (SILENT == 0u) {y}[i] = 3u * x[i] + 1u + WRONG + (value == 0xdeadbeefu ? 1u : 0u);
}}
"""
STEP = "value = again(value) ^ x[(value + d) % 64u]; " * 100
APART = TEXT.format(step=STEP, x_access="readonly", y_declared="layout(binding = 1) writeonly buffer Y { uint y[]; };", y="y")
IN_PLACE = TEXT.format(step=STEP, x_access="", y_declared="", y="x")

FLAWS = {"wrong": "WRONG", "endless": "ENDLESS", "silent": "SILENT"}


@dataclass(frozen=True)
class TurningKernel(KernelDefinition):
    """Candidates by their turns, in the order of preference; ``flaws`` says what is wrong with which.

        One ``dies`` or ``crashes`` in the process that makes it ready, if that is not ``home``, ``dies once`` there (as long as
    the file ``marker`` is missing), or ``sleeps`` (after it wrote to ``marker``); it ``refuses`` to be compiled, is ``wrong
    when large``, or one of FLAWS. Numpy is said to be quick up to the size ``quick_to``.
    """

    turns: tuple[int, ...]
    flaws: tuple[tuple[int, str], ...] = ()
    in_place: bool = False
    home: int = 0
    marker: str = ""
    quick_to: int = 1 << 30
    name = "turning"
    inputs = ("x",)
    sizes = ((1000,), (20_000,))

    @property
    def module(self) -> SpirvModule:
        return glsl(IN_PLACE if self.in_place else APART)

    def modules(self, _device: DeviceFacts) -> tuple[SpirvModule, ...]:
        return (self.module,)

    def space(self, _device: DeviceFacts) -> TuningSpace:
        return TuningSpace((Axis("TURNS", self.turns),))

    def size(self, operands: Mapping[str, Operand], _parameters: Mapping[str, Any]) -> Size:
        return operands["x"].shape

    def plan(self, call: Call) -> Plan:
        (count,), turns = call.size, call.candidate["TURNS"]
        flaw = dict(self.flaws).get(turns)
        if os.getpid() != self.home:
            self._misbehave(flaw)
        specs: dict[str, object] = {"TURNS": turns}
        if flaw in FLAWS:
            specs[FLAWS[flaw]] = 1
        if flaw == "wrong when large" and count > self.sizes[0][0]:
            specs["WRONG"] = 1
        if flaw == "refuses":
            specs["NO_SUCH_CONSTANT"] = 1
        groups = (-(-count // 64), 1, 1)
        output = "x" if self.in_place else "y"
        return Plan((Step(self.module, ("x",) if self.in_place else ("x", "y"), groups, specs),), {output: call.operands["x"]})

    def _misbehave(self, flaw: str | None) -> None:
        if flaw == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        elif flaw == "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif flaw == "sleeps":
            if self.marker:
                Path(self.marker).write_text("asleep")
            time.sleep(3600)
        elif flaw == "dies once" and not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def example(self, size: Size, seed: int) -> tuple[tuple[NDArray[Any], ...], dict[str, Any]]:
        return (np.random.default_rng(seed).integers(0, 1 << 20, size, dtype=np.uint32),), {}

    def expected(self, *arrays: NDArray[Any], **_: object) -> NDArray[Any]:
        return 3 * arrays[0] + np.uint32(1)

    def moved_bytes(self, size: Size) -> int:
        return (1 << 40) if size[0] > self.quick_to else 8 * size[0]
