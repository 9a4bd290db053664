"""The other side of benchmarks.gallery: one of its programs by CuPy or by Triton, on the GPU that CUDA has, in this process.

``python -m benchmarks.gallery_peers PEER PROGRAM FOLDER REPEATS`` loads the program's data from the folder, runs it once, and
saves what it found there. The first line on stdout says what there is, or why not; each line on stdin is then answered with
microseconds: "host" is the program from host arrays to host arrays, "resident" what it does between arrays on the device.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.timing import time_call

if TYPE_CHECKING:
    from collections.abc import Callable


class Peer(NamedTuple):
    """What a peer is, its programs, and how it moves an array and waits."""

    version: str
    programs: dict[str, Callable[..., Any]]
    upload: Callable[[Any], Any]
    download: Callable[[Any], Any]
    wait: Callable[[], object]


def cupy_peer() -> Peer:
    cupy = importlib.import_module("cupy")
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    programs = importlib.import_module("benchmarks.gallery_cupy").PROGRAMS
    return Peer(f"{cupy.__version__} on {name}", programs, cupy.asarray, cupy.asnumpy, cupy.cuda.Device().synchronize)


def triton_peer() -> Peer:
    torch, triton = importlib.import_module("torch"), importlib.import_module("triton")
    version = f"{triton.__version__} with torch {torch.__version__} on {torch.cuda.get_device_name()}"
    programs = importlib.import_module("benchmarks.gallery_triton").PROGRAMS
    return Peer(
        version,
        programs,
        lambda array: torch.from_numpy(array).cuda(),
        lambda tensor: tensor.cpu().numpy(),
        torch.cuda.synchronize,
    )


PEERS = {"cupy": cupy_peer, "triton": triton_peer}


def calls(peer: Peer, program: str, data: list[Any]) -> dict[str, Callable[[], Any]]:
    """Return the program from host to host, which returns a tuple, and the program on data that is there."""
    run = peer.programs[program]

    def uploaded() -> list[Any]:
        return [peer.upload(one) if isinstance(one, np.ndarray) else one for one in data]

    def host() -> tuple[Any, ...]:
        found = run(*uploaded())
        return tuple(map(peer.download, found if isinstance(found, tuple) else (found,)))

    there = uploaded()
    return {"host": host, "resident": lambda: (run(*there), peer.wait())}


def prepared(name: str, program: str, folder: Path) -> tuple[str, dict[str, Callable[[], Any]]]:
    """Return the peer's version and its calls; its results, and so its compiled kernels, are there."""
    peer = PEERS[name]()
    if program not in peer.programs:
        raise NotImplementedError(f"{program} is not written for it")
    with np.load(folder / "data.npz") as saved:
        data = [saved[key] if saved[key].ndim else saved[key].item() for key in saved]
    made = calls(peer, program, data)
    np.savez(folder / f"{name}.npz", *made["host"]())
    made["resident"]()
    return peer.version, made


def main() -> None:
    name, program, folder, repeats = sys.argv[1:]
    try:
        version, made = prepared(name, program, Path(folder))
    except Exception as error:  # noqa: BLE001 -- whatever a peer lacks here, it is left out, and said
        print(json.dumps({"why": f"{type(error).__name__}: {error}".strip().splitlines()[0]}), flush=True)
        return
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        try:
            print(time_call(made[line.strip()], int(repeats)), flush=True)
        except Exception:  # noqa: BLE001 -- the other contenders go on
            traceback.print_exc()
            print("nan", flush=True)


if __name__ == "__main__":
    main()
