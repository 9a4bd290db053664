"""The other side of benchmarks.gallery: one of its programs by CuPy or Triton on CUDA, or by Taichi or wgpu-py on Vulkan.

``python -m benchmarks.gallery_peers PEER PROGRAM FOLDER REPEATS`` loads the program's data from the folder, runs it once, and
saves what it found there. The first line on stdout says what there is, or why not; each line on stdin is then answered with
microseconds: "host" is the program from host arrays to host arrays, "resident" what it does between arrays on the device.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import sys
import traceback
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.timing import time_call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Peer(NamedTuple):
    """What a peer is, its programs, and how it moves an array and waits.

    A peer with ``write`` has no pool of memory, so that arrays are made once and written again: its programs take the arrays,
    and return what runs, and the arrays that have the results. The programs of the others return their results. ``from_host``
    has programs of the same form for arrays of the host, which such a peer moves itself; the faster way is measured.
    """

    version: str
    programs: dict[str, Callable[..., Any]]
    upload: Callable[[Any], Any]
    download: Callable[[Any], Any]
    wait: Callable[[], object]
    write: Callable[[Any, Any], object] | None = None
    from_host: Mapping[str, Callable[..., Any]] = MappingProxyType({})


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


def taichi_peer() -> Peer:
    with contextlib.redirect_stdout(sys.stderr):  # Taichi greets on stdout, which has our answers
        there = importlib.import_module("benchmarks.gallery_taichi_arrays")
    made = importlib.import_module("benchmarks.gallery_taichi")
    version = f"{importlib.metadata.version('taichi')} on Vulkan"
    return Peer(version, made.PROGRAMS, there.upload, there.download, there.wait, there.write, made.FROM_HOST)


def wgpu_peer() -> Peer:
    there = importlib.import_module("benchmarks.gallery_wgpu")
    info = there.device().adapter.info
    version = f"{importlib.metadata.version('wgpu')} with {info['backend_type']} on {info['device']}"
    return Peer(version, there.PROGRAMS, there.upload, there.download, there.wait, there.write)


PEERS = {"cupy": cupy_peer, "triton": triton_peer, "taichi": taichi_peer, "wgpu": wgpu_peer}


def calls(peer: Peer, program: str, data: list[Any]) -> dict[str, Callable[[], Any]]:
    """Return the program from host to host, which returns a tuple, and the program on data that is there."""
    run = peer.programs[program]

    def uploaded() -> list[Any]:
        return [peer.upload(one) if isinstance(one, np.ndarray) else one for one in data]

    def host() -> tuple[Any, ...]:
        found = run(*uploaded())
        return tuple(map(peer.download, found if isinstance(found, tuple) else (found,)))

    if peer.write is not None:
        return _calls_of_kept(peer, peer.write, program, data, uploaded())
    there = uploaded()
    return {"host": host, "resident": lambda: (run(*there), peer.wait())}


def _calls_of_kept(
    peer: Peer, write: Callable[[Any, Any], object], program: str, data: list[Any], there: list[Any]
) -> dict[str, Callable[[], Any]]:
    """Return the same of a peer whose arrays are written again."""
    run, results = peer.programs[program](*there)
    written = [(kept, one) for kept, one in zip(there, data, strict=True) if isinstance(one, np.ndarray)]

    def host() -> tuple[Any, ...]:
        for kept, one in written:
            write(kept, one)
        run()
        return tuple(map(peer.download, results))

    ways: list[Callable[[], tuple[Any, ...]]] = [host]
    if program in peer.from_host:
        moving, found = peer.from_host[program](*data)
        ways.append(lambda: (moving(), found)[1])
    return {"host": _fastest(ways), "resident": lambda: (run(), peer.wait())}


def _fastest(ways: list[Callable[[], tuple[Any, ...]]]) -> Callable[[], tuple[Any, ...]]:
    """Return the fastest of several, if there are several, after a call of each that compiles."""
    return min(ways, key=lambda way: (way(), time_call(way, 5))[1]) if len(ways) > 1 else ways[0]


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
