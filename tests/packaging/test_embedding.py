"""The examples for embedders, built against the installed wheel and run: from C, and from Cython."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from conftest import run

from vyre_driver.autotune import AutotuneKey
from vyre_driver.specialization import SpecCacheKey, SpecMap, SpecValue

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    RunInstalled = Callable[..., subprocess.CompletedProcess[str]]
    Embedded = Callable[[str, str], subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.packaging

REFUSED = 100_000  # of a million dispatches, every tenth has an input that does not fit


def first_digits(dispatches: int) -> int:
    """What embed_c sums up, told by Python."""
    total = 0
    for dispatch in range(dispatches):
        if dispatch % 10:
            constants = SpecMap({f"CONSTANT_{place:02}": SpecValue.u32(place or dispatch) for place in range(16)})
            key = AutotuneKey.new(SpecCacheKey.new(dispatch, 7, (64, 1, 1), constants), "")
            total += ord(key.key_hex[0])
    return total


def test_a_c_extension_checks_and_keys_dispatches_as_python_does(embedded: Embedded) -> None:
    done = embedded("embed_c", "import embed_c; print(embed_c.run(1000))")
    assert (done.stdout, done.stderr) == (f"(100, {first_digits(1000)})\n", "")


def test_a_c_extension_keys_a_million_dispatches_in_four_threads_while_python_goes_on(embedded: Embedded) -> None:
    code = """
import sys, threading, embed_c
sys.setswitchinterval(0.05)
counted, stop = 0, False
def count():
    global counted
    while not stop:
        counted += 1
thread = threading.Thread(target=count)
thread.start()
before = counted
refused, _ = embed_c.run(1_000_000)
after = counted
stop = True
thread.join()
print(refused, after > before)
"""
    done = embedded("embed_c", code)
    assert (done.stdout, done.stderr) == (f"{REFUSED} True\n", "")


def test_a_c_extension_finds_what_python_stored_and_says_why_it_does_not(embedded: Embedded, tmp_path: Path) -> None:
    code = f"""
import embed_c
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.entry import PipelineEntry
from vyre_driver.identity import PipelineCacheKey, PipelineFeatureFlags, encode_manifest, manifest_digest
fields = [("key version", 1), ("shader", bytes(32)), ("binding layout", bytes(32)), ("push constant bytes", 0)]
fields += [(f"workgroup {{axis}}", 1) for axis in "xyz"] + [("feature flags", 0), ("backend", "mine")]
manifest = encode_manifest(fields)
key = PipelineCacheKey.from_manifest(manifest)
verdict, digits, *_ = embed_c.look_up({str(tmp_path / "root")!r}, manifest)
print(verdict, digits == key.hex)
DiskPipelineCache({str(tmp_path / "root")!r}).put(key, PipelineEntry(manifest, b"code"))
print(embed_c.look_up({str(tmp_path / "root")!r}, manifest)[2:])
try:
    embed_c.look_up("", manifest)
except ValueError as error:
    print(error)
"""
    done = embedded("embed_c", code)
    refusal = "the cache cannot be opened: ValueError: the directory of the cache has an empty name. "
    lines = ["1 True", "(b'code', None, '')", refusal + "Fix: name one, or pass NULL for the settings'."]
    assert (done.stdout.splitlines(), done.stderr) == (lines, "")


@pytest.mark.parametrize(("version", "size"), [(2, 4096), (1, 8)])
def test_an_extension_refuses_a_table_it_was_not_built_for(embedded: Embedded, version: int, size: int) -> None:
    code = f"""
import ctypes, vyre_driver._fast
table = (ctypes.c_uint32 * 1024)({version}, {size})
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
name = b"vyre_driver._fast._C_API"
vyre_driver._fast._C_API = new(ctypes.addressof(table), name, None)
try:
    import embed_c
except ImportError as error:
    print(error)
"""
    done = embedded("embed_c", code)
    built_for = 2 * 4 + 18 * ctypes.sizeof(ctypes.c_void_p)
    wanted = (
        f"vyre_driver has C table {version} of {size} bytes, and this extension was built for table 1 of {built_for} bytes. "
        "Fix: install the vyre_driver that it was built with, or build it anew.\n"
    )
    assert (done.stdout, done.stderr) == (wanted, "")


def test_a_cython_extension_names_a_sweep_as_python_does(embedded: Embedded) -> None:
    done = embedded("embed_cython", "import embed_cython; print(embed_cython.sweep(5, 7, 20))")
    keys = [SpecCacheKey.new(5, 7, (64, 1, 1), SpecMap({"TILE": SpecValue.u32(tile)})) for tile in range(20)]
    assert (done.stdout, done.stderr) == (f"{[AutotuneKey.new(key, '').key_hex for key in keys]}\n", "")


@pytest.mark.parametrize("example", ["embed_c", "embed_cython"])
def test_an_extension_is_told_why_something_cannot_be_run(embedded: Embedded, example: str) -> None:
    code = f"import {example}\ntry:\n    {example}.run_bound(7, 1)\nexcept ValueError as error:\n    print(error)"
    done = embedded(example, code)
    refusal = "the kernel cannot be run from C: InvalidInput: what is to be run from C is of type int, not a BoundKernel. "
    assert (done.stdout, done.stderr) == (f"{refusal}Fix: pass what kernel.bind() gave.\n", "")


@pytest.mark.parametrize("example", ["embed_c", "embed_cython"])
def test_a_build_where_the_package_is_not_installed_says_so(
    example: str, checkout: Path, build_tools: Path, tmp_path: Path
) -> None:
    run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], tmp_path)
    python = tmp_path / "venv/bin/python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", str(checkout / "examples" / example)]
    env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(build_tools)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=110)
    said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if "vyre_driver.h" in line]
    expected = (
        f"vyre_driver.h cannot be found with {python} (ModuleNotFoundError: No module named 'vyre_driver'). "
        "Fix: pip install vyre_driver there; if it is, and this builds elsewhere: --no-build-isolation."
    )
    assert (done.returncode, said) == (1, [expected])


def test_the_installed_package_says_where_its_header_is(run_installed: RunInstalled, installed: Path) -> None:
    done = run_installed("python", "-m", "vyre_driver", "--includes")
    library = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    assert (done.stdout, done.stderr) == (f"-I{installed.parent / library / 'vyre_driver' / 'include'}\n", "")
