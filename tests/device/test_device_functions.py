"""Functions of f32 on a device: as exact as the documents say, with the IR's floats and with the device's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from function_errors import FUNCTIONS, columns, error, flushed, program

from vyre_driver.backends.reference import run
from vyre_driver.ir import BufferDecl, DataType, Program, atomic_add, bitcast, functions, gid_x, load, store
from vyre_driver.ir.extensions import extension
from vyre_driver.target.config import DispatchConfig

if TYPE_CHECKING:
    from vyre_driver import Driver

pytestmark = pytest.mark.device

U32, F32 = DataType.U32, DataType.F32
COUNT = 1 << 14
DIVIDING = frozenset({"power", "atan2", "hypot", "asinh", "acosh", "atanh", "floor_divide"})
"""Of which a device may be a few steps farther off: Vulkan allows quotients 2.5, and roots as many."""


@pytest.mark.parametrize("config", [None, DispatchConfig(ulp_budget=1)], ids=["exact", "with a ulp budget"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_errs_by_no_more_than_the_documents_say(driver: Driver, name: str, config: DispatchConfig | None) -> None:
    limit = FUNCTIONS[name].most + (8 if name in DIVIDING and driver.device.driver_id != 13 else 0)
    for asked in columns(name, COUNT):
        given = asked if config is None else [flushed(one) for one in asked]  # which the device may keep
        made = program(name, len(given[0]), len(given))
        found = np.asarray(driver.compile(made, config=config)(*given))
        worst, where = error(name, given, found)
        assert worst <= limit, (worst, where)
        if config is None and name not in DIVIDING:
            (wanted,) = run(made, given)
            assert np.array_equal(found, wanted, equal_nan=True)


def test_operands_are_evaluated_once(driver: Driver) -> None:
    cells = BufferDecl.read_write("cells", 0, U32).with_count(4)
    out = BufferDecl.output("out", 1, F32).with_count(4)
    value = functions.copysign(bitcast(F32, atomic_add(cells, gid_x(), 1 << 23)), -1.0)
    made = Program.wrapped([cells, out], (4, 1, 1), [store(out, gid_x(), value)])
    found = driver.compile(made)(np.full(4, 0x3F80_0000, np.uint32))
    assert [one.tolist() for one in found] == [[0x4000_0000] * 4, [-1.0] * 4]


def test_every_bit_pattern_of_a_half_is_converted(driver: Driver) -> None:
    every = np.arange(1 << 16, dtype=np.uint32)
    for half in ("f16", "bf16"):
        words, out = BufferDecl.read("words", 0, U32).with_count(len(every)), BufferDecl.output("out", 1, U32)
        value = extension(f"pack_{half}", extension(f"unpack_{half}", load(words, gid_x())))
        made = Program.wrapped([words, out.with_count(len(every))], (64, 1, 1), [store(out, gid_x(), value)])
        (wanted,) = run(made, [every])
        assert np.array_equal(np.asarray(driver.compile(made)(every)), wanted)
