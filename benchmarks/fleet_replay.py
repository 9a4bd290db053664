"""The same small fleet twice: of real processes against a redis-server, and in simulated time. Told is how far they agree.

python -m benchmarks.fleet_replay [--json] [--machines N] [--pipelines K] [--compile-ms MS] [--runs R]: each process is a
machine with a root of its own and a compiler that sleeps (benchmarks/remote_fleet.py). All share the cores of this machine, in
both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.fleet_simulation import RATES, Case, Simulated
from benchmarks.remote_fleet import fleet
from vyre_driver.vulkan import enumerate_devices, select_device

LOOPBACK = replace(RATES, round_trip_s=30e-6)


def main() -> None:
    """Run both, the real one several times."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", action="store_true", help="print data instead of a table")
    options.add_argument("--machines", type=int, default=50)
    options.add_argument("--pipelines", type=int, default=20)
    options.add_argument("--compile-ms", type=int, default=2000)
    options.add_argument("--runs", type=int, default=3)
    given = options.parse_args()
    runs = [fleet("warmed", given) for _ in range(given.runs)]
    device = select_device(enumerate_devices(), allow_software=True)
    with tempfile.TemporaryDirectory(prefix="vyre-fleet-") as name:
        simulated = Simulated(device, Path(name), given.pipelines, given.compile_ms / 1000)
        found = simulated.run(Case(), given.machines, 1, LOOPBACK, cores=os.cpu_count() or 1)
    real = [(compiled, sorted(seconds)) for compiled, seconds in runs]
    told = {
        "machines": given.machines,
        "pipelines": given.pipelines,
        "compile_ms": given.compile_ms,
        "cores": os.cpu_count(),
        "real": [{"compiled": compiled, "seconds": [round(one, 3) for one in seconds]} for compiled, seconds in real],
        "simulated": {"compiled": found.compiled, "seconds": [round(one, 3) for one in found.took_s]},
    }
    if given.json:
        print(json.dumps(told, indent=1))
        return
    for what, compiled, seconds in [*(("real", *one) for one in real), ("simulated", found.compiled, found.took_s)]:
        tenth = len(seconds) // 10
        spread = f"{seconds[tenth]:.2f} to {seconds[-1 - tenth]:.2f}, last {seconds[-1]:.2f}"
        print(f"{what:10} {compiled:4} compiled, seconds a machine: median {statistics.median(seconds):.2f} ({spread})")


if __name__ == "__main__":
    main()
