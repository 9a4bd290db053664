"""The peers of benchmarks.gallery: their programs are those of examples/gallery, and arrays that are kept are written again.

The packages themselves are not needed: the tables are read from the sources.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks.gallery_peers import Peer, calls
from benchmarks.lang_kernels import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Callable

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def parsed(peer: str) -> ast.Module:
    return ast.parse((BENCHMARKS / f"gallery_{peer}.py").read_text("utf-8"))


def programs(peer: str) -> list[str]:
    """Return the keys of the peer's PROGRAMS."""
    for one in parsed(peer).body:
        target = one.targets[0] if isinstance(one, ast.Assign) else getattr(one, "target", None)
        if isinstance(target, ast.Name) and target.id == "PROGRAMS":
            return [key.value for key in one.value.keys if key is not None]  # type: ignore[attr-defined] # a dict's display
    raise AssertionError(f"{peer} has no PROGRAMS")


@pytest.mark.parametrize("peer", ["cupy", "triton", "taichi", "wgpu"])
def test_a_peer_has_programs_of_the_gallery_and_no_others(peer: str) -> None:
    assert set(programs(peer)) - set(PROGRAMS) == set()
    assert len(programs(peer)) >= 7


def test_taichi_and_wgpu_have_the_same_programs() -> None:
    assert programs("taichi") == programs("wgpu")


def test_each_shader_in_wgsl_is_one_that_a_program_names() -> None:
    named = {
        node.args[0].value
        for node in ast.walk(parsed("wgpu"))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_step"
        if isinstance(node.args[0], ast.Constant)
    }
    assert named == {path.stem for path in (BENCHMARKS / "wgsl").glob("*.wgsl")}


@pytest.mark.parametrize("module", ["taichi", "taichi_arrays", "taichi_blocks"])
def test_annotations_of_taichis_kernels_are_not_strings(module: str) -> None:
    imported = [one.module for one in parsed(module).body if isinstance(one, ast.ImportFrom)]
    assert "__future__" not in imported


def in_place(there: np.ndarray, factor: int) -> tuple[Callable[[], object], tuple[np.ndarray, ...]]:
    return lambda: np.multiply(there, factor, out=there), (there,)


def from_host(given: np.ndarray, factor: int) -> tuple[Callable[[], object], tuple[np.ndarray, ...]]:
    found = np.empty_like(given)
    return lambda: np.multiply(given, factor, out=found), (found,)


# Peers on the host that double an array: into a new one, in place where arrays are kept, and by moving arrays themselves.
DOUBLING = {
    "new results": Peer("1", {"doubled": np.multiply}, np.copy, np.copy, lambda: None),
    "kept arrays": Peer("1", {"doubled": in_place}, np.copy, np.copy, lambda: None, np.copyto),
    "two ways": Peer("1", {"doubled": in_place}, np.copy, np.copy, lambda: None, np.copyto, {"doubled": from_host}),
}


@pytest.mark.parametrize("peer", DOUBLING)
def test_a_call_from_host_to_host_begins_with_the_data_each_time(peer: str) -> None:
    made = calls(DOUBLING[peer], "doubled", [np.arange(3), 2])
    found = []
    for _ in range(2):
        found.append([one.tolist() for one in made["host"]()])
        made["resident"]()
    assert found == [[[0, 2, 4]], [[0, 2, 4]]]
