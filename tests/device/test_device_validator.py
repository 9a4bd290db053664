"""Where spirv-val is installed, what it refuses never reaches the Vulkan driver; without it the rest still works."""

from __future__ import annotations

import array
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver import SpirvModule
from vyre_driver.errors import InvalidModule
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from pathlib import Path

    from vyre_driver import Driver

pytestmark = pytest.mark.device

X = np.arange(8, dtype=np.float32)
PUSH = {"alpha": 2, "count": 8}


def second_float_type() -> SpirvModule:
    """The saxpy shader with a second float type: against the rules, and harmless to any driver."""
    module = shipped_module("saxpy")
    words = array.array("I", module.code)
    at = module.interface.first_function
    words[at:at] = array.array("I", [3 << 16 | 22, words[3], 32])
    words[3] += 1
    return SpirvModule.from_bytes(words.tobytes(), name="given")


@pytest.mark.validation
def test_a_module_that_spirv_val_refuses_reaches_neither_driver_nor_cache(driver: Driver) -> None:
    module = second_float_type()
    before = driver.context.device.report()["counters"]
    with pytest.raises(InvalidModule) as refused:
        driver.compile(module)
    assert str(refused.value).startswith("given is not a valid SPIR-V module: spirv-val says line ")
    assert "Duplicate non-aggregate type declarations are not allowed" in str(refused.value)
    counts = driver.cache.stats()["counts"]
    assert (driver.context.device.report()["counters"], counts.get("put", 0)) == (before, 0)  # type: ignore[attr-defined]
    assert list(driver.compile(shipped_module("saxpy"))(X, X, push_constants=PUSH)) == list(3 * X)


@pytest.mark.validation
def test_it_is_refused_again_where_an_entry_was_made_without_spirv_val(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    module = second_float_type()
    monkeypatch.setenv("VYRE_SPIRV_VAL", "0")
    driver.compile(module)
    monkeypatch.delenv("VYRE_SPIRV_VAL")
    with pytest.raises(InvalidModule):
        driver.compile(module)


@pytest.mark.usefixtures("system_tools_only")
def test_without_spirv_val_on_the_path_our_own_check_is_all(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert list(driver.compile(second_float_type())(X, X, push_constants=PUSH)) == list(3 * X)  # type: ignore[arg-type]
    with pytest.raises(InvalidModule, match="not a multiple of 4"):
        SpirvModule.from_bytes(shipped_module("saxpy").code[:-1])
