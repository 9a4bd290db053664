"""Random kernels, translated and run as programs and as plain Python: the results are the same, bit for bit."""

from __future__ import annotations

import sys
from collections import Counter

import pytest
from both_ways import function_of, run_both
from kernel_texts import NAMES, kernel_text

from vyre_driver.errors import KernelTypeError

_SEEDS_A_TEST = 10
_MOST_REFUSED = 0.3


def outcome(seed: int, mode: str | None = None) -> str:
    """Run the kernel of a seed both ways; returns "same", "refused" where types do not fit, or what differs."""
    made = kernel_text(seed)
    try:
        found = run_both(function_of(made.text, "kernel", NAMES), made.arguments, made.grid, mode=mode)
    except KernelTypeError:
        return "refused"
    except Exception as error:
        error.add_note(f"seed {seed}:\n{made.text}")
        raise
    return "\n".join([f"seed {seed}: ", *found.differences(), made.text]) if found.differences() else "same"


@pytest.mark.parametrize("first", [0, 10, *(pytest.param(first, marks=pytest.mark.thorough) for first in range(20, 100, 10))])
def test_a_kernel_is_as_a_program_what_it_is_in_python(first: int) -> None:
    found = Counter(outcome(seed) for seed in range(first, first + _SEEDS_A_TEST))
    assert not set(found) - {"same", "refused"}, "\n".join(set(found) - {"same", "refused"})
    assert found["refused"] <= _SEEDS_A_TEST // 2


@pytest.mark.parametrize("first", [200, *(pytest.param(first, marks=pytest.mark.thorough) for first in (210, 220, 230))])
def test_a_kernel_that_checks_itself_computes_the_same(first: int) -> None:
    found = Counter(outcome(seed, "record") for seed in range(first, first + _SEEDS_A_TEST))
    assert not set(found) - {"same", "refused"}, "\n".join(set(found) - {"same", "refused"})


def test_a_seed_gives_the_same_text_each_time() -> None:
    assert kernel_text(5).text == kernel_text(5).text != kernel_text(6).text


if __name__ == "__main__":
    COUNT = int(sys.argv[1])
    FOUND: Counter[str] = Counter()
    for SEED in range(100, 100 + COUNT):
        RESULT = outcome(SEED)
        FOUND[RESULT if RESULT in {"same", "refused"} else "different"] += 1
        if RESULT not in {"same", "refused"}:
            sys.stdout.write(f"{RESULT}\n")
    sys.stdout.write(f"{dict(FOUND)}\n")
    sys.exit(bool(FOUND["different"]) or FOUND["refused"] > _MOST_REFUSED * COUNT)
