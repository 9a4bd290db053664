"""Local arrays that llvmpipe takes long to compile are warned of before anything is compiled."""

from __future__ import annotations

import dataclasses
import re
import warnings
from typing import TYPE_CHECKING

import pytest

from vyre_driver.ir import BufferDecl, DataType, Program, load, store
from vyre_driver.ir.arithmetic import LitU32

if TYPE_CHECKING:
    from vyre_driver import Driver

pytestmark = pytest.mark.device

OUT = BufferDecl.read_write("out", 0, DataType.U32).with_count(4)
LLVMPIPE, NVIDIA = 13, 4


def program(*local: BufferDecl) -> Program:
    stores = [store(one, load(OUT, LitU32(1)), load(OUT, LitU32(2))) for one in local]
    return Program.wrapped([OUT, *local], (4, 1, 1), [*stores, store(OUT, 0, load(local[0], load(OUT, LitU32(3))))])


def warned(driver: Driver, monkeypatch: pytest.MonkeyPatch, driver_id: int, *local: BufferDecl) -> list[str]:
    opened = driver.context.device
    monkeypatch.setattr(opened, "physical", dataclasses.replace(opened.physical, driver_id=driver_id, name="the device"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        driver.compile(program(*local))
    return [str(one.message) for one in caught]


def test_more_bytes_than_llvmpipe_compiles_in_ten_seconds_are_warned_of(
    layered: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, others = BufferDecl.local("words", 4_000, DataType.U32), BufferDecl.local("others", 1_001, DataType.U32)
    said = (
        "the local arrays of the program have 20,004 bytes in each invocation, and 'the device' takes about 10 s to compile "
        "them, at the first call in each process. Fix: use at most 20,000 bytes, or a buffer."
    )
    found = warned(layered, monkeypatch, LLVMPIPE, words, others)
    assert [one for one in found if re.match("the local arrays", one)] == [said]


def test_fewer_bytes_and_other_drivers_are_not_warned_of(layered: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    most, more = (BufferDecl.local("words", count, DataType.U32) for count in (5_000, 16_384))
    assert warned(layered, monkeypatch, LLVMPIPE, most) == []
    assert warned(layered, monkeypatch, NVIDIA, more) == []
