"""Sums of f32 by atomics, by the device's own instruction and by loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver.ir import BufferDecl, DataType, Program, atomic_add, barrier, bitcast, cast, gid_x, if_, let, lid_x, load, var
from vyre_driver.target.config import DispatchConfig

if TYPE_CHECKING:
    from vyre_driver import Driver

pytestmark = pytest.mark.device

U32, F32 = DataType.U32, DataType.F32
CELLS = BufferDecl.read_write("cells", 0, F32).with_count(4)
TILE = BufferDecl.workgroup("tile", 4, F32)
COUNT = 64 * 50


def summed() -> Program:
    """Each invocation adds a whole number to the buffer and to workgroup memory, which is added to the buffer as well."""
    i, lane = gid_x(), lid_x()
    own = bitcast(U32, cast(F32, i % 5))
    body = [
        let("a", atomic_add(CELLS, i % 4, own)),
        let("b", atomic_add(TILE, i % 4, own)),
        barrier(),
        if_(lane < 4, [let("part", load(TILE, lane)), let("c", atomic_add(CELLS, lane, bitcast(U32, var("part", F32))))]),
    ]
    return Program.wrapped([CELLS, TILE], (64, 1, 1), body)


@pytest.mark.parametrize("config", [None, DispatchConfig(ulp_budget=1)], ids=["exact", "with a ulp budget"])
def test_no_addition_is_lost(driver: Driver, config: DispatchConfig | None) -> None:
    numbers = (np.arange(COUNT) % 5).astype(np.float32)
    wanted = [float(2 * numbers[place::4].sum()) for place in range(4)]
    kernel = driver.compile(summed(), config=config)
    assert kernel(np.zeros(4, np.float32), workgroups=(COUNT // 64, 1, 1)).tolist() == wanted
