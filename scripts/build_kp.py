"""Compile kompute's Python module ``kp`` from its sdist: one file for one interpreter, on this machine or for another.

    build_kp.py --python /usr/bin/python3.13 --into vyre_driver/kompute/bundled
    build_kp.py --python python3.11 --into build/arm --target aarch64-linux-gnu.2.28  # by PyPI's ziglang

kompute's own build wants cmake and four projects from a code host. Its sources want a C++ compiler and headers: here they are
compiled with the macros that its setup.py sets, and but for two calls (``CHECKED_CALLS``) as they are. The result depends on
nothing but libc and libvulkan (and, without ``--target``, on the system's libstdc++), has pybind11 internals of its own, and is
kept under ``--cache``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KP_VERSION, PYBIND11_VERSION = "0.9.0", "3.1.0"
KP_SHA256 = "98e583dc6e9731ff6d7a3e3317817e4d93f7b2945929619e29a56325db279949"
PYBIND11_SHA256 = "b8488090f8acffbcb6b5d6a85571a6827a0a2981ffb75e5a0b27b87c4a6b7dd0"
A_DAY_S = 86_400
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vyre-build"
HEADERS = (("vulkan/vulkan.hpp", "libvulkan-dev"), ("fmt/format.h", "libfmt-dev"))  # with Debian's packages
INCLUDE = (Path("/usr/local/include"), Path("/usr/include"))
CORE = (
    *("Core", "Manager", "Algorithm", "Sequence", "Tensor", "OpAlgoDispatch", "OpMemoryBarrier"),
    *("OpTensorCopy", "OpTensorSyncDevice", "OpTensorSyncLocal", "logger/Logger"),
)
FLAGS = [
    *("-std=c++17", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden"),
    *("-ffunction-sections", "-fdata-sections", "-fno-sanitize=undefined", "-w"),
    "-DFMT_HEADER_ONLY",
    # As kp's setup.py has it: no log (6 is KOMPUTE_LOG_LEVEL_OFF). And no validation layer just because one is installed.
    *("-DKOMPUTE_OPT_LOG_LEVEL_DISABLED=1", "-DKOMPUTE_OPT_ACTIVE_LOG_LEVEL=6", "-DKOMPUTE_DISABLE_VK_DEBUG_LAYERS=1"),
    # pybind11 shares a table of types among modules of one ABI: another kp in the process would meet ours there.
    *('-DPYBIND11_COMPILER_TYPE="vyre_driver"', "-DKOMPUTE_BUILD_PYTHON=1"),
]
# Calls in kompute's Manager.cpp whose results it ignores: it would go on with a null handle, at which the loader ends the
# process. The second destroys the instance, because the destructor of a Manager whose constructor throws does not run.
CHECKED_CALLS = (
    ("vkCreateInstance", "vk::createInstance(\n      &computeInstanceCreateInfo, nullptr, this->mInstance.get());", ""),
    (
        "vkCreateDevice",
        "physicalDevice.createDevice(\n      &deviceCreateInfo, nullptr, this->mDevice.get());",
        "this->mInstance->destroy((vk::Optional<const vk::AllocationCallbacks>)nullptr);",
    ),
)
ASK = """import json, sysconfig as s
print(json.dumps({"include": [s.get_path("include"), s.get_path("platinclude")],
                  "suffix": s.get_config_var("EXT_SUFFIX"), "version": s.get_python_version()}))"""


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: its command, the C compiler of the same target, and what it says of its version."""

    cxx: tuple[str, ...]
    cc: tuple[str, ...]
    version: str

    @property
    def flags(self) -> list[str]:
        """GCC would make its inline variables one for the whole process, other modules' included."""
        return ["-fno-gnu-unique"] if "Free Software Foundation" in self.version else []


@dataclass(frozen=True)
class Headers:
    """Where the headers of Vulkan and fmt were found, and their versions."""

    vulkan: Path
    fmt: Path
    vulkan_version: str
    fmt_version: str


def refuse(what: str, fix: str) -> SystemExit:
    """Return what ends the program with one sentence and a fix."""
    return SystemExit(f"{Path(sys.argv[0]).stem}: {what}\nFix: {fix}.")


def run(command: list[str], what: str, fix: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run a step, and return what it printed; one that fails shows the end of it."""
    try:
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    except OSError as error:
        raise refuse(f"{what}: {command[0]} cannot be run ({error.strerror}).", fix) from error
    if done.returncode:
        lines = (done.stdout + done.stderr).splitlines()[-20:]
        raise refuse("\n".join([f"{what} failed: {shlex.join(command)[:300]}", *lines]), fix)
    return done.stdout


def ask_python(python: str) -> dict[str, Any]:
    """Return where an interpreter's headers should be, the suffix of its extension modules, and its version (3.11)."""
    asked: dict[str, Any] = json.loads(run([python, "-I", "-c", ASK], f"asking {python} for its headers", "name a Python"))
    return asked


def has_headers(facts: dict[str, Any]) -> bool:
    """Whether an interpreter's headers are where it says."""
    return any(Path(folder, "Python.h").is_file() for folder in facts["include"])


def python_facts(python: str) -> dict[str, Any]:
    """Return what ``ask_python`` does, of an interpreter that has its headers."""
    facts = ask_python(python)
    if not has_headers(facts):
        raise refuse(f"{python} has no Python.h in {facts['include'][0]}.", "install its headers (Debian: python3-dev)")
    return facts


def find_compiler(target: str | None) -> Compiler:
    """Return the system's compiler, or for a target (aarch64-linux-gnu.2.28) that of the ziglang package beside this Python."""
    if target is None:
        cxx, cc = shlex.split(os.environ.get("CXX", "c++")), shlex.split(os.environ.get("CC", "cc"))
        fix = "install a C and C++ compiler (Debian: g++), or name them in CC and CXX"
    else:
        cxx, cc = ([sys.executable, "-m", "ziglang", name, "-target", target] for name in ("c++", "cc"))
        fix = f"install it for this Python: {sys.executable} -m pip install ziglang"
    return Compiler(tuple(cxx), tuple(cc), run([*cxx, "--version"], "asking the compiler for its version", fix))


def missing_headers() -> list[tuple[str, str]]:
    """Return the headers that the system lacks, each with the package of Debian that has it."""
    return [(header, package) for header, package in HEADERS if not any((place / header).is_file() for place in INCLUDE)]


def find_headers() -> Headers:
    """Return the system's headers of Vulkan and fmt."""
    if missing := missing_headers():
        names, packages = (" and ".join(words) for words in zip(*missing, strict=True))
        looked = " or ".join(map(str, INCLUDE))
        fix = f"install what is missing (Debian: apt-get install {packages.replace(' and ', ' ')})"
        raise refuse(f"{names} {'is' if len(missing) == 1 else 'are'} not in {looked}.", fix)
    found = {package: next(place for place in INCLUDE if (place / header).is_file()) for header, package in HEADERS}
    core = (found["libvulkan-dev"] / "vulkan/vulkan_core.h").read_text("utf-8")
    patch = re.search(r"#define VK_HEADER_VERSION (\d+)", core)
    complete = re.search(r"#define VK_HEADER_VERSION_COMPLETE VK_MAKE_API_VERSION\(\d+, (\d+), (\d+)", core)
    text = "".join((found["libfmt-dev"] / "fmt" / name).read_text("utf-8") for name in ("core.h", "format.h"))
    if (base := found["libfmt-dev"] / "fmt/base.h").exists():
        text += base.read_text("utf-8")
    fmt = re.search(r"#define FMT_VERSION (\d+)", text)
    if patch is None or complete is None or fmt is None:
        raise refuse("the headers of Vulkan or fmt do not say their versions.", "install whole ones from 1.3 and 9.0 on")
    number = int(fmt[1])
    versions = (f"{complete[1]}.{complete[2]}.{patch[1]}", f"{number // 10000}.{number // 100 % 100}.{number % 100}")
    return Headers(found["libvulkan-dev"], found["libfmt-dev"], *versions)


def fetch(name: str, version: str, digest: str, cache: Path) -> Path:
    """Return a package's archive, downloaded with pip once and held to its digest each time."""
    folder = cache / "archives"
    folder.mkdir(parents=True, exist_ok=True)

    def kept() -> Path | None:
        return next((one for one in folder.iterdir() if hashlib.sha256(one.read_bytes()).hexdigest() == digest), None)

    if (found := kept()) is None:
        wanted = folder / f"{name}.txt"
        wanted.write_text(f"{name}=={version} --hash=sha256:{digest}\n", "utf-8")
        options = ["--disable-pip-version-check", "--no-deps", "--no-binary", "kp", "--dest", str(folder)]
        command = [sys.executable, "-m", "pip", "download", *options, "--require-hashes", "-r", str(wanted)]
        run(command, f"downloading {name} {version}", "check the network and pip's index (pip config list); then run again")
        found = kept()
    if found is None:
        raise refuse(f"pip downloaded no {name} {version} of the pinned digest.", "set pip's index to one that has it")
    return found


def copy_headers(headers: Headers, includes: list[str], place: Path, machine: str) -> None:
    """Copy Vulkan's headers and Debian's pyconfig.h, so that a compiler for another target sees nothing else of the system."""
    for name in ("vulkan", "vk_video"):
        if (headers.vulkan / name).is_dir():
            shutil.copytree(headers.vulkan / name, place / name)
    for include in map(Path, dict.fromkeys(includes)):
        # Debian keeps one for each machine. What differs between 64-bit ones is not used by extension modules.
        for config in include.parent.glob(f"{platform.machine()}-linux-gnu*/{include.name}/pyconfig.h"):
            shutil.copytree(config.parent, place / f"{machine}-linux-gnu" / include.name)


def check_calls(manager: Path) -> None:
    """Rewrite Manager.cpp so that CHECKED_CALLS throw where they fail, which is a RuntimeError in Python."""
    text = manager.read_text("utf-8")
    for name, call, cleanup in CHECKED_CALLS:
        if text.count(call) != 1:
            raise refuse(f"kompute's Manager.cpp does not call {name} as kp {KP_VERSION} does.", "adapt CHECKED_CALLS")
        failed = f'throw std::runtime_error("{name} returned " + std::to_string(static_cast<int>(result)));'
        text = text.replace(call, f"if (vk::Result result = {call} result != vk::Result::eSuccess) {{ {cleanup} {failed} }}")
    manager.write_text(text, "utf-8")


def prepare(work: Path, headers: Headers, cache: Path, includes: list[str], machine: str) -> None:
    """Lay out in a folder what is compiled: kompute, pybind11, headers, and a libvulkan to link against."""
    with tarfile.open(fetch("kp", KP_VERSION, KP_SHA256, cache)) as archive:
        for member in archive.getmembers():
            # The digest is pinned, so that nothing in it is hostile; "data" is a filter that Python 3.10.0 lacks.
            archive.extract(member, work)
    (work / f"kp-{KP_VERSION}").rename(work / "kompute")
    check_calls(work / "kompute/src/Manager.cpp")
    with zipfile.ZipFile(fetch("pybind11", PYBIND11_VERSION, PYBIND11_SHA256, cache)) as wheel:
        wheel.extractall(work / "pybind11")  # noqa: S202 -- of a pinned digest
    include = work / "include"
    copy_headers(headers, includes, include, machine)
    shutil.copytree(headers.fmt / "fmt", include / "fmt")
    for shader in (work / "kompute/src/shaders/glsl").glob("*.hpp.in"):
        shutil.copy(shader, include / shader.stem)
    (work / "core.cpp").write_text("".join(f'#include "{name}.cpp"\n' for name in CORE), "utf-8")
    functions = sorted(set(re.findall(r"VKAPI_CALL (vk\w+)\(", (include / "vulkan/vulkan_core.h").read_text("utf-8"))))
    (work / "libvulkan.c").write_text("".join(f"void {name}(void) {{}}\n" for name in functions), "utf-8")


def zig_cache(cache: Path) -> dict[str, str]:
    """Return the variables that tell ziglang where to keep the C and C++ libraries that it has compiled for a target."""
    return {"ZIG_GLOBAL_CACHE_DIR": str(cache / "zig"), "ZIG_LOCAL_CACHE_DIR": str(cache / "zig")}


def compile_kp(work: Path, compiler: Compiler, includes: list[str], made: Path, jobs: int) -> None:
    """Compile and link; paths are relative, so that where it happens is not seen in the file."""
    fix = "see what the compiler complains of; clang, GCC from 9 on and ziglang 0.17 are known to do"
    paths = ["include", "kompute/src", "kompute/src/include", "pybind11/pybind11/include", *includes]
    flags = [*FLAGS, *compiler.flags, *(f"-I{path}" for path in dict.fromkeys(paths))]
    steps = [
        [*compiler.cxx, *flags, "-c", "core.cpp", "-o", "core.o"],
        [*compiler.cxx, *flags, "-c", "kompute/python/src/main.cpp", "-o", "main.o"],
        [*compiler.cc, "-shared", "-fPIC", "-w", "-Wl,-soname,libvulkan.so.1", "libvulkan.c", "-o", "libvulkan.so"],
    ]
    env = {**os.environ, **zig_cache(made.parents[2])}
    with ThreadPoolExecutor(jobs) as workers:
        list(workers.map(lambda step: run(step, "compiling kompute", fix, work, env), steps))
    link = [*compiler.cxx, "-shared", "-fPIC", "-s", "-Wl,--gc-sections", "-Wl,-z,relro", "-Wl,-z,now"]
    run([*link, "core.o", "main.o", "libvulkan.so", "-o", str(made)], "linking kompute", fix, work, env)


def notice(work: Path, headers: Headers, target: str | None) -> str:
    """Return the licences of what is in the file."""
    fmt = (work / "include/fmt/format.h").read_text("utf-8").partition("*/")[0].removeprefix("/*").strip()
    pybind11 = next((work / "pybind11").glob("*.dist-info/licenses/LICENSE")).read_text("utf-8").strip()
    kompute = (work / "kompute/LICENSE").read_text("utf-8").strip()
    parts = [
        (f"kompute {KP_VERSION} (Apache-2.0), from the sdist of kp, changed: Manager.cpp checks two results", kompute),
        (f"pybind11 {PYBIND11_VERSION} (BSD-3-Clause)", pybind11),
        (f"fmt {headers.fmt_version} (MIT with an exception for object code)", fmt),
        (
            f"Vulkan-Hpp and Vulkan headers {headers.vulkan_version} (Apache-2.0 OR MIT)",
            "Copyright 2015 The Khronos Group Inc.",
        ),
    ]
    if target is not None:
        text = "Part of the LLVM Project, compiled in, and so under the exception."
        parts.append(("libc++, libc++abi and libunwind (Apache-2.0 WITH LLVM-exception)", text))
    head = "The file kp.*.so beside this one holds compiled code of these projects.\n"
    return head + "".join(f"\n{'=' * 100}\n{title}\n{'=' * 100}\n\n{text}\n" for title, text in parts)


def build(python: str, target: str | None, cache: Path = CACHE, jobs: int = 2) -> dict[str, str]:
    """Return what was built, or what the cache had: the file, its licences, and the versions of its parts."""
    asked = python_facts(python)
    machine = platform.machine() if target is None else target.partition("-")[0]
    suffix = re.sub(r"-\w+-linux-gnu", f"-{machine}-linux-gnu", asked["suffix"])
    compiler, headers = find_compiler(target), find_headers()
    facts = {"kompute": KP_VERSION, "pybind11": PYBIND11_VERSION, "fmt": headers.fmt_version, "vulkan": headers.vulkan_version}
    if target is not None and (llvm := re.search(r"clang version ([\d.]+)", compiler.version)):
        facts["libcxx"] = llvm[1]
    inputs = [Path(__file__).read_text("utf-8"), compiler.version, str(target), suffix, *asked["include"], *facts.values()]
    key = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:32]
    kept = cache / f"kp-{KP_VERSION}-{key}"
    if not kept.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        for left in cache.glob("making-*"):  # by a build that was killed
            if time.time() - left.stat().st_mtime > A_DAY_S:
                shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as scratch:
            work, made = Path(scratch, "work"), Path(scratch, "made")
            work.mkdir()
            made.mkdir()
            prepare(work, headers, cache, asked["include"], machine)
            compile_kp(work, compiler, asked["include"], made / f"kp{suffix}", jobs)
            (made / "NOTICE").write_text(notice(work, headers, target), "utf-8")
            try:
                made.rename(kept)
            except OSError:  # another process has just made the same
                if not kept.is_dir():
                    raise
    return {**facts, "file": str(kept / f"kp{suffix}"), "notice": str(kept / "NOTICE")}


def main() -> None:
    """Build, and copy the file and its licences to where they are wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that is to import it (default: this one)")
    parser.add_argument("--into", type=Path, required=True, metavar="DIR", help="where the file and NOTICE go")
    parser.add_argument(
        "--target", metavar="TRIPLE", help="compile with ziglang, for this (default: with c++, for this machine)"
    )
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help=f"where builds are kept (default: {CACHE})")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at a time; each takes up to 1.5 GB (default: 2)")
    options = parser.parse_args()
    built = build(options.python, options.target, options.cache.resolve(), options.jobs)
    options.into.mkdir(parents=True, exist_ok=True)
    for name in ("file", "notice"):
        # Renamed into place: a process that has the old file mapped must keep it.
        fresh = options.into / f".{Path(built[name]).name}.new"
        shutil.copy(built[name], fresh)
        fresh.replace(options.into / Path(built[name]).name)
    print(json.dumps(built, indent=1))


if __name__ == "__main__":
    main()
