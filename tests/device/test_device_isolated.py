"""An isolated driver gives what a driver gives: results, buffers, errors; from several threads, and without copies twice."""

from __future__ import annotations

import gc
import inspect
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import glsl

from vyre_driver import Driver, DriverPool, TuningSpace, kernels
from vyre_driver.autotune import Axis
from vyre_driver.errors import DeviceLost, DriverCrashed, InvalidInput, UnsupportedFeature, VyreError
from vyre_driver.isolated.driver import IsolatedDriver
from vyre_driver.isolated.process import Child
from vyre_driver.lang import Index, InOut, f32, kernel
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vyre_driver import Kernel

pytestmark = pytest.mark.device

X = np.arange(1000, dtype=np.float32)
PUSHED = {"alpha": 2.0, "count": 1000}
COUNTING = """#version 450
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint SIZE = 32;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(binding = 2) writeonly buffer Z { float z[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= x.length()) return;
    y[i] = x[i] + 1u;
    z[i] = float(x[i]) / 2;
}
"""


@kernel
def scaled(i: Index, x: InOut[f32], a: f32) -> None:
    x[i] = x[i] * a


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IsolatedDriver]:
    with Driver(cache=tmp_path_factory.mktemp("cache"), allow_software=True, isolated=True) as driver:
        assert isinstance(driver, IsolatedDriver)
        yield driver


@pytest.fixture(scope="module")
def saxpy(isolated: Driver) -> Kernel:
    return isolated.compile(shipped_module("saxpy"))


CALLS: dict[str, Callable[[Kernel], Any]] = {
    "arrays": lambda one: one(X, X, **PUSHED),
    "bytes": lambda one: one(X.tobytes(), memoryview(X), **PUSHED),
    "a view that is not contiguous": lambda one: one(np.arange(2000, dtype=np.float32)[::2], X[::-1], **PUSHED),
    "arrays by name": lambda one: one(x=X, y=X, **PUSHED),
    "a mapping of push constants": lambda one: one(X, X, push_constants=PUSHED),
    "a grid": lambda one: one(X, X, workgroups=(1, 1, 1), **PUSHED),
    "invocations": lambda one: one(X, X, invocations=200, **PUSHED),
    "a target": lambda one: one(X, X, out=np.empty_like(X), **PUSHED),
    "a strict call": lambda one: one(X, X, strict=True, label="strict", timeout=30, **PUSHED),
    "no elements": lambda one: one(X[:0], X[:0], **PUSHED),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_gives_what_it_gives_in_this_process(call: Callable[[Kernel], Any], saxpy: Kernel, layered: Driver) -> None:
    wanted = call(layered.compile(shipped_module("saxpy")))
    for _ in range(3):  # anew, of a form just learned, and in places that were used before
        found = call(saxpy)
        assert (found.dtype, found.shape, found.tolist()) == (wanted.dtype, wanted.shape, wanted.tolist())


def test_several_outputs_come_where_they_are_wanted(isolated: Driver) -> None:
    counted = isolated.compile(glsl(COUNTING))
    x, y = np.arange(100, dtype=np.uint32), np.empty(100, np.uint32)
    for _ in range(2):
        for out in (None, (y, None), {"y": y}):
            shapes = {"y": 100} if out is None else {}
            found = counted(x, out=out, out_shapes={**shapes, "z": 100})
            assert [one.tolist() for one in found] == [(x + 1).tolist(), (x / 2).tolist()]
            assert (found[0] is y) == (out is not None)


REFUSED: dict[str, Callable[[Kernel], Any]] = {
    "an array too many": lambda one: one(X, X, X, **PUSHED),
    "an unknown name": lambda one: one(X, X, beta=1, **PUSHED),
    "a push constant that does not fit": lambda one: one(X, X, alpha="a", count=1),
    "a grid over the limit": lambda one: one(X, X, workgroups=1 << 30, **PUSHED),
    "no time": lambda one: one(X, X, timeout=-1, **PUSHED),
    "a masked array": lambda one: one(np.ma.masked_array(X, X > 5), X, **PUSHED),
    "an array of objects": lambda one: one(X.astype(object), X, **PUSHED),
    "a target of another type": lambda one: one(X, X, out=np.empty(1000), **PUSHED),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_told_as_in_this_process(call: Callable[[Kernel], Any], saxpy: Kernel, layered: Driver) -> None:
    said = []
    for one in (layered.compile(shipped_module("saxpy")), saxpy):
        with pytest.raises(VyreError) as caught:
            call(one)
        said.append((type(caught.value), str(caught.value), caught.value.code))
    assert said[0] == said[1]


def test_outputs_that_share_memory_are_refused_as_in_this_process(isolated: Driver, layered: Driver) -> None:
    x, both = np.arange(100, dtype=np.uint32), np.zeros(150, np.uint32)
    apart = (both[:100], np.zeros(100, np.float32))
    for driver in (layered, isolated):
        counted = driver.compile(glsl(COUNTING))
        counted(x, out=apart)
        counted(x, out=apart)
        with pytest.raises(InvalidInput, match=r"output 'y' and output 'z' would be written to memory that overlaps"):
            counted(x, out=(both[:100], both[50:].view(np.float32)))


@pytest.mark.parametrize("grid", [(2.0, 1, 1), (2, True, 1)], ids=str)
def test_a_grid_with_a_float_or_a_bool_is_refused_after_an_equal_one_of_integers(grid: Any, saxpy: Kernel) -> None:  # noqa: ANN401
    saxpy(X, X, workgroups=(2, 1, 1), **PUSHED)
    with pytest.raises(InvalidInput, match=r"workgroups is .*, which is not 1 to 3 numbers"):
        saxpy(X, X, workgroups=grid, **PUSHED)


def test_results_lie_in_memory_that_calls_take_without_a_copy_and_keep_it(isolated: IsolatedDriver, saxpy: Kernel) -> None:
    arena = isolated.child().arena
    long, pushed = np.arange(5000, dtype=np.float32), {"alpha": 2.0, "count": 5000}
    saxpy(long, long, **pushed)
    gc.collect()
    before = arena.given_bytes
    pinned = isolated.pinned(5000, np.float32)
    pinned[...] = long
    first = saxpy(pinned, pinned, **pushed)
    second = saxpy(first, pinned, out=pinned, **pushed)
    assert (second is pinned, second.tolist(), first.tolist()) == (True, (7 * long).tolist(), (3 * long).tolist())
    assert None not in {arena.place_of(one) for one in (pinned, first)}
    part = first[10:20]
    del first, second, pinned
    assert (part.tolist(), arena.given_bytes > before) == ((3 * long[10:20]).tolist(), True)
    del part
    assert arena.given_bytes == before


def test_results_of_small_calls_take_no_shared_memory_and_stay_as_they_are(isolated: IsolatedDriver, saxpy: Kernel) -> None:
    arena, targets = isolated.child().arena, [np.empty(1000, np.float32), isolated.pinned(1000, np.float32)]
    for _ in range(2):
        saxpy(X, X, **PUSHED), saxpy(X, X, out=targets[0], **PUSHED)
    gc.collect()
    before = arena.given_bytes
    found = [saxpy(X, X, alpha=alpha, count=1000) for alpha in range(5)]
    written = [saxpy(X, X, alpha=5, count=1000, out=one) for one in targets]
    assert arena.given_bytes == before
    assert [one.tolist() for one in found] == [((alpha + 1) * X).tolist() for alpha in range(5)]
    assert [(one is target, one.tolist()) for one, target in zip(written, targets, strict=True)] == [
        (True, (6 * X).tolist())
    ] * 2


def test_the_memory_of_the_process_is_told_and_given_back(isolated: Driver) -> None:
    before = isolated.memory.used
    buffer = isolated.empty(70 << 20, np.uint8, "long")
    held = isolated.memory
    buffer.close()
    isolated.trim()
    after = isolated.memory
    assert (held.used - before, held.by_name["long"], after.used, after.reserved < held.reserved) == (
        70 << 20,
        (1, 70 << 20),
        before,
        True,
    )


def test_buffers_stay_in_the_process_and_do_what_buffers_do(isolated: Driver, saxpy: Kernel) -> None:
    x, y = isolated.buffer(X, "x"), isolated.zeros(1000, np.float32)
    assert saxpy(x, y, **PUSHED) is y
    assert y.read().tolist() == (2 * X).tolist()
    y[10:20].fill(5)
    y[20:30] = X[:10]
    x[:10].copy_to(y[:10])
    copy = y.__copy__()
    y.write(X)
    wanted = np.concatenate([X[:10], np.full(10, 5, np.float32), X[:10], 2 * X[30:]])
    assert (copy.read().tolist(), np.asarray(y.reshape(10, 100)[3]).tolist()) == (wanted.tolist(), X[300:400].tolist())
    wide = isolated.empty((3, 2), np.complex128)
    wide.fill(1 + 2j)
    assert wide.read().tolist() == [[1 + 2j] * 2] * 3
    assert isolated.zeros((0, 3), np.uint8).read().shape == (0, 3)
    y.close()
    with pytest.raises(VyreError, match="the buffer is closed"):
        saxpy(x, y, **PUSHED)


def test_what_is_bound_runs_alone_and_in_a_batch(isolated: Driver, saxpy: Kernel) -> None:
    x, y = isolated.buffer(X), isolated.zeros(1000, np.float32)
    bound = saxpy.bind(x, y, **PUSHED)
    bound.run()
    bound.set(alpha=3)
    bound.run(timeout=30)
    with isolated.batch() as batch:
        batch.add(bound)
        batch.add(bound)
    assert y.read().tolist() == (11 * X).tolist()


def test_a_buffer_of_another_driver_is_refused_on_both_sides(isolated: Driver, saxpy: Kernel, layered: Driver) -> None:
    with pytest.raises(InvalidInput, match="is of another driver than the kernel"):
        saxpy(layered.buffer(X), isolated.buffer(X), **PUSHED)
    with pytest.raises(InvalidInput, match="another driver"):
        layered.compile(shipped_module("saxpy"))(isolated.buffer(X), layered.buffer(X), **PUSHED)


def test_python_s_and_shipped_kernels_run_on_it(isolated: Driver) -> None:
    x = X.copy()
    assert scaled.on(isolated)(x, 2.0).tolist() == (2 * X).tolist()
    buffer = isolated.buffer(X)
    scaled.on(isolated)(buffer, 3.0)
    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    assert buffer.read().tolist() == (3 * X).tolist()
    assert kernels.matmul(isolated)(a, a).tolist() == (a @ a).tolist()
    with pytest.raises(UnsupportedFeature, match=r"not bound on an isolated driver.*Fix: bind what driver.compile"):
        scaled.on(isolated).bind(buffer, 3.0)


def test_tuning_in_the_process_is_kept_for_both(isolated: Driver) -> None:
    x = np.arange(512, dtype=np.uint32)
    space = TuningSpace((Axis("SIZE", (32, 64)),))
    shapes = {"y": 512, "z": 512}
    found = isolated.tune(glsl(COUNTING), x, space=space, invocations=512, out_shapes=shapes, seconds=3)
    chosen = isolated.compile(glsl(COUNTING), space=space)
    assert chosen.constants["SIZE"] == found.best.candidate["SIZE"]
    with pytest.raises(UnsupportedFeature, match="listener of a tuning's progress"):
        isolated.tune(glsl(COUNTING), x, space=space, on_progress=print)


def test_what_is_not_offered_is_refused_and_says_what_to_do(isolated: Driver, saxpy: Kernel) -> None:
    x = isolated.buffer(X)
    refused: list[Callable[[], object]] = [
        lambda: isolated.stream(saxpy, []),
        lambda: isolated.empty(1, "f4", share="cuda"),
        lambda: isolated.context.cache,
        lambda: saxpy.source,
        lambda: saxpy.bind(x, x, **PUSHED).submit(),
        lambda: isolated.batch().submit(),
    ]
    fixes = set()
    for one in refused:
        with pytest.raises(UnsupportedFeature) as caught:
            one()
        fixes.add(caught.value.fix)
    assert fixes == {
        "use a Driver without isolated=True",
        "call run(), on a thread of yours where the caller is not to wait",
    }


def test_it_is_a_driver_and_shows_itself_as_one(isolated: Driver, saxpy: Kernel, layered: Driver) -> None:
    plain = layered.compile(shipped_module("saxpy"))
    assert (saxpy.signature, saxpy.buffers, saxpy.constants) == (plain.signature, plain.buffers, plain.constants)
    assert list(inspect.signature(saxpy).parameters) == list(inspect.signature(plain).parameters)
    assert (isolated.device, isolated.report()["device"]) == (layered.device, layered.report()["device"])
    assert isolated.metrics().startswith("# HELP vyre_driver_info")
    assert (saxpy.trace.key, "Driver on" in repr(isolated), "isolated" in repr(isolated)) == (plain.trace.key, True, True)
    assert "OpEntryPoint" in saxpy.disassemble()


def test_a_subclass_cannot_be_isolated() -> None:
    class Mine(Driver):
        """A driver of somebody's own."""

    with pytest.raises(InvalidInput, match=r"a subclass of Driver cannot be isolated. Fix: make a Driver\(isolated=True\)"):
        Mine(isolated=True)
    with pytest.raises(InvalidInput, match="isolated is 'yes', which is neither True nor False"):
        Driver(isolated="yes")  # type: ignore[arg-type]


def test_eight_threads_call_it_at_once(isolated: Driver, saxpy: Kernel) -> None:
    wrong: list[object] = []
    counted = isolated.compile(glsl(COUNTING))

    def work(seed: int) -> None:
        try:
            for turn in range(20):
                n = 100 + 64 * ((seed + turn) % 5)
                x = np.full(n, seed, np.float32)
                found = saxpy(x, x, alpha=turn, count=n)
                both = counted(np.full(n, turn, np.uint32), out_shapes={"y": n, "z": n})
                if not ((found == seed * (turn + 1)).all() and (both[0] == turn + 1).all()):
                    wrong.append((seed, turn))
        except VyreError as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []


@pytest.mark.parametrize(
    "options",
    [{}, {"workgroups": 1}, {"invocations": 100}, {"timeout": 60.0}],
    ids=["plain", "workgroups", "invocations", "timeout"],
)
def test_each_call_of_a_form_but_the_first_is_one_message(
    isolated: Driver, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    asked: list[str] = []
    ask = Child.ask

    def noted(child: Child, what: str, name: str, *arguments: object, **how: Any) -> Any:  # noqa: ANN401 -- a step's
        asked.append(name)
        return ask(child, what, name, *arguments, **how)

    x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    kernel = isolated.compile(shipped_module("saxpy"))
    monkeypatch.setattr(Child, "ask", noted)
    for given in ({}, {"out": out}):
        kernel(x, x, alpha=2, count=100, **options, **given)
        asked.clear()
        found = kernel(x, x, alpha=3, count=100, **options, **given)
        assert (found.tolist(), asked) == ((4 * x).tolist(), ["again"])


def test_a_child_that_dies_before_its_device_is_open_blames_no_shader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("""
import os, signal, sys
if "vyre_driver.isolated.child" in sys.orig_argv:
    os.kill(os.getpid(), signal.SIGKILL)
""")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(DriverCrashed) as caught:
        Driver(isolated=True)
    error = caught.value
    assert (error.context["how"], error.context["signal"]) == ("SIGKILL", signal.SIGKILL)
    assert str(error) == (
        f"the process {error.context['pid']} of an isolated driver has ended (SIGKILL): it died while it opened its device. "
        "Fix: run vyre-driver doctor, which opens each device in a process of its own and says what ends it."
    )


SHORT = np.arange(100, dtype=np.float32)
WAITS_S = 60.0


@pytest.fixture
def pool() -> Iterator[DriverPool]:
    with DriverPool([0, 0], allow_software=True, isolated=True) as opened:
        yield opened


def process_of(driver: Driver) -> int:
    assert isinstance(driver, IsolatedDriver)
    return driver.child().pid


def test_calls_run_in_two_processes_and_metrics_tell_them_apart(pool: DriverPool) -> None:
    saxpy = pool.compile(shipped_module("saxpy"))
    found = saxpy.map(((SHORT, SHORT + number) for number in range(8)), alpha=2.0, count=100)
    assert [one.tolist() for one in found] == [(3 * SHORT + number).tolist() for number in range(8)]
    assert len({process_of(one) for one in pool.drivers} | {os.getpid()}) == 3
    lines = [one for one in pool.metrics().splitlines() if one.startswith("vyre_driver_pool_jobs_done_total")]
    assert [one.partition(" ")[0] for one in lines] == [f'vyre_driver_pool_jobs_done_total{{process="{n}"}}' for n in (0, 1)]


def test_a_process_that_is_killed_fails_its_work_alone_and_its_device_goes_on(pool: DriverPool) -> None:
    saxpy = pool.compile(shipped_module("saxpy"))
    before = {process_of(one) for one in pool.drivers}

    def kill(driver: Driver) -> None:
        kernel = driver.compile(shipped_module("saxpy"))
        os.kill(process_of(driver), signal.SIGKILL)
        kernel(SHORT, SHORT, alpha=2.0, count=100)

    futures = [pool.submit(kill), *(saxpy(SHORT, SHORT + number, alpha=2.0, count=100) for number in range(6))]
    assert isinstance(futures[0].exception(WAITS_S), DriverCrashed)
    assert [one.result(WAITS_S).tolist() for one in futures[1:]] == [(3 * SHORT + number).tolist() for number in range(6)]
    after = {process_of(one) for one in pool.drivers}
    assert (len(after), len(after & before), [one["lost"] for one in pool.report()]) == (2, 1, [False, False])


def test_work_whose_device_is_lost_is_done_again_once(pool: DriverPool) -> None:
    runs: list[int] = []

    def lose(_: Driver) -> int:
        runs.append(1)
        if len(runs) != 2:
            raise DeviceLost("the device was lost", fix="make a new driver")
        return 7

    assert (pool.submit(lose).result(WAITS_S), len(runs)) == (7, 2)
    with pytest.raises(DeviceLost, match="the device was lost"):
        pool.submit(lose).result(WAITS_S)
    assert (len(runs), len(pool.drivers)) == (4, 2)
