"""The block of examples/kernels/transformer.py on resident buffers, beside PyTorch's in the same run, on the device's clock.

Run as ``python -m benchmarks.transformer --json``. What comes out is held against float64 where that takes seconds at most.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.float32 import microseconds
from benchmarks.peer_process import PeerProcess
from benchmarks.timing import Row, parser, print_rows
from vyre_driver import Driver

if TYPE_CHECKING:
    from vyre_driver import Buffer
    from vyre_driver.autotune.measure.tuned import BoundPlan

_EXAMPLE = Path(__file__).parent.parent / "examples" / "kernels" / "transformer.py"
_CHECKED_TOKENS = 512
_TOLERANCE = 4e-3


def example() -> Any:
    """Return the example, which is in no package."""
    spec = importlib.util.spec_from_file_location("transformer", _EXAMPLE)
    assert spec is not None  # noqa: S101 -- a Python file
    assert spec.loader is not None  # noqa: S101 -- the same
    module = sys.modules["transformer"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Recorded:
    """A block's kernels bound one after the other, as its call runs them."""

    def __init__(self, driver: Driver, block: Any, of: dict[str, Buffer]) -> None:
        self._driver, self._plans = driver, []
        x, heads = of["x"], (block.sizes.tokens, block.sizes.heads, -1)
        normed = self._bound(block.norm, x, of["norm1"], shape=x.shape)
        q, k, v = (self._bound(block.linear, normed, of[name], shape=x.shape).reshape(heads) for name in "qkv")
        attended = self._bound(block.attention, q, k, v, shape=q.shape).reshape(x.shape)
        x = self._bound(block.linear_and_add, attended, of["o"], x, shape=x.shape)
        normed = self._bound(block.norm, x, of["norm2"], shape=x.shape)
        inner_shape = (block.sizes.tokens, block.sizes.inner)
        inner = self._bound(block.linear_gelu, normed, of["up"], of["up_bias"], shape=inner_shape)
        self.out = self._bound(block.linear_and_add, inner, of["down"], x, shape=x.shape)

    def _bound(self, kernel: Any, *given: Buffer, shape: tuple[int, ...]) -> Buffer:
        out = self._driver.empty(shape, np.float16)
        self._plans.append(kernel.bind(*given, out=out))
        return out

    @property
    def bound(self) -> tuple[Any, ...]:
        """The dispatches, in order."""
        return tuple(one for plan in self._plans for one in plan.bound)


def case(driver: Driver, module: Any, sizes: Any, torch: PeerProcess | None) -> list[Row]:
    """Return what one block takes."""
    given = module.drawn(sizes)
    of = {name: driver.buffer(one) for name, one in given.items()}
    recorded = Recorded(driver, module.Block(driver, sizes), of)
    plan: BoundPlan = recorded  # type: ignore[assignment] # of which only the dispatches are timed
    took = microseconds(plan.bound)
    if sizes.tokens <= _CHECKED_TOKENS:
        want = module.expected(sizes, given)
        error = float(np.abs(recorded.out.read() - want).max() / np.abs(want).max())
        assert error <= _TOLERANCE, error  # noqa: S101 -- wrong results are no figures
    what = f"{sizes.tokens} tokens of {sizes.width}, {sizes.heads} heads"
    rows = [Row(what, "ours", took, took, took)]
    if torch is not None:
        took = torch.measure(f"block float16 {sizes.tokens} {sizes.width} {sizes.heads} {sizes.inner}")
        rows.append(Row(what, "torch", took, took, took))
    for one in rows:
        print(f"{one.what}: {one.contender} {one.median_us:.1f} us", file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """Run every size."""
    options = parser(__doc__)
    options.add_argument("--small", action="store_true", help="sizes that a CPU device manages")
    given = options.parse_args()
    module = example()
    sizes = [module.Sizes(64, 128, 2, 512)] if given.small else []
    if not given.small:
        sizes = [module.Sizes(tokens, 4096, 32, 16384) for tokens in (512, 2048, 4096)]
    peer = PeerProcess([sys.executable, str(Path(__file__).with_name("torch_tensor_cores.py"))])
    version, rows = peer.read(), []
    with Driver(given.device, allow_software=True) as driver:
        for one in sizes:
            rows += case(driver, module, one, peer if version else None)
        facts = {**driver.report(), "torch": version or "absent"}
    peer.close()
    print_rows(rows, facts if given.json else {"torch": facts["torch"]}, as_json=given.json)


if __name__ == "__main__":
    main()
