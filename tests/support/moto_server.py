"""A real process with S3's protocol, moto's server, for the tests of buckets."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from servers import STARTS_WITHIN_S, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(sys.executable).with_name("moto_server")


@contextmanager
def running_moto() -> Iterator[str]:
    """Have the server run on loopback within the block; its URL is given."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [PROGRAM, "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + STARTS_WITHIN_S
            while not _answers(url):
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"moto_server did not start (status {process.returncode})")
                time.sleep(0.02)
            yield url
        finally:
            process.kill()


def make_bucket(url: str, name: str) -> None:
    """Make a bucket, empty."""
    for action in ("/moto-api/reset", f"/{name}"):
        method = "POST" if action.startswith("/moto") else "PUT"
        urllib.request.urlopen(urllib.request.Request(f"{url}{action}", method=method), timeout=20).close()  # noqa: S310


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=STARTS_WITHIN_S).close()  # noqa: S310 -- http
    except OSError:
        return False
    return True
