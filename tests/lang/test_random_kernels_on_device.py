"""Random kernels on a device: what a device has to give of them is what the reference gives."""

from __future__ import annotations

import sys
from collections import Counter

import pytest
from both_ways import function_of
from device_floats import device_differences
from kernel_texts import NAMES, kernel_text

from vyre_driver.errors import KernelTypeError, LimitExceeded

_SEEDS_A_TEST = 8
_RIGHT = ("same", "order decides", "refused", "too much to push")


def outcome(seed: int) -> str:
    """Run the kernel of a seed on a device; returns what became of it, or what differs."""
    made = kernel_text(seed)
    try:
        found = device_differences(function_of(made.text, "kernel", NAMES), made.arguments, made.grid)
    except KernelTypeError:
        return "refused"
    except LimitExceeded:  # numbers, of which a device takes 128 bytes at least
        return "too much to push"
    if found is None:
        return "order decides"
    return "\n".join([f"seed {seed}: ", *found, made.text]) if found else "same"


@pytest.mark.device
@pytest.mark.parametrize("first", [100, 210, 228])  # with signs of zeros that the bits of numbers show
def test_a_kernel_gives_on_a_device_what_it_has_to(first: int) -> None:
    found = Counter(outcome(seed) for seed in range(first, first + _SEEDS_A_TEST))
    assert not set(found) - set(_RIGHT), "\n".join(set(found) - set(_RIGHT))
    assert found["same"] >= _SEEDS_A_TEST // 2


if __name__ == "__main__":
    FIRST, COUNT = (int(one) for one in sys.argv[1:])
    FOUND: Counter[str] = Counter()
    for SEED in range(FIRST, FIRST + COUNT):
        RESULT = outcome(SEED)
        FOUND[RESULT if RESULT in _RIGHT else "different"] += 1
        if RESULT not in _RIGHT:
            sys.stdout.write(f"{RESULT}\n")
    sys.stdout.write(f"{dict(FOUND)}\n")
    sys.exit(bool(FOUND["different"]))
