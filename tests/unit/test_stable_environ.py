"""Tests change the environment while native threads look variables up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import RunChild

READER = """
#include <pthread.h>
#include <stdlib.h>
static void *look(void *nothing) { while (!getenv("NOBODY_SETS_THIS")) {} abort(); return nothing; }
void start(void) { pthread_t thread; pthread_create(&thread, 0, look, 0); }
"""
# With setenv the reader ends this within a tenth of a second.
CHILD = """
import ctypes, os, subprocess, sys
import stable_environ
stable_environ.install()
ctypes.CDLL(sys.argv[1]).start()
kept = []
for count in range(600):
    names = [f"NEW_{number}" for number in range(count % 40)]
    for name in names:
        os.environ[name] = f"{name} in turn {count}"
    kept = kept[-200:] + [bytearray(8 * (40 + count % 50)) for _ in range(5)]
    for name in names[::2]:
        del os.environ[name]
for name in ("AS_TEXT", "AS_TEXT_TOO"):
    os.putenv(name, "1")
os.unsetenv("AS_TEXT_TOO")
told = subprocess.run(["env", "-0"], capture_output=True, check=True).stdout
expected = [*os.environb.items(), (b"AS_TEXT", b"1")]
assert sorted(told.split(b"\\0")[:-1]) == sorted(name + b"=" + value for name, value in expected)
print("NEW_37" in os.environ, os.environ["NEW_37"], "NEW_36" in os.environ)
"""


def test_a_native_thread_may_look_variables_up_while_they_change(run_python: RunChild, tmp_path: Path) -> None:
    source, library = tmp_path / "reader.c", tmp_path / "reader.so"
    source.write_text(READER, "utf-8")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("not here: cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-pthread", str(source), "-o", str(library)], check=True)
    paths = os.pathsep.join([str(Path(__file__).parents[1] / "support"), *sys.path])
    done = run_python("-c", CHILD, str(library), env={"PYTHONPATH": paths})
    assert (done.status, done.stdout, done.stderr) == (0, "True NEW_37 in turn 599 False\n", "")
