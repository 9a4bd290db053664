"""Kernels over Dask's arrays: what numpy makes of the whole is what a fleet makes of the blocks."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extras import imported

from vyre_driver import kernels
from vyre_driver.errors import FileUnusable, InvalidInput
from vyre_driver.lang import In, Index, InOut, elementwise, f32, kernel
from vyre_driver.profiling.trace_events import read_document
from vyre_driver.spirv.shipped import shipped_module

imported("distributed")
da: Any = imported("dask.array")
from vyre_driver.distributed import (  # noqa: E402 -- an extra
    FleetPool,
    LocalFleet,
    from_npy,
    from_parquet,
    joining,
    map_blocks,
    plan_chunks,
    progress,
    reduce_blocks,
    store_regions,
)
from vyre_driver.distributed.blocks import most_elements, split  # noqa: E402

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("ended_tracker")]
WAITS_S = 60.0
X = np.random.default_rng(7).random((60, 40), dtype=np.float32)


@kernel
def add_to(i: Index, x: In[f32], y: InOut[f32], a: f32) -> None:
    y[i] = a * x[i] + y[i]


@elementwise
def half(x: f32) -> f32:
    return x * 0.5


def once_refused(block: Any, flag: str, block_info: Any = None) -> Any:  # noqa: ANN401 -- arrays
    """Return the block; that of place 2, 0 is refused where the flag is."""
    if block_info[0]["chunk-location"] == (2, 0) and Path(flag).exists():
        raise InvalidInput("the block is refused", fix="remove the flag")
    return block


def test_map_blocks_computes_what_numpy_does(pool: FleetPool) -> None:
    saxpy = pool.compile(shipped_module("saxpy"))
    x = da.from_array(X, chunks=(17, 40))
    y = da.from_array(X + 1, chunks=(17, 40))
    found = map_blocks(saxpy, x, y, dtype="f4", alpha=2.0, count=lambda one, _: one.size)
    assert (found.shape, found.chunks, found.dtype) == (X.shape, x.chunks, np.dtype("f4"))
    assert pool.client.compute(found).result().tobytes() == (np.float32(2) * X + (X + 1)).tobytes()


def test_a_chain_of_kernels_stays_on_the_device_between_them(pool: FleetPool) -> None:
    softmax, halved, added = pool.compile(kernels.softmax), pool.compile(half), pool.compile(kernels.saxpy)
    x = da.from_array(X, chunks=(20, 40))
    found = pool.client.compute(map_blocks([softmax, halved], x, dtype="f4")).result()
    whole = np.exp(X - X.max(axis=1, keepdims=True))
    np.testing.assert_allclose(found, whole / whole.sum(axis=1, keepdims=True) / 2, rtol=2e-6)
    flat = da.from_array(X.ravel(), chunks=600)
    chained = map_blocks([added, halved, (pool.compile(half), {})], flat, flat, dtype="f4", alpha=3.0)
    assert pool.client.compute(chained).result().tolist() == X.ravel().tolist()


def test_reductions_combine_what_kernels_make_of_blocks(pool: FleetPool) -> None:
    words = np.random.default_rng(3).integers(0, 256, 5000, dtype=np.uint32)
    histogram = pool.compile(kernels.histogram)
    x = da.from_array(words, chunks=700)
    found = pool.client.compute(reduce_blocks(histogram, x, shape=(256,), dtype="u8", bins=256)).result()
    assert (found.dtype, found.tolist()) == (np.dtype("u8"), np.bincount(words, minlength=256).tolist())
    largest = pool.compile(kernels.reduce_max)
    found = pool.client.compute(
        reduce_blocks(largest, da.from_array(X.ravel(), chunks=700), shape=(), dtype="f4", combine="max")
    ).result()
    assert found == X.max()


def test_blocks_are_read_and_written_by_the_workers_and_a_second_run_writes_what_is_missing(
    pool: FleetPool, tmp_path: Path
) -> None:
    source, target, flag = tmp_path / "x.npy", tmp_path / "y.npy", tmp_path / "refused"
    np.save(source, X)
    flag.touch()

    def computed() -> Any:  # noqa: ANN401 -- an array
        blocks = from_npy(source, chunks=(20, 20)).map_blocks(
            once_refused, flag=str(flag), dtype="f4", meta=np.empty((0, 0), "f4")
        )
        return map_blocks(pool.compile(half), blocks, dtype="f4")

    with pytest.raises(InvalidInput, match="the block is refused"):
        store_regions(pool.client, computed(), target)
    flag.unlink()
    assert 1 <= store_regions(pool.client, computed(), target) <= 6
    (tmp_path / "y.npy.regions" / "1.1").unlink()
    np.lib.format.open_memmap(target, mode="r+")[20:40, 20:] = 0
    told: list[tuple[int, int]] = []
    assert store_regions(pool.client, computed(), target, on_progress=lambda *now: told.append(now)) == 1
    assert (told, store_regions(pool.client, computed(), target)) == ([(6, 6)], 0)
    assert np.load(target).tobytes() == (X * np.float32(0.5)).tobytes()
    plan = json.loads((tmp_path / "y.npy.regions" / "plan.json").read_text())
    assert plan == {
        "format": 1,
        "computation": computed().name,
        "target": str(target),
        "dtype": "<f4",
        "shape": [60, 40],
        "chunks": [[20, 20, 20], [20, 20]],
    }


def test_marks_of_another_computation_and_targets_that_do_not_fit_are_refused(pool: FleetPool, tmp_path: Path) -> None:
    x, target = da.from_array(X, chunks=(20, 40)), tmp_path / "y.npy"
    assert store_regions(pool.client, x, target) == 3
    with pytest.raises(InvalidInput, match=r"are of another computation: it differs in computation\. Fix: remove the folder"):
        store_regions(pool.client, x + 1, target)
    with pytest.raises(
        InvalidInput, match=r"the target has shape \(60, 40\) of float32, and the array \(40, 60\) of float32\. Fix"
    ):
        store_regions(pool.client, x.T, target, tmp_path / "others")
    target.write_bytes(b"no array")
    with pytest.raises(
        FileUnusable, match=r"y\.npy cannot be used as a \.npy file: .*\. Fix: name a file that numpy\.save wrote"
    ):
        from_npy(target, chunks=10)
    (tmp_path / "y.npy.regions" / "plan.json").write_text("{")
    with pytest.raises(FileUnusable, match=r"the marks in .* cannot be used: .*\. Fix: remove the folder"):
        store_regions(pool.client, x, target)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="zarr 3 needs Python 3.11")
def test_a_target_of_zarr_is_written_by_whole_chunks(pool: FleetPool, tmp_path: Path) -> None:
    zarr: Any = imported("zarr")
    stored = zarr.create_array(str(tmp_path / "z.zarr"), shape=X.shape, chunks=(10, 40), dtype="f4")
    halved = pool.compile(half)
    with pytest.raises(
        InvalidInput, match=r"blocks along axis 0 are 15 long, and share the target's chunks of 10\. Fix: rechunk"
    ):
        store_regions(pool.client, da.from_array(X, chunks=(15, 40)), stored, tmp_path / "marks")
    with pytest.raises(InvalidInput, match="no folder for the marks"):
        store_regions(pool.client, da.from_array(X, chunks=(20, 40)), stored)
    found = map_blocks(halved, da.from_array(X, chunks=(20, 40)), dtype="f4")
    assert store_regions(pool.client, found, stored, tmp_path / "of z") == 3
    assert stored[:].tobytes() == (X * np.float32(0.5)).tobytes()


def test_a_column_of_parquet_is_read_by_row_groups_on_the_workers(pool: FleetPool, tmp_path: Path) -> None:
    pyarrow: Any = imported("pyarrow")
    parquet: Any = imported("pyarrow.parquet")
    file, holes = tmp_path / "x.parquet", tmp_path / "holes.parquet"
    column = X.ravel()
    table = pyarrow.table({"x": column, "name": [str(one) for one in range(column.size)]})
    parquet.write_table(table, file, row_group_size=500)
    x = from_parquet(file, "x", row_groups=2)
    assert (x.chunks, x.dtype) == (((1000, 1000, 400),), np.dtype("f4"))
    found = pool.client.compute(map_blocks(pool.compile(half), x, dtype="f4")).result()
    assert found.tobytes() == (column * np.float32(0.5)).tobytes()
    with pytest.raises(
        InvalidInput, match=r"column 'name' of .* is of type string, which has no numbers\. Fix: name a column of"
    ):
        from_parquet(file, "name")
    with pytest.raises(InvalidInput, match=r"has no column 'y'\. Fix: name one of x, name"):
        from_parquet(file, "y")
    with pytest.raises(FileUnusable, match=r"cannot be read as a Parquet file: .*\. Fix: name a Parquet file"):
        from_parquet(__file__, "x")
    parquet.write_table(pyarrow.table({"x": [1.0, None, 3.0]}), holes)
    with pytest.raises(InvalidInput, match=r"has 1 rows without a value in block 0\. Fix: fill them"):
        pool.client.compute(from_parquet(holes, "x")).result()


def test_chunks_that_do_not_line_up_are_refused(pool: FleetPool) -> None:
    saxpy = pool.compile(kernels.saxpy)
    x = da.from_array(X, chunks=(20, 40))
    with pytest.raises(InvalidInput, match=r"array 2 has chunks \(\(30, 30\), \(40,\)\), and array 1 .*\. Fix: line them up"):
        map_blocks(saxpy, x, x.rechunk((30, 40)), dtype="f4")
    with pytest.raises(InvalidInput, match=r"array 2 has \(1, 1\) blocks along its axes, and array 1 has \(3, 1\)\. Fix"):
        map_blocks(saxpy, x, da.zeros((4, 4)), dtype="f4")
    with pytest.raises(InvalidInput, match=r"map_blocks got ndarray\. Fix: give arrays of dask\.array"):
        map_blocks(saxpy, X, dtype="f4")
    with pytest.raises(InvalidInput, match=r"kernel 1 of the chain is 3\. Fix: give what FleetPool\.compile returned"):
        map_blocks([saxpy, 3], x, dtype="f4")
    with pytest.raises(InvalidInput, match=r"combine is 'mean'\. Fix: give one of sum, max, min, prod"):
        reduce_blocks(saxpy, x, shape=(), dtype="f4", combine="mean")


def test_chunks_are_planned_for_the_least_of_the_devices(pool: FleetPool) -> None:
    facts = pool.report()
    most = min(one["memory_bytes"] for one in facts)
    assert most_elements(facts, 4, buffers=2, workgroup=None) == min(
        1 << 26, int(0.7 * most / 2 / 16), facts[0]["buffer_bytes"] // 4
    )
    assert most_elements(facts, 4, buffers=2, workgroup=64, aim_bytes=1 << 30) <= facts[0]["workgroups"] * 64
    weak = [{**facts[0], "worker": "tcp://10.0.0.9:1", "memory_bytes": 16000}]
    assert most_elements([*facts, *weak], 4, buffers=2, workgroup=None) == 700
    assert plan_chunks(pool, (1000, 1000), "f4", aim_bytes=40_000) == ((10,) * 100, (1000,))
    assert plan_chunks(pool, (4, 1000, 10), "f4", aim_bytes=4000, whole=[2]) == ((1,) * 4, (100,) * 10, (10,))
    bounded, free = (
        plan_chunks(pool, (10**9,), "f4", kernel=pool.compile(one)) for one in (shipped_module("saxpy"), kernels.saxpy)
    )
    assert (bounded[0][0] <= facts[0]["workgroups"] * 256, bounded[0][0] <= free[0][0]) == (True, True)
    assert free == plan_chunks(pool, (10**9,), "f4")


def test_what_no_plan_fits_is_refused(pool: FleetPool) -> None:
    assert (split((0, 7), 100, set()), split((7, 5), 10, {1})) == (((0,), (7,)), ((2, 2, 2, 1), (5,)))
    with pytest.raises(InvalidInput, match=r"make blocks of 50 elements, and the devices of the fleet take 10\. Fix"):
        split((7, 50), 10, {1})
    for options, said in (
        ({"buffers": 0}, "buffers is 0"),
        ({"whole": [2]}, r"axes \[2\] stay whole, and there are axes 0 to 0"),
    ):
        with pytest.raises(InvalidInput, match=said):
            plan_chunks(pool, (10,), "f4", **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"the shape is \(-1,\)"):
        plan_chunks(pool, (-1,), "f4")


def test_graphs_name_kernels_by_what_they_are(pool: FleetPool) -> None:
    x = da.from_array(X, chunks=(20, 40))
    twice = [map_blocks(pool.compile(functools.partial(kernels.softmax)), x, dtype="f4").name for _ in range(2)]
    assert (twice[0] == twice[1], map_blocks(pool.compile(half), x, dtype="f4").name == twice[0]) == (True, False)


def test_a_timeline_has_the_tasks_and_the_profile_of_every_worker(pool: FleetPool, tmp_path: Path) -> None:
    halved, file = pool.compile(half), tmp_path / "trace.json"
    pool.warm([halved])
    with pool.timeline(file):
        assert len(list(halved.map((X[:1].ravel() + number,) for number in range(12)))) == 12
    document = read_document(file)
    spans = [one for one in document["traceEvents"] if one["ph"] == "X"]
    named = {one["pid"]: one["args"]["name"] for one in document["traceEvents"] if one["name"] == "process_name"}
    assert sorted(named.values()) == sorted(one["worker"] for one in pool.report())
    kinds = ("compute", "call", "device dispatch")
    assert [sum(one["cat"] == kind and one["name"] == "half" for one in spans) for kind in kinds] == [12, 12, 12]
    assert {one["pid"] for one in spans} <= {one["pid"] for one in document["otherData"]["drivers"]} == set(named)
    assert min(one["dur"] for one in spans) >= 0
    nowhere = pool.timeline(tmp_path / "nowhere" / "trace.json")
    with pytest.raises(FileUnusable, match=r"the timeline cannot be written to .*: No such file .* Fix: name another"), nowhere:
        pass


def test_a_timeline_within_another_has_what_ran_in_it_and_the_other_all(pool: FleetPool, tmp_path: Path) -> None:
    halved, files = pool.compile(half), [tmp_path / "outer.json", tmp_path / "inner.json"]
    pool.warm([halved])
    with pool.timeline(files[0]):
        halved(X[:1].ravel()).result(WAITS_S)
        with pool.timeline(files[1]):
            halved(X[:1].ravel()).result(WAITS_S)
    spans = [[one for one in read_document(file)["traceEvents"] if one["ph"] == "X"] for file in files]
    assert [sum((one["cat"], one["name"]) == ("call", "half") for one in of) for of in spans] == [2, 1]


def test_progress_takes_what_map_and_store_regions_tell(pool: FleetPool) -> None:
    with progress("half", 3) as told:
        assert len(list(pool.map(pool.compile(half), [(X.ravel(),)] * 3, on_progress=told))) == 3
        told(2, 6)


def test_an_array_of_two_mebibytes_travels_with_its_call(pool: FleetPool) -> None:
    x = np.arange(1 << 19, dtype=np.float32)
    assert np.array_equal(pool.compile(kernels.saxpy)(x, x, alpha=2.0).result(WAITS_S), 3 * x)


@pytest.mark.thorough
def test_results_that_host_memory_has_no_room_for_are_spilled_and_come_back_as_they_were(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LP_NUM_THREADS", "1")
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(joining.CONFIG, "distributed.worker.memory.target", 0.01)
    x = np.arange(1 << 20, dtype=np.float32)
    with LocalFleet([0], allow_software=True, memory_limit="2GiB") as fleet:
        added = FleetPool(fleet.client).compile(kernels.saxpy)
        held = [added(x, x, alpha=float(number), keep=keep) for number in range(8) for keep in (True, False)]
        again = added(x, held[0], alpha=0.0)  # a result that was spilled is an argument like others
        wanted = [np.float32(number) * x + x for number in range(8) for _ in range(2)]
        assert [np.array_equal(one.result(WAITS_S), right) for one, right in zip(held, wanted, strict=True)] == [True] * 16
        assert np.array_equal(again.result(WAITS_S), x)
        (spilled,) = fleet.client.run(lambda dask_worker: len(dask_worker.data.slow)).values()
    assert spilled > 8


def test_a_worker_that_left_before_a_poll_of_the_scheduler_may_be_said_to_leave_again(fleet: LocalFleet) -> None:
    known = dict(fleet.cluster.scheduler_info["workers"])
    fleet.cluster._update_worker_status("remove", "tcp://127.0.0.1:1")  # noqa: SLF001 -- what Dask calls
    assert dict(fleet.cluster.scheduler_info["workers"]) == known
