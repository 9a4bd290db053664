"""Fixtures of the tests of shared caches: one redis-server a worker, emptied for each test, and a proxy before it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from faults import FaultProxy
from moto_server import make_bucket, running_moto
from servers import running_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers import RedisServer


@pytest.fixture(scope="module")  # other modules look for processes that were left behind
def shared_server() -> Iterator[RedisServer]:
    with running_server(tls=True) as server:
        yield server


@pytest.fixture
def redis_server(shared_server: RedisServer) -> RedisServer:
    """A redis-server with nothing in it; a test may stop it, fill it and lock itself out."""
    shared_server.reset()
    return shared_server


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[FaultProxy]:
    """A proxy before ``redis_server`` that does no harm yet."""
    place = Path(tempfile.mkdtemp(prefix="vyre-proxy-"))
    made = FaultProxy(place / "proxy.sock", redis_server.socket_path)
    yield made
    made.close()
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def shared_moto() -> Iterator[str]:
    with running_moto() as url:
        yield url


@pytest.fixture
def bucket(shared_moto: str) -> str:
    """The URL of a server of S3's protocol with a bucket `bucket`, in which nothing is."""
    pytest.importorskip("obstore", reason="obstore is for Python 3.11 and newer")
    make_bucket(shared_moto, "bucket")
    return shared_moto
