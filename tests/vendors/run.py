"""What other vendors' devices make of the package, without these devices: what `make vendors` runs.

Usage: python tests/vendors/run.py [--count N] [--first SEED] [--jobs N] [--families A,B] [--no-weak]

Mesa's RADV compiles for any of its devices without one (RADV_FORCE_FAMILY): every shader and kernel of the package, and random
programs, are compiled for some and dispatched nowhere. Then the device tests run on this machine's CPU driver (lavapipe) below
the layer weak.c, which tells of a device as weak as many are.
Exit status: 0 all is well, 1 something is not, 2 RADV or lavapipe is not installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from layers import pipelines_environment, weak_environment
from radv import FAMILIES, compiled, manifest, of_family

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BATCH = 250
# Of lavapipe itself, of the loader's variables, and of a space with larger workgroups.
NOT_BELOW = (
    "tests/device/test_device_facts.py::test_lavapipe_gives_this_profile",
    "tests/device/test_device_strangers.py::test_the_environment_is_as_before_when_kompute_cannot_open_the_device",
    "tests/device/test_device_tuned_calls.py::test_a_module_is_tuned_on_a_call_and_compiled_with_what_was_found",
)


def driver_of(name: str, title: str) -> Path:
    """The file by which the loader finds a driver; ends the process with status 2 where there is none."""
    path = manifest(name)
    if path is None:
        sys.stderr.write(f"{title} is not installed (Debian: mesa-vulkan-drivers)\n")
        raise SystemExit(2)
    return path


def compile_for(family: str, first: int, count: int, jobs: int) -> bool:
    """Compile everything for a family, and print what came of it; whether nothing failed."""
    environment = of_family(family, driver_of("radeon", "RADV")) | pipelines_environment(ROOT / "build" / "pipelines")
    work: list[tuple[str, ...]] = [("shaders",), ("kernels",)]
    for place, start in enumerate(range(first, first + count, BATCH)):
        part = ("programs", str(start), str(min(BATCH, first + count - start)))
        work.append((*part, "--constants") if place % 5 == 4 else part)
    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(lambda what: compiled(environment, *what), work))
    for name, part in (("shaders", found[:1]), ("kernels", found[1:2]), ("programs", found[2:])):
        refused = [line for one in part for line in one.refused]
        failed = [line for one in part for line in one.failed]
        print(
            f"{found[0].device}: {name}: {sum(one.done for one in part)} compiled to {sum(one.native for one in part)} bytes, "
            f"{len(refused)} refused, {len(failed)} failed"
        )
        print("".join(f"  {line}\n" for line in (*refused, *failed)), end="", flush=True)
    return not any(one.failed for one in found)


def passes_weakened() -> bool:
    """Run the device tests and some of the conformance suite below the weak layer; whether all is well."""
    path = driver_of("lvp", "lavapipe")
    environment = weak_environment(ROOT / "build" / "weak") | {"VK_DRIVER_FILES": str(path), "VYRE_REQUIRE": "device"}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "refusals", "tests/device"]
    command += [word for one in NOT_BELOW for word in ("--deselect", one)]
    tested = subprocess.run(command, env=os.environ | environment, check=False, cwd=ROOT).returncode
    asking = [sys.executable, "-m", "vyre_driver", "conform", "--allow-software", "--count", "300"]
    asked = subprocess.run(asking, env=os.environ | environment, check=False, cwd=ROOT).returncode
    return (tested, asked) == (0, 0)


def main() -> int:
    """Do it all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5000, help="random programs for each family")
    parser.add_argument("--first", type=int, default=0, help="the first program's seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    parser.add_argument("--families", default=",".join(FAMILIES), help="RADV's names, with commas")
    parser.add_argument("--no-weak", action="store_true", help="only compile")
    options = parser.parse_args()
    fine = [compile_for(one, options.first, options.count, options.jobs) for one in options.families.split(",")]
    if not options.no_weak:
        fine.append(passes_weakened())
    return 0 if all(fine) else 1


if __name__ == "__main__":
    raise SystemExit(main())
