"""Reflect and run compute shaders of public packages: ``python tests/foreign/survey.py CACHE`` (``make foreign``).

Prints the tables of docs/foreign-modules.md. Every module is read, and its facts compared with spirv-dis; of each package as
many as ``--run`` says are run, in child processes: one that dies or hangs takes none of the others with it. Ends with status
1 when a fact differs, a process dies, or numpy disagrees.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import select
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import reflected
from carve import carve
from disassembly import Disassembly
from numpy_kernels import KERNELS, compiled, right
from packages import PACKAGES, SOURCES, Package, fetched, version_of
from run_modules import GAVE_UP

from vyre_driver import Driver, SpirvModule, VyreError
from vyre_driver.process.tools import SPIRV_DIS, Tool, find_tool, not_installed

CHILD = Path(__file__).parent / "run_modules.py"
SILENT_S = 180
BATCH = 100
UNREADABLE = "spirv-dis cannot read it"


class Tally:
    """What came of the modules of one package."""

    def __init__(self) -> None:
        self.reflected = self.facts = self.unread = self.undisassembled = 0
        self.different: list[str] = []
        self.runs: Counter[str] = Counter()


def compare(tool: Tool, name: str, code: bytes, tally: Tally) -> None:
    """Read a module, and compare each of its facts with the disassembly's."""
    try:
        ours = reflected.facts(SpirvModule.from_bytes(code).interface)
    except VyreError as error:
        tally.unread += 1
        tally.different.append(f"{name} is not read: {error}")
        return
    tally.reflected += 1
    done = tool.run(["--raw-id", "-"], code, 120)
    if done.returncode:
        tally.undisassembled += 1
        return
    theirs = Disassembly(done.stdout.decode()).facts()
    for fact, told in ours.items():
        tally.facts += 1
        if told != theirs[fact]:
            tally.different.append(f"{name}: {fact}: {told} and {theirs[fact]}")


def run_all(folder: Path, names: list[str], tally: Tally) -> None:
    """Run modules in children, each of which takes the rest of a batch; what one dies on is counted, and left out."""
    waiting = list(names)
    while waiting:
        batch = waiting[:BATCH]
        ended, died = run_batch(folder, batch, tally)
        waiting = waiting[ended:]
        if died:
            tally.runs[died] += 1
            waiting = waiting[1:]


def run_batch(folder: Path, batch: list[str], tally: Tally) -> tuple[int, str]:
    """Return how many ended, and how the child died on the next one, if it did."""
    ended, command = 0, [sys.executable, str(CHILD), str(folder), *batch]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        while select.select([child.stdout], [], [], SILENT_S)[0]:
            line = child.stdout.readline()
            if not line:
                return ended, "" if child.wait() in {0, GAVE_UP} else f"died with {child.returncode} on {batch[ended]}"
            _, came = json.loads(line)
            if came is not None:
                ended += 1
                tally.runs[came.partition(":")[0]] += 1
        child.kill()
    return ended, f"hung on {batch[ended]}"


def survey(package: Package, options: argparse.Namespace) -> Tally:
    """Read, compare and run what one package ships."""
    folder = fetched(package, options.cache)
    files = sorted(file for file in folder.glob(package.pattern) if file.is_file())
    modules = {hashlib.sha256(code).hexdigest()[:16]: code for file in files for code in carve(file.read_bytes())}
    tally, carved = Tally(), folder / "carved"
    carved.mkdir(exist_ok=True)
    for name, code in modules.items():
        (carved / name).write_bytes(code)
        compare(options.dis, name, code, tally)
    wanted = sorted(modules)
    run_all(carved, wanted[:: max(1, -(-len(wanted) // options.run))] if options.run else [], tally)
    row = [package.name, version_of(package, folder), package.licence, len(modules), tally.reflected, tally.facts]
    refused = ", ".join(f"{count} {came}" for came, count in tally.runs.most_common() if came != "ran") or "none"
    row += [tally.facts - len(tally.different), sum(tally.runs.values()), tally.runs["ran"], refused]
    print(f"| {' | '.join(map(str, row))} |", flush=True)
    for line in (*tally.different[:10], *[came for came in tally.runs if came.startswith(("died", "hung"))]):
        print(f"  {line}"[:500])
    if tally.undisassembled:
        print(f"  {tally.undisassembled} of them: {UNREADABLE}")
    return tally


def compare_with_numpy(options: argparse.Namespace) -> int:
    """Run the kernels whose meaning is plain; returns how many are wrong."""
    wrong, output = 0, options.cache / "compiled.spv"
    files = {}
    for package in SOURCES:
        folder = fetched(package, options.cache)
        files |= {file.name: (file, package) for file in folder.glob(package.pattern)}
    with Driver() as driver:
        for kernel in KERNELS:
            file, package = files[kernel.file]
            code = compiled(file, kernel.defines, output)
            tally = Tally()
            compare(options.dis, kernel.name, code, tally)
            is_right = right(driver, kernel, code) and not tally.different
            wrong += not is_right
            print(f"| {package.name} {package.version} | {kernel.name} | {'right' if is_right else 'WRONG'} |", flush=True)
    return wrong


def main() -> int:
    """Print the tables; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path, help="where the packages are kept, outside the repository")
    parser.add_argument("--run", type=int, default=200, help="about how many modules of each package to run at most")
    options = parser.parse_args()
    options.cache = options.cache.resolve()
    options.dis = find_tool(SPIRV_DIS)
    if options.dis is None:
        raise not_installed(SPIRV_DIS, "what is reflected is compared with what it says")
    began, bad = time.monotonic(), 0
    print("| package | version | licence | modules | reflected | facts compared | equal | tried | ran | refused |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for package in PACKAGES:
        tally = survey(package, options)
        bad += len(tally.different) + sum(came.startswith(("died", "hung")) for came in tally.runs)
    print("\n| package | kernel | numpy says |\n|---|---|---|")
    bad += compare_with_numpy(options)
    print(f"\n{bad} things wrong; {time.monotonic() - began:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
