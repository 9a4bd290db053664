"""A time-out counts from the call on, whatever the call has to wait for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import TURNS, Spin

from vyre_driver import Driver
from vyre_driver.errors import DispatchTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.device


@pytest.fixture
def spin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spin]:
    """Work that outlasts a wait; only under the layer does a wait end before it."""
    monkeypatch.setenv("VYRE_LAYER", "1")
    with Driver() as opened:
        yield Spin(opened, 1.0)


def test_a_call_waits_for_another_thread_s_call_of_its_kind_no_longer_than_it_was_told(spin: Spin) -> None:
    def call(timeout: float | None = None) -> int:
        zeros, ones = np.zeros(1, np.uint32), np.ones(1, np.uint32)
        return int(spin.kernel(zeros, ones, push={"turns": TURNS}, groups=spin.grid, timeout=timeout)[0])

    found = [call()]
    busy = threading.Thread(target=lambda: found.append(call()))
    busy.start()
    while not spin.kernel._latest[1].recorded._submissions["all"]._works[-1].is_pending:  # type: ignore[index] # noqa: SLF001
        pass
    with pytest.raises(DispatchTimeout) as caught:
        call(timeout=0.05)
    still_runs = busy.is_alive()
    busy.join()
    assert (still_runs, caught.value.context["timeout_s"], found) == (True, 0.05, [spin.groups] * 2)
    assert "did not end in 0.05 s" in str(caught.value)
    assert call() == spin.groups
