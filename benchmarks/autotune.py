"""The tuning store: a look-up, and loading and saving 10,000 records, beside a dict, the TOML packages and a plain write.

Run as ``python -m benchmarks.autotune --json``.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import tomli
import tomli_w

from benchmarks.timing import interleave, parser, print_rows, time_call
from vyre_driver.autotune import AutotuneKey, AutotuneRecord, AutotuneStore

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 10_000
LOOK_UPS = 1_000


def record(number: int) -> tuple[AutotuneKey, AutotuneRecord]:
    key = AutotuneKey(f"{number * 0x9E3779B97F4A7C15 % 2**128:032x}", "vulkan-10de-2335")
    identity = f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**256:064x}"
    return key, AutotuneRecord(
        (128, 1, 1), 4, (128, 128, 8), "2026-11-21", identity, 50, 123_456, 1_780_000_000, "matmul", "a GPU", "1.2", "64x64x64"
    )


def plain_write(path: Path, text: str) -> None:
    made = path.with_suffix(".new")
    with made.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    made.replace(path)


def look_up(given: list[tuple[AutotuneKey, AutotuneRecord]], store: AutotuneStore) -> dict[str, Callable[[], float]]:
    """Return what finds every tenth record by key and identity, and the same in a dict; in microseconds each."""
    wanted = [(key, one.identity) for key, one in given[:: len(given) // LOOK_UPS]]
    plain = {(key, one.identity): one for key, one in given}
    return {
        "store": lambda: time_call(lambda: [store.get(key, identity) for key, identity in wanted], 5, len(wanted)),
        "dict": lambda: time_call(lambda: [plain.get((key, identity)) for key, identity in wanted], 5, len(wanted)),
    }


def main() -> None:
    """Run every case."""
    options = parser(__doc__).parse_args()
    given = [record(number) for number in range(RECORDS)]
    with tempfile.TemporaryDirectory() as directory:
        path, plain = Path(directory) / "autotune.toml", Path(directory) / "plain.toml"
        store = AutotuneStore()
        for key, one in given:
            store.put(key, one)
        store.save_if_dirty(path)
        text = path.read_text("utf-8")
        table = tomli.loads(text)

        def save() -> float:
            for key, one in given:
                store.put(key, one)
            return time_call(lambda: store.save_if_dirty(path), 1)

        def save_one() -> float:
            store.put(*given[0])
            return time_call(lambda: store.save_if_dirty(path), 1)

        rows = interleave("look-up", look_up(given, store), options.rounds)
        loads: dict[str, Callable[[], float]] = {
            "store": lambda: time_call(lambda: AutotuneStore.load(path), 1),
            "tomli": lambda: time_call(lambda: tomli.loads(plain_text(path)), 1),
        }
        rows += interleave(f"load {RECORDS} records", loads, options.rounds)
        saves: dict[str, Callable[[], float]] = {
            "store": save,
            "one more": save_one,
            "tomli_w": lambda: time_call(lambda: plain_write(plain, tomli_w.dumps(table)), 1),
            "write": lambda: time_call(lambda: plain_write(plain, text), 1),
        }
        rows += interleave(f"save {RECORDS} records", saves, options.rounds)
    print_rows(rows, {"records": RECORDS, "bytes": len(text)}, as_json=options.json)


def plain_text(path: Path) -> str:
    return path.read_text("utf-8")


if __name__ == "__main__":
    main()
