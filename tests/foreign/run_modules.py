"""Run modules once each, on made-up arrays: ``run_modules.py FOLDER NAME...``.

Prints a line of JSON for each before it is begun and after it has ended: what came of it, or which refusal.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver import Driver, SpirvModule, VyreError
from vyre_driver.errors import DispatchTimeout
from vyre_driver.spirv.layout import Array, Struct, numbers_of

if TYPE_CHECKING:
    from vyre_driver.binding import Binding
    from vyre_driver.spirv.layout import MemoryType

ELEMENTS = 4096
TIMEOUT_S = 20.0
GAVE_UP = 75  # the exit status after a dispatch that did not end: the driver would wait for it


def contents(rng: random.Random, binding: Binding) -> bytes:
    """Small numbers, as words: an index among them stays small, a float is next to nothing."""
    elements = max(ELEMENTS * max(1, 16 // binding.stride), -(-binding.least_byte_len // binding.stride))
    size = binding.static_byte_len or binding.header_bytes + elements * binding.stride
    words = b"".join(rng.choice((0, 1, 2, 3)).to_bytes(4, "little") for _ in range(min(size, 1024) // 4 + 1))
    return (words * (size // len(words) + 1))[:size]


def value(found: MemoryType) -> object:
    """A small value of a push constant's type."""
    match found:
        case Struct():
            return {member.name: value(member.type) for member in found.members}
        case Array(element, int(count)):
            return [value(element)] * count
    numbers = numbers_of(found)
    assert numbers is not None
    one = 0.5 if numbers.scalar.kind == "f" else 1
    return np.full(numbers.shape, one) if numbers.scalar.kind == "f" else np.full(numbers.shape, one, np.int64)


def run(driver: Driver, name: str, code: bytes) -> str:
    """Return ``ran``, or which error refused it."""
    try:
        module = SpirvModule.from_bytes(code, name="foreign")
        kernel = driver.compile(module)
        rng = random.Random(1)  # noqa: S311 -- no secret
        arrays = [contents(rng, binding) for binding in kernel.plan.descriptors]
        push = {member.name: value(member.type) for member in module.reflection.push_constants}
        kernel(*arrays, workgroups=(2, 1, 1), push_constants=push, timeout=TIMEOUT_S)
    except DispatchTimeout as error:
        print(json.dumps([name, f"{type(error).__name__} {error.code}"]), flush=True)
        os._exit(GAVE_UP)
    except VyreError as error:
        return f"{type(error).__name__} {error.code}: {error.problem}"
    return "ran"


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    with Driver() as driver:
        for name in names:
            print(json.dumps([name, None]), flush=True)
            print(json.dumps([name, run(driver, name, (folder / name).read_bytes())]), flush=True)


if __name__ == "__main__":
    main()
