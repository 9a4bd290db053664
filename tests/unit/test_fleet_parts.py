"""The parts of a fleet that need no process: hedging, the window, metrics, and the count of losses."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from extras import imported

from vyre_driver.autotune.store.record import AutotuneKey, AutotuneRecord
from vyre_driver.autotune.store.text import AutotuneText, format_text
from vyre_driver.errors import InvalidInput, WorkerLost
from vyre_driver.telemetry.prometheus import merged

imported("distributed")
from distributed import KilledWorker, Nanny, Status  # noqa: E402 -- an extra
from distributed.client import FutureCancelledError  # noqa: E402
from distributed.scheduler import NoWorkerError  # noqa: E402

from vyre_driver.distributed.futures import told  # noqa: E402
from vyre_driver.distributed.joining import RestartingNanny  # noqa: E402
from vyre_driver.distributed.pool import FleetReport, trace_of  # noqa: E402
from vyre_driver.distributed.scheduling import Callers, Losses, Records  # noqa: E402
from vyre_driver.distributed.tasks import kept  # noqa: E402
from vyre_driver.distributed.windowed import Hedging, WindowedCalls  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator


class Run:
    """A future that has ended, or not."""

    def __init__(self, result: object, status: str = "finished") -> None:
        self.value, self.status = result, status

    def result(self) -> object:
        return self.value

    def cancel(self) -> None:
        self.status = "cancelled"


def gathered(runs: Any) -> list[Any]:  # noqa: ANN401 -- futures
    return [one.result() for one in runs]


def test_a_call_is_late_after_three_medians_once_half_have_ended() -> None:
    rule = Hedging()
    rule.begun = 20
    for _ in range(9):
        rule.ended(1.0)
    assert not rule.is_late(100.0)
    rule.ended(1.0)
    assert (rule.is_late(3.0), rule.is_late(3.1)) == (False, True)
    rule.begun = 21
    assert not rule.is_late(100.0)


def test_no_more_than_one_call_in_twenty_is_hedged() -> None:
    rule = Hedging()
    rule.begun = 60
    for _ in range(60):
        rule.ended(1.0)
    hedged = 0
    while rule.is_late(9.0):
        rule.hedged += 1
        hedged += 1
    assert hedged == 3


def test_the_first_run_of_a_hedged_call_to_end_gives_its_result_once() -> None:
    begun: list[tuple[int, bool]] = []
    runs: dict[tuple[int, bool], Run] = {}

    def submit(calls: list[tuple[Any, ...]], avoid: Any) -> Any:  # noqa: ANN401 -- futures
        keys = [(number, avoid is not None) for (number,) in calls]
        begun.extend(keys)
        runs.update({key: Run(key, "pending" if key == (11, False) else "finished") for key in keys})
        return [runs[key] for key in keys]

    class AtOnce(Hedging):
        def is_late(self, seconds: float) -> bool:
            return seconds >= 0 and len(self._taken) >= 11 and not self.hedged

    calls = ((number,) for number in range(12))
    found = list(WindowedCalls(submit, lambda: 12, gathered, hedging=AtOnce(), wait=lambda *_: None).results(calls))
    assert found == [(number, number == 11) for number in range(12)]
    assert ([one for one in begun if one[1]], runs[11, False].status) == ([(11, True)], "cancelled")


def test_what_nobody_waits_for_is_cancelled_and_no_call_is_read_before_there_is_room() -> None:
    runs = [Run(number) for number in range(9)]
    read: list[int] = []

    def calls() -> Iterator[tuple[int]]:
        for number in range(9):
            read.append(number)
            yield (number,)

    def submit(calls: list[tuple[Any, ...]], _: object) -> Any:  # noqa: ANN401 -- futures
        return [runs[number] for (number,) in calls]

    results = WindowedCalls(submit, lambda: 3, gathered).results(calls())
    assert ([next(results), next(results)], read) == ([0, 1], [0, 1, 2, 3])
    results.close()
    assert [one.status for one in runs[:5]] == ["finished", "finished", "cancelled", "cancelled", "finished"]


def test_a_call_that_is_no_sequence_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"a call of map is of type ndarray, and each is a tuple of arrays\. Fix: give \(array,\)"
    ):
        list(WindowedCalls(lambda *_: [], lambda: 1, gathered).results([np.zeros(3)]))  # type: ignore[list-item]


def test_a_call_that_is_none_is_refused_and_does_not_end_the_others() -> None:
    calls: list[Any] = [(0,), None, (1,)]
    with pytest.raises(InvalidInput, match="a call of map is of type NoneType"):
        list(WindowedCalls(lambda calls, _: [Run(number) for (number,) in calls], lambda: 1, gathered).results(calls))


def test_calls_go_in_messages_of_a_quarter_of_the_window_and_are_read_on_while_one_is_late() -> None:
    runs = [Run(number, "finished" if number else "pending") for number in range(40)]
    messages: list[list[int]] = []
    waits = iter([None, None, "finished"])

    def submit(calls: list[tuple[Any, ...]], _: object) -> Any:  # noqa: ANN401 -- futures
        messages.append([number for (number,) in calls])
        return [runs[number] for (number,) in calls]

    def wait(_: object, __: float) -> None:
        runs[0].status = next(waits) or "pending"

    calls = WindowedCalls(submit, lambda: 8, gathered, ahead=2, wait=wait)
    assert list(calls.results((number,) for number in range(40))) == list(range(40))
    # The first two go by themselves; then one is late, and seven have ended.
    assert messages[:3] == [[0, 1], list(range(2, 8)), list(range(8, 15))]
    assert [one for message in messages for one in message] == list(range(40))
    assert {len(one) for one in messages[3:-1]} == {2}


def test_arrays_are_not_read_on_without_bound_while_one_is_late() -> None:
    runs = [Run(number, "finished" if number else "pending") for number in range(9)]
    read: list[int] = []

    def calls() -> Iterator[tuple[Any, ...]]:
        for number in range(9):
            read.append(number)
            yield number, np.broadcast_to(np.float32(0), (100 << 20) // 4)

    def submit(given: list[tuple[Any, ...]], _: object) -> Any:  # noqa: ANN401 -- futures
        return [runs[number] for number, _ in given]

    def wait(_: object, __: float) -> None:
        runs[0].status = "finished" if len(waits) > 3 else "pending"
        waits.append(list(read))

    waits: list[list[int]] = []
    found = WindowedCalls(submit, lambda: 2, gathered, ahead=4, wait=wait).results(calls())
    assert (next(found), waits[-1]) == (0, [0, 1, 2])


def test_a_large_call_is_sent_as_soon_as_it_is_read() -> None:
    messages: list[int] = []

    def submit(calls: list[tuple[Any, ...]], _: object) -> Any:  # noqa: ANN401 -- futures
        messages.append(len(calls))
        return [Run(0) for _ in calls]

    large, small = np.zeros(1 << 18, np.float32), np.zeros(1, np.float32)
    found = WindowedCalls(submit, lambda: 9, gathered).results([(large,), (large,), (small,), (small,)])
    assert (list(found), messages) == ([0] * 4, [1, 1, 2])


def test_a_task_runs_again_for_each_lost_device_but_the_last() -> None:
    tasks = {"a": SimpleNamespace(retries=0), "b": SimpleNamespace(retries=0)}
    losses = Losses(SimpleNamespace(tasks=tasks))  # type: ignore[arg-type]
    for key in ("a", "b", "a", "a", "gone"):
        losses.tell(key, 3, worker="tcp://w")
    assert [one.retries for one in tasks.values()] == [2, 1]
    del tasks["a"]
    losses.tell("b", 2)
    assert (tasks["b"].retries, losses._lost) == (1, {"b": 2})  # noqa: SLF001 -- what was forgotten


def test_a_worker_asks_those_that_came_to_call_a_kernel_before_it_and_are_there_still() -> None:
    workers = {"a", "b", "c"}
    callers = Callers(SimpleNamespace(workers=workers))  # type: ignore[arg-type]
    assert callers.before("k", "a", "host /a", is_called=False) == ([], False)
    assert callers.before("k", "b", "host /b", is_called=False) == (["a"], False)
    assert callers.before("k", "b", "host /b", is_called=True) == (
        ["a"],
        False,
    )  # it has loaded it: there is no call to wait for
    assert callers.before("k", "a", "host /a", is_called=True) == (["b"], True)
    assert callers.before("k", "c", "host /b", is_called=True) == ([], True)  # what b compiles lies in its own cache
    workers.remove("b")
    assert callers.before("k", "d", "host /d", is_called=True) == (["a", "c"], True)
    assert callers.before("other", "d", "host /d", is_called=True) == ([], False)


def test_of_two_tuning_records_the_scheduler_keeps_the_better_measured() -> None:
    records, key = Records(), AutotuneKey("11" * 16, "gpu")
    texts = {}
    for samples in (3, 9, 5):
        record = AutotuneRecord((64, 1, 1), samples, (0, 0, 0), "2026-11-21", "ab" * 32, samples)
        texts[samples] = format_text(AutotuneText({(key, record.identity): record}))
        records.tell([key.key_hex, key.adapter_id], record.identity, texts[samples], worker="tcp://w")
    assert (records.give([key.key_hex, key.adapter_id]), records.give(["", ""])) == ([texts[9]], [])


def test_what_dask_gives_up_is_told_as_a_lost_worker() -> None:
    killed = told(KilledWorker("task-1", SimpleNamespace(address="tcp://10.0.0.1:5"), 1))
    waited = told(NoWorkerError("task-2", 60.0))
    assert [(type(one), one.code, one.context) for one in (killed, waited) if isinstance(one, WorkerLost)] == [
        (WorkerLost, 2018, {"task": "task-1", "worker": "tcp://10.0.0.1:5"}),
        (WorkerLost, 2018, {"task": "task-2"}),
    ]
    assert str(waited).startswith("no worker could take this task within 60 s. Fix: start workers")
    alone = told(FutureCancelledError("task-3", "scheduler-connection-lost"))
    assert str(alone) == (
        "the connection to the scheduler was lost before this task had a result. Fix: start the scheduler again if it has "
        "ended, and make a new Client and a new FleetPool."
    )
    for error in (ValueError("x"), FutureCancelledError("task-4", None)):
        assert told(error) is error


def test_metrics_of_processes_become_one_text_with_each_family_once() -> None:
    calls = '# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total{number="1\r\x85"} 3\n'
    one = f"{calls}# HELP up Up.\n# TYPE up gauge\nup 1\n"
    assert merged("worker", [("tcp://a:1", one), ("tcp://b:1", one)]).split("\n") == [
        "# HELP calls_total Calls.",
        "# TYPE calls_total counter",
        'calls_total{worker="tcp://a:1",number="1\r\x85"} 3',
        'calls_total{worker="tcp://b:1",number="1\r\x85"} 3',
        "# HELP up Up.",
        "# TYPE up gauge",
        'up{worker="tcp://a:1"} 1',
        'up{worker="tcp://b:1"} 1',
        "",
    ]


def test_a_report_prints_as_a_table() -> None:
    facts = {"worker": "tcp://a:1", "device": "H200", "done": 3, "failed": 0, "waiting": 1, "seconds": 0.5, "kernels": 2}
    shown = FleetReport([{**facts, "misses": 1, "uuid": "00"}])
    assert str(shown).splitlines() == [
        "worker     device  done  failed  waiting  seconds  kernels  misses",
        "tcp://a:1  H200    3     0       1        0.50     2        1",
    ]
    assert "<caption>Fleet of 1 workers</caption>" in shown._repr_html_()


class Place(NamedTuple):
    """What work may return."""

    row: int
    column: int


def test_a_named_tuple_of_no_buffers_is_returned_as_it_is() -> None:
    found: Any = kept((Place(1, 2), 3))
    assert (found, type(found[0])) == ((Place(1, 2), 3), Place)


def test_a_nanny_waits_longer_after_each_start_that_failed_and_closes_for_other_reasons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    closed: list[str] = []
    starts = iter([False] * 7 + [True, False, True])
    nanny: Any = object.__new__(RestartingNanny)
    nanny._status = Status.running  # noqa: SLF001 -- what Dask's own has made

    async def start(_: object) -> Status:
        if next(starts):
            return Status.running
        await nanny.close(reason="nanny-instantiate-failed")
        raise OSError

    async def close(_: object, timeout: float, reason: str) -> str:  # noqa: ARG001 -- Dask's
        closed.append(reason)
        return "OK"

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def run() -> None:
        for is_failure in [True] * 7 + [False, True, False]:
            try:
                assert await nanny.instantiate() == Status.running
                assert not is_failure
            except OSError:
                assert is_failure
        await nanny.close(reason="nanny-close")
        nanny._status = Status.starting  # noqa: SLF001 -- a first start
        await nanny.close(reason="nanny-instantiate-failed")

    monkeypatch.setattr(Nanny, "instantiate", start)
    monkeypatch.setattr(Nanny, "close", close)
    monkeypatch.setattr("vyre_driver.distributed.joining.asyncio.sleep", sleep)
    asyncio.run(run())
    assert (slept, closed) == ([1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 1.0], ["nanny-close", "nanny-instantiate-failed"])


def test_processes_of_two_machines_with_one_number_have_rows_of_their_own_and_tasks_lie_in_them() -> None:
    def profile(began_s: int) -> dict[str, Any]:
        event = {"ph": "X", "name": "half", "cat": "call", "pid": 7, "tid": 8, "ts": 5.0, "dur": 1.0}
        about = {"format": "vyre_driver.trace", "version": 1, "started_unix_ns": began_s * 10**9, "seconds": 1.0}
        return {"traceEvents": [event], "otherData": {**about, "drivers": [{"pid": 7, "number": 1}]}}

    parts = [{"action": "transfer", "start": 9.5, "stop": 10.5}, {"action": "compute", "start": 10.5, "stop": 11.0}]
    tasks = [{"worker": one, "thread": 3, "key": "half-1", "startstops": parts} for one in ("tcp://b", "tcp://dead")]
    found = trace_of(tasks, {"tcp://b": profile(10), "tcp://a": profile(12)})
    spans = [(one["pid"], one["name"], one["ts"], one["dur"]) for one in found["traceEvents"] if one["ph"] == "X"]
    assert sorted(spans) == [
        (0, "half", 2e6 + 5.0, 1.0),
        (1, "half", 5.0, 1.0),
        (1, "half", 0.5e6, 0.5e6),
        (1, "transfer", 0.0, 0.5e6),
        (2, "half", 0.5e6, 0.5e6),
        (2, "transfer", 0.0, 0.5e6),
    ]
    names = [(one["pid"], one["args"]["name"]) for one in found["traceEvents"] if one["name"] == "process_name"]
    assert (sorted(names), [one["pid"] for one in found["otherData"]["drivers"]]) == (
        [(0, "tcp://a"), (1, "tcp://b"), (2, "tcp://dead")],
        [0, 1],
    )
    with pytest.raises(WorkerLost, match=r"no worker that was there when the timeline began is left\. Fix: look into the logs"):
        trace_of(tasks, {})
