"""Throw bytes at Program.from_wire: ``python tests/fuzz/fuzz_wire.py SECONDS`` (``make fuzz``).

With atheris installed libFuzzer looks for new paths; without, a plain loop mutates containers. Each input is tried as it is,
and as a body under a right header. Anything but a program or InvalidProgram ends the run with the input's hex; a program that
was read must survive to_wire and from_wire, or be refused by to_wire.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

try:
    import atheris
except ImportError:
    atheris = None

from contextlib import nullcontext

with atheris.instrument_imports() if atheris else nullcontext():
    from vyre_driver.errors import InvalidProgram
    from vyre_driver.ir.program import Program
    from vyre_driver.ir.wire.format import HEADER_BYTES

from byte_mutations import LARGEST_BYTES, mutated
from every_term import CARRIED, NODES
from made_containers import signed

SLOW_S = 10.0  # 64 KiB take well below a second; the rest is for a busy machine

outcomes = {"programs": 0, "refused": 0}
slowest = 0.0


def seeds() -> list[bytes]:
    """Bodies of real containers of format 6: one with everything, and one for each node."""
    programs = [CARRIED, *(CARRIED.with_rewritten_wrapped_entry([node]) for node in NODES)]
    return [program.canonical_wire_bytes(6)[HEADER_BYTES:] for program in programs]


def read(data: bytes) -> None:
    """Read one container, and carry it once more when it is a program."""
    global slowest  # noqa: PLW0603 -- the figure of the run
    began = time.perf_counter()
    try:
        program = Program.from_wire(data)
    except InvalidProgram:
        outcomes["refused"] += 1
        program = None
    took = time.perf_counter() - began
    slowest = max(slowest, took)
    assert took < SLOW_S, f"{len(data)} bytes took {took:.1f} s"
    if program is None:
        return
    outcomes["programs"] += 1
    try:
        again = Program.from_wire(program.to_wire())
    except InvalidProgram:
        return
    assert again == program
    assert again.fingerprint() == program.fingerprint()


def try_input(data: bytes) -> None:
    """Read bytes as they are, and as a body with a right header of each format."""
    read(data)
    for version in (4, 5, 6, 7):
        read(signed(data, version))


def loop(seconds: float, seed: int) -> None:
    """Mutate for a time; what was read as a program is mutated further."""
    rng = random.Random(seed)  # noqa: S311 -- no secret
    bodies = seeds()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = mutated(rng, bodies)
        before = outcomes["programs"]
        try:
            try_input(data)
        except BaseException:
            print(f"input: {data.hex()}")
            raise
        if outcomes["programs"] > before and len(bodies) < 2000:
            bodies.append(data)


def main() -> None:
    """Run for the seconds given, and print what came out."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("seconds", type=int, nargs="?", default=600)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--loop", action="store_true", help="mutate in a plain loop even where atheris is installed")
    given = options.parse_args()
    if atheris is None or given.loop:
        loop(given.seconds, given.seed)
        print(f"{outcomes['programs']} programs, {outcomes['refused']} refused, slowest {slowest * 1000:.0f} ms")
        return
    with tempfile.TemporaryDirectory() as corpus:
        for place, body in enumerate(seeds()):
            Path(corpus, f"{place:03}").write_bytes(body)
        flags = [f"-max_total_time={given.seconds}", f"-max_len={LARGEST_BYTES}", "-rss_limit_mb=2048", corpus]
        atheris.Setup([sys.argv[0], *flags], try_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
