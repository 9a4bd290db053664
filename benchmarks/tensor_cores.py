"""What runs on tensor cores, and norms beside it, as users call it: untuned and tuned, beside PyTorch in the same run.

Run as ``python -m benchmarks.tensor_cores --json``: device time, back to back, clocks warm. A few rows of each result are held
against float64 first. ``--curve`` times float16 products of 16 to 16384 too, ``--picture FILE.svg`` draws them.
``VYRE_PIPELINE_STATISTICS=1`` has registers and shared memory told.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.curve import picture
from benchmarks.float32 import microseconds
from benchmarks.peer_process import PeerProcess
from benchmarks.timing import Row, parser, print_rows
from vyre_driver import Driver, kernels
from vyre_driver.autotune import AutotuneStore
from vyre_driver.autotune.measure.tune import tune
from vyre_driver.autotune.search.outcomes import Budget
from vyre_driver.kernels.attention import attention_of
from vyre_driver.kernels.products import product

if TYPE_CHECKING:
    from vyre_driver.autotune.measure.definition import KernelDefinition, Size
    from vyre_driver.autotune.search.space import Candidate

_CHECKED_ROWS = 8
_ALL_CHECKED = 2**22


@dataclass(frozen=True)
class Case:
    """One kernel at one size, and the line that PyTorch's side takes for the same."""

    name: str
    definition: KernelDefinition
    size: Size
    torch: str
    is_tuned: bool = True

    @property
    def operations(self) -> int:
        return self.definition.operations(self.size)


def _squares(name: str, definition: KernelDefinition, torch: str, sides: tuple[int, ...]) -> list[Case]:
    return [Case(name, definition, (1, side, side, side), f"{torch} {side} {side} {side}") for side in sides]


def cases() -> list[Case]:
    """Return what is measured without ``--curve``."""
    linear = {"out_dtype": "float16", "transpose_b": True, "bias": True, "names": ("x", "weight")}
    found = _squares("float16", product("float16", out_dtype="float16"), "mm float16", (1024, 2048, 4096, 8192))
    found += _squares("float16 to float32", product("float16"), "mm float16", (4096,))
    found += _squares("bfloat16", product("bfloat16", out_dtype="bfloat16"), "mm bfloat16", (2048, 4096, 8192))
    found += _squares("int8 to int32, b transposed", product("int8", transpose_b=True), "mm int8", (4096,))
    found += _squares("linear, bias, gelu", product("float16", activation="gelu", **linear), "gelu float16", (4096,))
    for length, head in ((4096, 128), (4096, 64), (1024, 128)):
        line = f"attention float16 32 {length} {head}"
        found.append(Case("attention, causal", attention_of("float16", is_causal=True), (1, 32, length, length, head), line))
    for name in ("layernorm", "rmsnorm"):
        for byte_len in (4, 2):
            size = (2**17 // byte_len, 4096, byte_len)
            torch = f"{name} {'float32' if byte_len == 4 else 'float16'} {size[0]} {size[1]}"
            found.append(Case(f"{name}, {8 * byte_len} bits", kernels.KERNELS[name], size, torch))
    return found


def curve() -> list[Case]:
    """Return float16 products of every size, untuned."""
    definition = product("float16", out_dtype="float16")
    return [
        Case("curve", definition, (1, side, side, side), f"mm float16 {side} {side} {side}", is_tuned=False)
        for side in (1, *(2**power for power in range(4, 15)), 100, 1000, 3000, 10000)
    ]


class Bench:
    """The arrays of a case on the device, and its kernel bound to them with any candidate."""

    def __init__(self, driver: Driver, case: Case) -> None:
        self.kernel, self._case = kernels.TunedKernel(driver, case.definition), case
        self._arrays, self._parameters = case.definition.example(case.size, 1)
        self._inputs = [driver.buffer(one) for one in self._arrays]
        operands = case.definition.operands(self._arrays)
        call = case.definition.call(operands, self._parameters, self.kernel.candidates[0], self.kernel.device)
        (output,) = case.definition.plan(call).outputs.values()
        self._out = driver.empty(output.shape, output.dtype)

    def told(self, candidate: Candidate) -> dict[str, Any]:
        """Return the time with a candidate, after what comes out was checked."""
        plan = self.kernel.bind(*self._inputs, out=self._out, candidate=candidate, **self._parameters)
        plan.run()
        self._check()
        took = microseconds(plan.bound)
        facts = plan.bound[0].pipeline.facts  # type: ignore[union-attr] # of a dispatch
        compiled = {} if facts is None else {of.name: of.value for exe in facts.executables for of in exe.statistics}
        return {"candidate": str(candidate), "us": took, **compiled}

    def _check(self) -> None:
        """Hold some rows of a product, or all of a small result, against float64."""
        definition, rows, arrays = self._case.definition, slice(None), self._arrays
        if self._case.operations and len(self._case.size) == 4:
            rows = slice(0, _CHECKED_ROWS)
            arrays = (arrays[0][rows], *arrays[1:])
        elif self._case.operations > _ALL_CHECKED or self._out.size > _ALL_CHECKED:
            return  # of these the tests tell
        want = definition.expected(*arrays, **self._parameters)
        assert want is not None  # noqa: S101 -- all of these are known
        numbers = [_values(one) for one in (self._out[rows].read(), want)]
        error = float(np.abs(numbers[0] - numbers[1]).max() / max(np.abs(numbers[1]).max(), 1e-30))
        assert error <= definition.tolerance(self._case.size), error  # noqa: S101 -- wrong results are no figures

    def close(self) -> None:
        for one in (*self._inputs, self._out):
            one.close()


def _values(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    is_bits = array.dtype == np.uint16
    return ((array.astype(np.uint32) << 16).view(np.float32) if is_bits else array).astype(np.float64)


def measured(driver: Driver, case: Case, seconds: float, torch: PeerProcess | None) -> list[dict[str, Any]]:
    """Return what one case takes untuned, tuned, and in PyTorch."""
    bench = Bench(driver, case)
    found = [{"choice": "untuned", **bench.told(case.definition.untuned(bench.kernel.candidates, case.size))}]
    if seconds and case.is_tuned:
        result = tune(bench.kernel, case.size, budget=Budget(seconds=seconds))
        found.append({"choice": "tuned", **bench.told(result.best.candidate)})
    bench.close()
    if torch is not None:
        found.append({"choice": "torch", "us": torch.measure(case.torch)})
    what = f"{case.name}, {'x'.join(map(str, case.size))}"
    for one in found:
        one["tflops"] = case.operations / one["us"] / 1e6
        one["gbs"] = case.definition.moved_bytes(case.size) / one["us"] / 1e3
        figure = f"{one['tflops']:.1f} TFLOP/s" if case.operations else f"{one['gbs']:.0f} GB/s"
        print(f"{what}: {one['choice']} {one['us']:.1f} us, {figure} {one.get('candidate', '')}", file=sys.stderr, flush=True)
    return [{"what": what, "name": case.name, "size": list(case.size), **one} for one in found]


def main() -> None:
    """Run every case."""
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=5.0, help="of tuning a case, 0 for none (default %(default)g)")
    options.add_argument("--curve", action="store_true", help="products of 16 to 16384 too")
    options.add_argument("--picture", type=Path, help="draw the products of every size")
    options.add_argument("--only", default="", help="cases whose name has this in it")
    options.add_argument("--most", type=float, default=math.inf, help="leave cases of more operations, or bytes, out")
    given = options.parse_args()
    peer = PeerProcess([sys.executable, str(Path(__file__).with_name("torch_tensor_cores.py"))])
    version, told = peer.read(), []
    chosen = [one for one in (*cases(), *(curve() if given.curve else ())) if given.only in one.name]
    with Driver(given.device, autotune=AutotuneStore(), allow_software=True) as driver:
        began = time.perf_counter()
        for one in chosen:
            if max(one.operations, one.definition.moved_bytes(one.size)) <= given.most:
                told += measured(driver, one, given.seconds, peer if version else None)
        seconds = round(time.perf_counter() - began)
        facts = {**driver.report(), "torch": version or "absent", "seconds": seconds, "told": told}
    peer.close()
    if given.picture is not None:
        points = [one for one in told if one["name"] == "curve"]
        title = f"float16 products, {facts['device']}: TFLOP/s over rows and columns"
        given.picture.write_text(picture(title, points), "utf-8")
    rows = [Row(one["what"], one["choice"], *[one["us"]] * 3) for one in told]
    print_rows(rows, facts if given.json else {"torch": facts["torch"]}, as_json=given.json)


if __name__ == "__main__":
    main()
