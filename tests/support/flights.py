"""Processes that need the same pipeline at once, as a test tells them to."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HANGS_AFTER_S = 60
# Bytes of SPIR-V for which, on an unknown device, one waits a minute: no test comes to the end of that.
LONG = 1_000_000

# One process that needs a pipeline. It says what it does, and its compiler ends as it is told.
FLYER = """
import sys
from vyre_driver.cache import DiskPipelineCache, PipelineEntry
from vyre_driver.cache.flight import SingleFlight
from vyre_driver.identity import PipelineCacheKey

BLOB = b"\\x20\\0\\0\\0\\1\\0\\0\\0" + bytes(24) + b"what the driver compiled"  # of no device, as the manifest
root, name, code_bytes = sys.argv[1], sys.argv[2], int(sys.argv[3])
key = PipelineCacheKey(1, bytes(32), bytes(32), 0, (1, 1, 1), 0, "", b"manifest", b"\\xab" * 32)
cache = DiskPipelineCache(root)
flights = SingleFlight(cache, b"\\x01" * 32)

def say(what):
    sys.stdout.write(f"{name} {what}\\n")
    sys.stdout.flush()

def find():
    entry = cache.get_uncounted(key).entry
    return entry.native or None if entry else None

cache.put(key, PipelineEntry(b"manifest", b"code"), only_new=True)
say("boarding")
with flights.acquire(key, code_bytes, find) as found:
    if found is None:
        say("compiling")
        for order in sys.stdin:
            if order == "land\\n":
                cache.put(key, PipelineEntry(b"manifest", b"code", BLOB))
            elif order == "no blobs\\n":
                flights.learn(code_bytes, 1, has_blob=False)
            if order in ("land\\n", "fail\\n"):
                break
say("shared" if found == BLOB else "alone")
say("counted " + " ".join(sorted(name for name in cache.stats()["counts"] if name not in ("hit", "miss", "put"))))
"""


class Airport:
    """Processes that need the same pipeline, and what they say."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.flyers: dict[str, subprocess.Popen[str]] = {}
        self.said: list[tuple[str, str]] = []
        self._reading, self._writing = os.pipe()
        self._rest = b""

    def start(self, name: str, code_bytes: int = LONG) -> None:
        command = [sys.executable, "-c", FLYER, str(self.root), name, str(code_bytes)]
        self.flyers[name] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self._writing, text=True)

    def wait_for(self, what: str, count: int) -> list[str]:
        """Wait until so many have said it; returns who, in order."""
        until = time.monotonic() + HANGS_AFTER_S
        while len(self.who_said(what)) < count:
            ready, _, _ = select.select([self._reading], [], [], max(0, until - time.monotonic()))
            assert ready, self.said
            *lines, self._rest = (self._rest + os.read(self._reading, 65536)).split(b"\n")
            self.said += [(name, said) for name, _, said in (line.decode().partition(" ") for line in lines)]
        return self.who_said(what)

    def who_said(self, what: str) -> list[str]:
        return [name for name, said in self.said if said == what]

    def tell(self, name: str, order: str) -> None:
        stdin = self.flyers[name].stdin
        assert stdin is not None
        stdin.write(f"{order}\n")
        stdin.flush()

    def kill(self, name: str) -> None:
        self.flyers[name].send_signal(signal.SIGKILL)
        self.flyers[name].wait(HANGS_AFTER_S)

    def close(self) -> None:
        for flyer in self.flyers.values():
            flyer.kill()
            flyer.wait(HANGS_AFTER_S)
            assert flyer.stdin is not None
            flyer.stdin.close()
        os.close(self._reading)
        os.close(self._writing)

    def start_behind(self, count: int, code_bytes: int = LONG) -> str:
        """Let one compile, then start others that need the same; returns who compiles."""
        self.start("0", code_bytes)
        (owner,) = self.wait_for("compiling", 1)
        for number in range(1, count):
            self.start(str(number), code_bytes)
        self.wait_for("boarding", count)
        return owner
