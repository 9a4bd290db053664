"""Kernels made ready before their first calls, by machines that share a store and claim what they compile."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest
from machines import X, events_of, given, use

from vyre_driver import Driver
from vyre_driver.errors import DispatchFailed, InvalidInput
from vyre_driver.identity import device_fields
from vyre_driver.remote.names import claim_name, device_name
from vyre_driver.runtime import warming
from vyre_driver.runtime.warming import WarmReport
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from pathlib import Path

    from machines import Machines

    from vyre_driver.runtime.kernel import Kernel

pytestmark = [pytest.mark.device, pytest.mark.redis, pytest.mark.cold_mesa]


def is_ready(kernel: Kernel) -> bool:
    """Whether a call computes right, and has nothing compiled: the layer shares the pipeline that is there."""
    right = bool(np.array_equal(kernel(X, X, push_constants={"alpha": 2, "count": 100}), 3 * X))
    facts = kernel.trace.pipeline
    return right and facts is not None and facts.shared


def expect_milliseconds(root: Path, kernel: Kernel, milliseconds: int) -> None:
    """Say how long this device compiles this kernel."""
    (pace,) = (root / "flight").glob("*.pace")
    pace.write_bytes(b"%d" % (milliseconds * 1_000_000 // len(kernel._pipelines.spirv)))  # noqa: SLF001


def claim_of(name: str) -> str:
    """Return the name of the claim for an entry with this name."""
    return name.replace(":e1:", ":w1:")


def test_without_a_store_kernels_are_compiled_before_their_first_calls(witness: Path) -> None:
    with Driver() as driver:
        kernels = [driver.compile(shipped_module(name)) for name in ("saxpy", "fill_words")]
        assert (driver.warm(kernels), given(witness)) == (WarmReport(0, 0, 2), [0, 0])
        assert (driver.warm(kernels), is_ready(kernels[0])) == (WarmReport(2, 0, 0), True)


def test_what_the_store_has_is_taken(machines: Machines, witness: Path) -> None:
    machines.be("builder", signs=True)
    use()
    given(witness)
    machines.be("reader")
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        assert (driver.warm([kernel]), given(witness), is_ready(kernel)) == (WarmReport(0, 1, 0), [1032], True)


def test_what_nobody_has_is_claimed_compiled_and_sent_at_once(machines: Machines, witness: Path) -> None:
    machines.be("builder", signs=True)
    with Driver() as driver:
        assert driver.warm([driver.compile(shipped_module("saxpy"))]) == WarmReport(0, 0, 1)
    machines.until_there(1)
    assert (len(machines.names("w1")), given(witness)) == (1, [0])
    assert machines.server.do("PTTL", machines.names("w1")[0]) > 0


def test_what_somebody_else_has_claimed_is_compiled_when_the_claim_has_run_out(machines: Machines, witness: Path) -> None:
    machines.be("builder", signs=True)
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        expect_milliseconds(machines.folder / "builder", kernel, 100)
        claim = claim_name(device_name(device_fields(driver.device)), bytes.fromhex(kernel.trace.key))
        machines.server.do("SET", claim, "somebody", "PX", 150)
        assert (driver.warm([kernel]), given(witness)) == (WarmReport(0, 0, 1), [0])
    assert machines.server.do("GET", claim) != b"somebody"


def test_what_is_claimed_for_longer_than_anybody_compiles_is_compiled_here(
    machines: Machines, witness: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warming, "_LEAST_PATIENCE_S", 0.2)
    machines.be("builder", signs=True)
    with Driver() as driver:
        kernels = [driver.compile(shipped_module(name)) for name in ("saxpy", "fill_words")]
        expect_milliseconds(machines.folder / "builder", kernels[0], 10)
        device = device_name(device_fields(driver.device))
        claims = [claim_name(device, bytes.fromhex(kernel.trace.key)) for kernel in kernels]
        for claim in claims:
            machines.server.do("SET", claim, "somebody", "PX", 20_000)
        assert (driver.warm(kernels), given(witness)) == (WarmReport(0, 0, 2), [0, 0])
    assert [machines.server.do("GET", claim) for claim in claims] == [b"somebody"] * 2


def taken_away(machines: Machines, witness: Path) -> tuple[str, bytes]:
    """Have a builder send an entry, and return its name and value once it is gone from the store."""
    machines.be("builder", signs=True)
    use()
    (name,) = machines.names()
    value: bytes = machines.server.do("GET", name)
    machines.server.do("DEL", name)
    given(witness)
    return name, value


def test_what_somebody_else_has_claimed_is_taken_when_it_comes(machines: Machines, witness: Path) -> None:
    name, value = taken_away(machines, witness)
    machines.be("other", signs=True)
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        expect_milliseconds(machines.folder / "other", kernel, 100)
        machines.server.do("SET", claim_of(name), "somebody", "PX", 60_000)
        comes = threading.Timer(0.1, machines.server.do, ("SET", name, value))
        comes.start()
        assert (driver.warm([kernel]), given(witness), is_ready(kernel)) == (WarmReport(0, 1, 0), [1032], True)
        comes.join()


def test_what_has_come_since_it_was_asked_for_is_not_compiled_once_more(machines: Machines, witness: Path) -> None:
    name, value = taken_away(machines, witness)
    machines.be("other", signs=True)
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        events_of(driver, EventKind.FETCH, 1)
        machines.server.do("SET", name, value)
        assert (driver.warm([kernel]), given(witness)) == (WarmReport(0, 1, 0), [1032])


@pytest.mark.parametrize("name", ["builder", "reader"])
def test_where_the_store_is_down_or_nothing_may_be_sent_there_all_is_compiled(
    machines: Machines, witness: Path, name: str
) -> None:
    machines.be("builder", signs=True)
    machines.be(name, signs=name == "builder")
    if name == "builder":
        machines.server.stop()
    with Driver() as driver:
        kernels = [driver.compile(shipped_module(one)) for one in ("saxpy", "fill_words")]
        assert (driver.warm(kernels), given(witness)) == (WarmReport(0, 0, 2), [0, 0])
    machines.server.start()
    assert machines.names("w1") == []


def test_what_is_no_kernel_of_this_driver_is_refused(opened: Driver) -> None:
    with pytest.raises(InvalidInput, match=r"warm got an int\. Fix: give kernels that this driver's compile has returned."):
        opened.warm([1])  # type: ignore[list-item]
    with Driver() as other, pytest.raises(InvalidInput, match="warm got a kernel of another driver"):
        opened.warm([other.compile(shipped_module("saxpy"))])
    opened.close()
    with pytest.raises(DispatchFailed):
        opened.warm([])
