"""What reading a module costs by its size, beside the plain-Python walk over its declarations."""

from __future__ import annotations

import array
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.timing import interleave, parser, print_rows, time_call
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.rewrite import Rewrite, rewrite

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))  # the twin

import spirv_twin

_HEAD = [*(2 << 16 | 17, 1), *(3 << 16 | 14, 0, 1), *(5 << 16 | 15, 5, 3, 0x6E69_616D, 0), *(6 << 16 | 16, 3, 17, 64, 1, 1)]
_BUFFER_DECORATIONS = [
    *(4 << 16 | 71, 6, 6, 4),
    *(3 << 16 | 71, 7, 2),
    *(5 << 16 | 72, 7, 0, 35, 0),
    *(4 << 16 | 71, 9, 34, 0),
    *(4 << 16 | 71, 9, 33, 0),
]
_TYPES = [
    *(2 << 16 | 19, 1),
    *(3 << 16 | 33, 2, 1),
    *(3 << 16 | 22, 5, 32),
    *(3 << 16 | 29, 6, 5),
    *(3 << 16 | 30, 7, 6),
    *(4 << 16 | 32, 8, 12, 7),
    *(4 << 16 | 59, 8, 9, 12),
]
_FIRST_FREE = 20


def module_of(byte_len: int, names: float) -> bytes:
    """Return a module of about so many bytes: this share of it debug names, decorations and constants, the rest code."""
    ids = max(int(byte_len * names) // 48, 1)
    adds = max(int(byte_len * (1 - names)) // 20, 1)
    free = range(_FIRST_FREE, _FIRST_FREE + ids)
    debug = [word for one in free for word in (5 << 16 | 5, one, 0x706D_6574, 0x7261_726F, 0)]
    relaxed = [word for one in free for word in (3 << 16 | 71, one, 0)]
    constants = [word for one in free for word in (4 << 16 | 43, 5, one, one)]
    first = _FIRST_FREE + ids
    code = [word for at in range(adds) for word in (5 << 16 | 129, 5, first + at, _FIRST_FREE, _FIRST_FREE)]
    body = [5 << 16 | 54, 1, 3, 0, 2, 2 << 16 | 248, 4, *code, 1 << 16 | 253, 1 << 16 | 56]
    header = [0x0723_0203, 0x0001_0300, 0, first + adds, 0]
    parts = [header, _HEAD, debug, _BUFFER_DECORATIONS, relaxed, _TYPES, constants, body]
    return array.array("I", [word for part in parts for word in part]).tobytes()


def main() -> None:
    """Run every case."""
    options = parser(__doc__).parse_args()
    rows = []
    facts: dict[str, object] = {"bars": "10 KB <= 1 ms, 1 MB <= 40 ms"}
    for size, text in ((10_000, "10 KB"), (1_000_000, "1 MB")):
        for share in (0.1, 0.5, 0.9):
            code = module_of(size, share)
            module = SpirvModule.from_bytes(code)
            first = module.interface.first_function
            what = f"{text}, {share:.0%} names and constants"
            facts[f"{what}: bytes"] = len(code)
            repeats = options.repeats if size < 100_000 else max(options.repeats // 20, 3)

            def time_ours(call: Callable[[], object], repeats: int = repeats) -> Callable[[], float]:
                return lambda: time_call(call, repeats)

            contenders = {
                "reflect": time_ours(lambda code=code: SpirvModule.from_bytes(code)),  # type: ignore[misc]
                "plain walk": time_ours(lambda code=code, first=first: spirv_twin.read(code, first)),  # type: ignore[misc]
                "rewrite": time_ours(lambda code=code, first=first: rewrite(code, Rewrite(((9, 1),)), first)),  # type: ignore[misc]
            }
            rows += interleave(what, contenders, options.rounds)
    print_rows(rows, facts, as_json=options.json)


if __name__ == "__main__":
    main()
