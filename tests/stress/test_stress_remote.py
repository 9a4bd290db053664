"""A shared cache under harm for minutes: ``make remote-stress``. STRESS_REMOTE_S says for how many seconds a seed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import shared_cache_child as child
from faults import Fault, FaultProxy
from servers import running_server

from vyre_driver.cache.entry import PipelineEntry
from vyre_driver.identity import device_fields
from vyre_driver.remote.envelope import sealed_entry
from vyre_driver.remote.names import device_name, entry_name
from vyre_driver.remote.trust import make_key, read_signer, trust_line

if TYPE_CHECKING:
    from servers import RedisServer

SECONDS = float(os.environ.get("STRESS_REMOTE_S", "60"))
AT_ONCE, ROOTS, ENDS_WITHIN_S = 4, 2, 60.0
FAULTS = [
    Fault(),
    Fault(),
    Fault(),
    Fault(delay_s=0.05),
    Fault(after=200, cut=True),
    Fault(after=3000, flip=True),
    Fault(after=100, silent=True),
    Fault(after=100, drip_s=0.01),
]
SUPPORT = Path(child.__file__).parent


class Harm:
    """Does something bad to a store or to a process, another thing each time."""

    def __init__(self, place: Path, server: RedisServer, proxy: FaultProxy, chance: random.Random) -> None:
        self._server, self._proxy, self._chance = server, proxy, chance
        self._device = child.the_device()
        self._trusted, self._stranger = read_signer(place / "key"), make_key(place / "stranger")
        self.done = Counter[str]()

    def do(self, running: list[subprocess.Popen[str]], killed: set[int]) -> None:
        what = self._chance.choice(["fault", "fault", "value", "value", "value", "value", "server", "process"])
        self.done[what] += 1
        if what == "fault":
            self._proxy.fault = self._chance.choice(FAULTS)
        elif what == "value":
            self._put()
        elif what == "server":
            self._server.stop()
            time.sleep(self._chance.random() / 2)
            self._server.start()
        elif running:
            one = self._chance.choice(running)
            one.kill()
            killed.add(one.pid)

    def _put(self) -> None:
        """Put a value that nobody may take under a name of the list."""
        number, other = self._chance.sample(range(child.NUMBERS), 2)
        key = child.key_of(self._device, number)
        lie = PipelineEntry(key.manifest, child.SPIRV, child.blob_of(self._device, other))
        told = child.key_of(self._device, other)
        foreign = PipelineEntry(told.manifest, child.SPIRV, child.blob_of(self._device, other))
        assert self._trusted is not None
        genuine = sealed_entry(told.digest, foreign, self._trusted)
        forged = sealed_entry(key.digest, lie, self._stranger)
        hostile = [forged, genuine, genuine[:96] + forged[96:], os.urandom(300), b"", genuine[:-1], bytes(17 << 20)]
        name = entry_name(device_name(device_fields(self._device)), key.digest)
        self._server.do("SET", name, self._chance.choice(hostile))


def start(url: str, place: Path, number: int) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        child.__file__,
        url,
        str(place / f"root-{number % ROOTS}-{number // 8}"),
        str(place),
        str(number),
    ]
    environ = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)


@pytest.mark.device
@pytest.mark.redis
@pytest.mark.parametrize("seed", [25, 26, 27])
def test_processes_end_with_right_pipelines_whatever_happens_to_their_store(tmp_path: Path, seed: int) -> None:
    (tmp_path / "trusted").write_text(trust_line("fleet", make_key(tmp_path / "key")), "utf-8")
    chance = random.Random(seed)  # noqa: S311 -- no secret
    told: list[list[Any]] = []
    killed: set[int] = set()
    running: list[subprocess.Popen[str]] = []
    with tempfile.TemporaryDirectory(prefix="vyre-proxy-") as place, running_server() as server:
        proxy = FaultProxy(Path(place) / "proxy.sock", server.socket_path)
        harm, number, until = Harm(tmp_path, server, proxy, chance), 0, time.monotonic() + SECONDS
        while time.monotonic() < until or running:
            while len(running) < AT_ONCE and time.monotonic() < until:
                running.append(start(proxy.url, tmp_path, number))
                number += 1
            time.sleep(chance.random() / 5)
            harm.do(running, killed)
            told += ended(running, killed)
            assert time.monotonic() < until + ENDS_WITHIN_S, "a process does not end"
        proxy.close()
    expected = [[child.THREADS, []]] * len(told)
    assert [one[:2] for one in told] == expected
    compiled, taken, refused = (sum(one[which] for one in told) for which in (2, 3, 4))
    said = f"{number} processes, {len(killed)} killed, {dict(harm.done)}: {compiled} compiled, {taken} taken, {refused} refused"
    print(said)  # noqa: T201 -- make remote-stress shows it
    assert min(len(told), taken, refused) > 0


def ended(running: list[subprocess.Popen[str]], killed: set[int]) -> list[list[Any]]:
    """Return what those told that have ended, unless they were killed; raises if one failed."""
    told = []
    for one in [one for one in running if one.poll() is not None]:
        out, error = one.communicate(timeout=ENDS_WITHIN_S)
        running.remove(one)
        if one.pid not in killed:
            assert one.returncode == 0, error[-3000:]
            told.append(json.loads(out))
    return told
