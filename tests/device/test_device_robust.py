"""Robust buffer access: off unless it is asked for, and never missed silently."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import glsl
from lacking_devices import lack_features

from vyre_driver import Driver
from vyre_driver.errors import UnsupportedFeature

pytestmark = pytest.mark.device

# Reads and writes 1,000 elements past the end: in the other buffer, if nothing holds it back.
STRAY = """
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) buffer Y { uint y[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < y.length()) { y[i] = x[i + x.length() + 1000u]; y[i + y.length() + 1000u] = 7u; }
}
"""


def features_enabled(driver: Driver) -> tuple[bool, int]:
    layer = driver.report()["layer"]
    assert isinstance(layer, dict)
    return "robustBufferAccess" in layer["features"], layer["counters"]["features_enabled"]


def test_robust_access_is_one_feature_more_and_gives_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for switch in ("0", "1"):
        monkeypatch.setenv("VYRE_ROBUST_ACCESS", switch)
        with Driver() as driver:
            found.append((*features_enabled(driver), driver.compile(glsl(STRAY)).trace.key))
    (plain, count, key), (robust, more, other) = found
    assert (plain, robust, more - count, key == other) == (False, True, 1, False)


def test_with_robust_access_a_stray_shader_harms_no_other_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_ROBUST_ACCESS", "1")
    with Driver() as driver:
        kernel = driver.compile(glsl(STRAY))
        others = [driver.buffer(np.full(4096, 3, np.uint32)) for _ in range(8)]
        x, y = driver.buffer(np.ones(64, np.uint32)), driver.buffer(np.ones(64, np.uint32))
        others += [driver.buffer(np.full(4096, 3, np.uint32)) for _ in range(8)]
        kernel.bind(x, y).run()
        assert [np.unique(one.read()).tolist() for one in others] == [[3]] * 16


def test_robust_access_that_cannot_be_given_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_ROBUST_ACCESS", "1")
    lack_features(monkeypatch)
    with pytest.raises(UnsupportedFeature) as refused:
        Driver()
    assert (
        refused.value.context,
        "VYRE_ROBUST_ACCESS is on, and robustBufferAccess is not available on" in str(refused.value),
    ) == (
        {"feature": "robustBufferAccess"},
        True,
    )
