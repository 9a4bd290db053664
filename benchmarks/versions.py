"""Two installed versions in turn: what the warm path takes with each.

python -m benchmarks.versions OLD NEW [--json] [--rounds 9] [--repeats 2000]

OLD and NEW are directories that ``pip install --target`` filled with a wheel and what it needs. Each round starts a process
with either, outside of the source tree; an earlier process of the same version has filled its cache. The ratio, new to old, is
the median of the rounds' ratios.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.pipeline import BLOCKS, big_shader
from benchmarks.timing import Row, parser, print_rows
from vyre_driver import SpirvModule

_SMALL = """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
void main() { uint i = gl_GlobalInvocationID.x; y[i] += x[i]; }
"""
_BLOCKS_ON_A_CPU = 4  # a CPU device takes minutes for all


def in_a_process(site: Path, folder: Path, device: str | None, repeats: int) -> dict[str, float]:
    """Return what one process measured with the packages of a directory."""
    cache = folder / f"cache-{site.name}"
    environment = os.environ | {"PYTHONPATH": str(site), "VYRE_CACHE_DIR": str(cache), "PYTHONSAFEPATH": ""}
    command = [sys.executable, str(folder / "versions_child.py"), str(folder), device or "", str(repeats)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def measure(
    sites: dict[str, Path], folder: Path, device: str | None, rounds: int, repeats: int
) -> dict[tuple[str, str], list[float]]:
    """Run both versions, round by round, and return the figures of each step and version."""
    for site in sites.values():
        in_a_process(site, folder, device, 10)  # fills the cache
    samples: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds):
        for name, site in sorted(sites.items(), reverse=bool(number % 2)):
            for what, value in in_a_process(site, folder, device, repeats).items():
                samples.setdefault((what, name), []).append(value)
    return samples


def main() -> None:
    """Print the figures of both versions, and their ratios."""
    options = parser(__doc__)
    options.add_argument("old", type=Path)
    options.add_argument("new", type=Path)
    options.add_argument("--blocks", type=int, default=BLOCKS, help=f"of the big shader (a CPU device: {_BLOCKS_ON_A_CPU})")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(Path(__file__).with_name("versions_child.py"), folder)
        (folder / "small.spv").write_bytes(SpirvModule.from_glsl(_SMALL).code)
        (folder / "big.spv").write_bytes(SpirvModule.from_glsl(big_shader(chosen.blocks)).code)
        sites = {"new": chosen.new.resolve(), "old": chosen.old.resolve()}
        samples = measure(sites, folder, chosen.device, chosen.rounds, chosen.repeats)
    rows = [Row(what, name, statistics.median(values), min(values), max(values)) for (what, name), values in samples.items()]
    ratios = {
        what: statistics.median(new / old for new, old in zip(values, samples[what, "old"], strict=True))
        for (what, name), values in samples.items()
        if name == "new"
    }
    facts = {"ratio, new to old": {what: round(ratio, 3) for what, ratio in ratios.items()}}
    print_rows(rows, facts, as_json=chosen.json)


if __name__ == "__main__":
    main()
