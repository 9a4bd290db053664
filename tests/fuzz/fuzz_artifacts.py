"""Throw bytes at read_artifact: ``python tests/fuzz/fuzz_artifacts.py SECONDS`` (``make fuzz``).

Mutates what upstream's 0.7.2 wrote. Each input is tried as it is, and, where it is a framed document, under a digest that is
right. Anything but an artifact or InvalidContainer ends the run with the input's hex; a graph that was read must survive
to_wire and from_wire.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from byte_mutations import mutated
from upstream_graphs import cases

from vyre_driver.artifacts import Graph, read_artifact
from vyre_driver.artifacts.neutral import FRAME as ARTIFACT
from vyre_driver.artifacts.opening import FRAME as ENVELOPE
from vyre_driver.artifacts.payload import FRAME as PAYLOAD
from vyre_driver.errors import InvalidContainer

SLOW_S = 10.0
FRAMES = {frame.magic: frame for frame in (ARTIFACT, PAYLOAD, ENVELOPE)}
HOSTILE = [
    b"\xff" * 4,
    b"\0" * 8,
    b"[" * 200,
    b'{"a":',
    b"9" * 4400,
    b"null",
    b"true",
    b"-1",
    b'"\\ud800"',
    b"1e999",
    b"[[],[]],",
]
TOKENS = [b"0", b"1", b"9", b"[", b"]", b",", b'"']

outcomes = {"read": 0, "refused": 0}
slowest = 0.0


def seeds() -> list[bytes]:
    """Everything that upstream wrote."""
    kinds = ("graph", "artifact", "payload", "envelope")
    return [case.bytes_of[kind] for case in cases().values() for kind in kinds if kind in case.bytes_of]


def read(data: bytes) -> bool:
    """Read bytes, and say whether they were something."""
    global slowest  # noqa: PLW0603 -- the figure of the run
    began = time.perf_counter()
    try:
        artifact = read_artifact(data)
    except InvalidContainer:
        artifact = None
    took = time.perf_counter() - began
    slowest = max(slowest, took)
    assert took < SLOW_S, f"{len(data)} bytes took {took:.1f} s"
    outcomes["refused" if artifact is None else "read"] += 1
    if isinstance(artifact, Graph):
        assert Graph.from_wire(artifact.to_wire()) == artifact
    return artifact is not None


def main() -> None:
    """Run for the seconds given, and print what came out."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("seconds", type=int, nargs="?", default=600)
    options.add_argument("--seed", type=int, default=1)
    arguments = options.parse_args()
    rng = random.Random(arguments.seed)  # noqa: S311 -- no secret
    inputs = seeds()
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        data = mutated(rng, inputs, HOSTILE, TOKENS)
        tried = [data]
        if data[:4] in FRAMES:
            tried.append(FRAMES[data[:4]].wrap(data[10:-32]))
        for attempt in tried:
            try:
                is_new = read(attempt) and len(inputs) < 2000
            except BaseException:
                print(f"input: {attempt.hex()}")
                raise
            if is_new:
                inputs.append(attempt)
    print(f"{outcomes['read']} read, {outcomes['refused']} refused, slowest {slowest * 1000:.0f} ms")


if __name__ == "__main__":
    main()
