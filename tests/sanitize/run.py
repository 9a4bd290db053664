"""Run the C layer and the extensions under ThreadSanitizer, AddressSanitizer with UndefinedBehaviorSanitizer, and memcheck.

Usage: python tests/sanitize/run.py [ROUNDS]

The harness stands in for loader, kompute and Python, and the mock driver for Vulkan, so that every report is the layer's. The
last steps watch the real things: the driver on this machine's Vulkan device, and the extensions; they fail where a function of
ours is on a report's stack.
Exit status: 0 nothing was reported, 1 something was, 2 a tool is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VULKAN = ROOT / "vyre_driver" / "vulkan"
SOURCES = [path for path in sorted(VULKAN.rglob("*.c")) if not path.name.startswith("_")] + sorted(HERE.glob("*.c"))
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-Werror", "-pthread")
WRAPPED = "-Wl,--wrap=calloc,--wrap=pthread_create"  # failing.c
BUILDS = {
    "thread": ("-fsanitize=thread",),
    "address and undefined": ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
    "none": (),
}
ENVIRONMENT = {
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66",
    "ASAN_OPTIONS": "detect_leaks=1:exitcode=66",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
MEMCHECK = (str(shutil.which("valgrind")), "--quiet", "--num-callers=40", "--leak-check=full", "--show-leak-kinds=definite")
OURS = frozenset([path.name for path in VULKAN.rglob("*.c")] + [f"{path.stem}.c" for path in VULKAN.parent.rglob("*.pyx")])
# Tests of the extensions that draw no thousands of examples: under memcheck Python takes some fifty times as long.
EXTENSIONS = tuple(
    f"tests/{name}.py"
    for name in (
        "unit/test_c_table",
        "unit/test_call_lock",
        "unit/test_grid_axes",
        "unit/test_program_binding",
        "unit/test_program_inputs",
        "unit/test_spec_maps",
        "golden/test_golden_text",
    )
)
HANGS_AFTER_S = 1800
INTERPRETER = "_PyEval_EvalFrameDefault"


def build(name: str, folder: Path) -> Path:
    """Compile layer, mock driver and harness."""
    program = folder / name.replace(" ", "_")
    headers = (VULKAN, VULKAN / "layer", VULKAN.parent / "include", ROOT / "build" / "vulkan")  # the last: made by the build
    include = (*(f"-I{folder}" for folder in headers), f"-I{sysconfig.get_path('include')}")
    subprocess.run(
        [str(shutil.which("cc")), *FLAGS, *BUILDS[name], *include, *map(str, SOURCES), WRAPPED, "-o", str(program)], check=True
    )
    return program


def report(what: str, began: float, complaint: str) -> bool:
    """Print what came out of a step; whether it was good."""
    print(f"{what}: {complaint or 'nothing to report'} ({time.monotonic() - began:.1f} s)", flush=True)
    return not complaint


def run(what: str, command: list[str]) -> bool:
    """Run the harness; anything but its last word is a complaint."""
    began = time.monotonic()
    done = subprocess.run(
        command, env=os.environ | ENVIRONMENT, capture_output=True, text=True, timeout=HANGS_AFTER_S, check=False
    )
    good = (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    return report(what, began, "" if good else f"status {done.returncode}\n{done.stdout}{done.stderr}")


def is_ours(error: ET.Element) -> bool:
    """Whether a function of ours is on the stack; of a value that nobody set, on that of who made the block it lay in.

    There what Python ran below us is not ours: it finds small numbers by a digit that int.from_bytes of zeros leaves unset, as
    in every import of compiled bytecode.
    """
    stacks = [[(one.findtext("fn"), one.findtext("file")) for one in stack.iter("frame")] for stack in error.iter("stack")]
    if str(error.findtext("kind")).startswith("Uninit") and len(stacks) > 1:
        names = [function for function, _ in stacks[-1]]
        stacks = [stacks[-1][: names.index(INTERPRETER)] if INTERPRETER in names else stacks[-1]]
    return any(file in OURS for stack in stacks for _, file in stack)


def watch(what: str, folder: Path, *command: str) -> bool:
    """Run Python under memcheck; Python's, Mesa's and LLVM's own reports are not ours."""
    began = time.monotonic()
    what = f"memcheck, {what}"
    found = folder / "memcheck.xml"
    options = ("--track-origins=yes", f"--suppressions={HERE / 'memcheck.supp'}", "--xml=yes", f"--xml-file={found}")
    # PYTHONMALLOC: memcheck has to see each block that Python makes.
    paths = os.pathsep.join((str(ROOT), str(HERE)))
    environment = os.environ | {"PYTHONMALLOC": "malloc", "PYTHONPATH": paths, "VYRE_CACHE_DIR": str(folder / "cache")}
    command = (*MEMCHECK, *options, sys.executable, *command)
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=HANGS_AFTER_S, check=False
    )
    if done.returncode:
        return report(what, began, f"status {done.returncode}\n{done.stdout}{done.stderr}")
    errors = ET.parse(found).getroot().findall("error")  # noqa: S314 -- valgrind wrote it just now
    ours = [error for error in errors if is_ours(error)]
    print(f"{what}: {len(errors)} reports, {len(ours)} with a function of ours on the stack")
    return report(what, began, "\n".join(ET.tostring(error, "unicode") for error in ours))


def main() -> int:
    rounds = sys.argv[1] if len(sys.argv) > 1 else "1000"
    missing = [tool for tool in ("cc", "valgrind") if shutil.which(tool) is None]
    if missing:
        print(f"not installed: {', '.join(missing)}. Fix: apt-get install gcc valgrind (Debian).", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = {build_name: build(build_name, folder) for build_name in BUILDS}
        good = [
            run(f"sanitizer {build_name}", [str(programs[build_name]), rounds])
            for build_name in ("thread", "address and undefined")
        ]
        good.append(run("memcheck, mock driver", [*MEMCHECK, "--error-exitcode=66", str(programs["none"]), "20"]))
        good.append(watch("real device", folder, str(HERE / "watched.py")))
        good.append(watch("C table", folder, str(ROOT / "tests" / "fuzz" / "fuzz_c_table.py"), "60"))
        pytest = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "slow", "-o", "faulthandler_timeout=0")
        good.append(watch("extensions", folder, *pytest, *EXTENSIONS))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
