"""What a big pipeline costs on a machine that has nothing of it, where another that shares a store has compiled it.

python -m benchmarks.remote_pipeline [--json]. Two roots stand for two machines, a redis-server on loopback for their store; the
driver's own cache is off. Each figure is a process of its own, the clock beginning with ``compile`` and ending with the result.
The shader is that of benchmarks.pipeline, about 190 KB of SPIR-V.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.pipeline import BLOCKS, DRIVER_CACHE_OFF, big_shader
from benchmarks.remote import server
from benchmarks.timing import Row, parser, print_rows
from vyre_driver import SpirvModule
from vyre_driver.remote.addresses import open_store
from vyre_driver.remote.names import ENTRIES
from vyre_driver.remote.trust import make_key, trust_line
from vyre_driver.vulkan.devices import enumerate_devices
from vyre_driver.vulkan.selection import select_device

_SENT_WITHIN_S = 20.0


def in_a_process(code: Path, device: str | None, environment: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.pipeline", "--contender", "ours", "--code", str(code)]
    command += ["--device", device] if device else []
    done = subprocess.run(command, env=os.environ | DRIVER_CACHE_OFF | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def wait_for_entry(url: str) -> None:
    """Return once an entry is in the store; a process that compiled one has sent it before it ended, if it could."""
    until = time.monotonic() + _SENT_WITHIN_S
    store = open_store(url)
    while next(store.names(ENTRIES), None) is None:
        if time.monotonic() > until:
            raise SystemExit(f"no entry came into the store in {_SENT_WITHIN_S:g} s: the device may give no compiled code away")
        time.sleep(0.1)
    store.close()


def machines(folder: Path, url: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings of one that builds, and of one that trusts it."""
    signer = make_key(folder / "builder.key")
    (folder / "trust").write_text(f"{trust_line('builder-1', signer)}\n")
    shared = {"VYRE_CACHE_REMOTE": url, "VYRE_CACHE_TRUST_FILE": str(folder / "trust")}
    return shared | {"VYRE_CACHE_SIGN_KEY_FILE": str(folder / "builder.key")}, shared


def measure(code: Path, device: str | None, folder: Path, rounds: int) -> list[Row]:
    figures: dict[str, list[float]] = {}
    with server(folder) as (_, urls):
        url = urls["loopback"]
        builder, reader = machines(folder, url)
        in_a_process(code, device, builder | {"VYRE_CACHE_DIR": str(folder / "builder")})
        wait_for_entry(url)
        for number in range(rounds):
            cold = {"VYRE_CACHE_DIR": str(folder / f"cold {number}")}
            for what, environment in (
                ("the store has it", reader | cold),
                ("own entry, with the store", reader | cold),
                ("own entry", cold),
            ):
                took = in_a_process(code, device, environment)
                figures.setdefault(what, []).append(took["first_call_ms"] * 1000)
                figures.setdefault(f"{what}, in driver", []).append(took["in_driver_ms"] * 1000)
    return [Row("first result", name, sorted(one)[len(one) // 2], min(one), max(one)) for name, one in figures.items()]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--blocks", type=int, default=BLOCKS, help=f"size of the shader (default {BLOCKS}; 6 on a CPU device)")
    options.set_defaults(rounds=7)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code = folder / "big.spv"
        code.write_bytes(SpirvModule.from_glsl(big_shader(given.blocks)).code)
        rows = measure(code, given.device, folder, given.rounds)
        physical = select_device(enumerate_devices(), given.device, allow_software=True)
        facts = {"device": physical.name, "driver": f"{physical.driver_name} {physical.driver_info}".strip()}
        facts |= {"spirv_bytes": str(code.stat().st_size), "rounds": str(given.rounds)}
        print_rows(rows, facts, as_json=given.json)


if __name__ == "__main__":
    main()
