"""Random kernels on a device: what a device has to give of them is what the reference gives.

``python tests/lang/test_random_kernels_on_device.py FIRST COUNT JOBS`` asks more, in so many processes. What is wrong is made
smaller and printed; a kernel that a process dies of, or that takes minutes, is named by its seed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from both_ways import function_of
from device_floats import device_differences
from kernel_texts import NAMES, kernel_text
from shrunk_kernels import shrunk

from vyre_driver.conformance.adapters import open_backend
from vyre_driver.errors import KernelTypeError, LimitExceeded

if TYPE_CHECKING:
    from kernel_texts import KernelText

    from vyre_driver.conformance.case import RunProgram

_SEEDS_A_TEST = 8
_SEEDS_A_PROCESS = 50
_TIMEOUT_S = 300
_RIGHT = ("same", "order decides", "refused", "too much to push")


def outcome(made: KernelText, run: RunProgram | None = None) -> str:
    """Run a kernel on a device; returns what became of it, or what differs."""
    try:
        found = device_differences(function_of(made.text, "kernel", NAMES), made.arguments, made.grid, run)
    except KernelTypeError:
        return "refused"
    except LimitExceeded:  # numbers, of which a device takes 128 bytes at least
        return "too much to push"
    if found is None:
        return "order decides"
    return "\n".join(found) or "same"


@pytest.mark.device
# From 210 and 228 on with signs of zeros that the bits of numbers show.
@pytest.mark.parametrize("first", [*(pytest.param(first, marks=pytest.mark.thorough) for first in (100, 210)), 228])
def test_a_kernel_gives_on_a_device_what_it_has_to(first: int) -> None:
    found = Counter(outcome(kernel_text(seed)) for seed in range(first, first + _SEEDS_A_TEST))
    assert not set(found) - set(_RIGHT), "\n".join(set(found) - set(_RIGHT))
    assert found["same"] >= _SEEDS_A_TEST // 2


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def ask(first: int, stop: int) -> None:
    """Print for each seed that it is asked, and then what became of it, made smaller if it is wrong."""
    with ExitStack() as stack:
        run = open_backend("kompute", stack)
        for seed in range(first, stop):
            say(json.dumps([seed, "is asked"]))
            made = kernel_text(seed)

            def wrong(text: str, made: KernelText = made) -> str:
                try:
                    found = outcome(made._replace(text=text), run)
                except Exception as error:  # noqa: BLE001 -- also of a text that is no kernel any more
                    found = f"{type(error).__name__}: {error}"
                return "" if found in _RIGHT else found

            found = wrong(made.text)
            if found:
                kind = found.split("[")[0].split(":")[0]
                text = shrunk(made.text, lambda text, kind=kind, wrong=wrong: wrong(text).startswith(kind))
                found = f"{found}\n{text}\n{wrong(text)}"
            else:
                found = outcome(made, run)
            say(json.dumps([seed, found]))


def ask_in_processes(first: int, stop: int) -> list[tuple[int, str]]:
    """Return what became of each seed; a process that dies, or does not come back, costs the kernel that it was at."""
    found: list[tuple[int, str]] = []
    while first < stop:
        process = subprocess.Popen([sys.executable, __file__, "ask", str(first), str(stop)], stdout=subprocess.PIPE, text=True)
        ended = "the process died"
        try:
            text, _ = process.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            ended = "the process did not come back"
            process.kill()
            text, _ = process.communicate()
        lines = [json.loads(line) for line in text.splitlines() if line.endswith("]")]
        done = [(seed, said) for seed, said in lines if said != "is asked"]
        asked = [seed for seed, said in lines if said == "is asked"]
        if len(asked) > len(done):
            done.append((asked[-1], ended))
        if not done:
            return [*found, (first, ended)]
        found += done
        first = found[-1][0] + 1
    return found


def main(first: int, count: int, jobs: int) -> int:
    chunks = [(at, min(at + _SEEDS_A_PROCESS, first + count)) for at in range(first, first + count, _SEEDS_A_PROCESS)]
    found: Counter[str] = Counter()
    with ThreadPoolExecutor(jobs) as pool:
        for results in pool.map(lambda chunk: ask_in_processes(*chunk), chunks):
            for seed, said in results:
                found[said if said in _RIGHT else "different"] += 1
                if said not in _RIGHT:
                    say(f"seed {seed}: {said}\n")
    say(str(dict(found)))
    return int(bool(found["different"]))


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask(*map(int, sys.argv[2:]))
    else:
        sys.exit(main(*map(int, sys.argv[1:])))
