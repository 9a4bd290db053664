"""Throw words at SpirvModule: ``python tests/fuzz/fuzz_spirv.py SECONDS`` (``make fuzz``).

With atheris installed libFuzzer looks for new paths; without, or with --loop, a plain loop mutates real modules, instruction by
instruction. Each input goes the whole way up to the device (support/module_walk.py). An error that it may not end in, a wrong
answer, more than SLOW_S of processor time for one input, or more than MOST_BYTES of address space for the process (which makes
Python raise MemoryError) ends the run with the input's hex.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

try:
    import atheris
except ImportError:
    atheris = None

with atheris.instrument_imports(include=["vyre_driver"]) if atheris else nullcontext():
    from module_walk import outcome

from mutations import LARGEST_WORDS, mutated, mutated_body
from spirv_corpus import modules

SLOW_S = 5.0
MOST_BYTES = 3 << 30

outcomes: Counter[str] = Counter()
slowest = (0.0, 0)


def try_input(data: bytes) -> None:
    """Walk one module, and hold it to its time."""
    global slowest  # noqa: PLW0603 -- the figure of the run
    began = time.process_time()
    outcomes[outcome(data)] += 1
    took = time.process_time() - began
    slowest = max(slowest, (took, len(data)))
    assert took < SLOW_S, f"{len(data)} bytes took {took:.1f} s"


def loop(seconds: float, seed: int) -> None:
    """Mutate for a time; what can still be run is mutated further."""
    rng = random.Random(seed)  # noqa: S311 -- no secret
    corpus = modules()
    real = len(corpus)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = mutated(rng, corpus, real) if rng.random() < 0.8 else mutated_body(rng, rng.choice(corpus))
        before = outcomes["usable"]
        try:
            try_input(data)
        except BaseException:
            print(f"input: {data.hex()}")
            raise
        if outcomes["usable"] > before:
            if len(corpus) >= 4000:
                del corpus[rng.randrange(real, len(corpus))]
            corpus.append(data)


def main() -> None:
    """Run for the seconds given, and print what came out."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("seconds", type=int, nargs="?", default=600)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--loop", action="store_true", help="mutate in a plain loop even where atheris is installed")
    given = options.parse_args()
    if atheris is None or given.loop:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        loop(given.seconds, given.seed)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(
            f"{sum(outcomes.values())} inputs: {dict(sorted(outcomes.items()))}; slowest {slowest[0] * 1000:.0f} ms of "
            f"processor time for {slowest[1]} bytes; {peak} MiB at most"
        )
        return
    with tempfile.TemporaryDirectory() as corpus:
        for place, code in enumerate(modules()):
            Path(corpus, f"{place:03}").write_bytes(code)
        flags = [f"-max_total_time={given.seconds}", f"-max_len={4 * LARGEST_WORDS}", "-rss_limit_mb=3072", corpus]
        atheris.Setup([sys.argv[0], *flags], try_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
