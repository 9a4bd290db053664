"""Drivers and shaders for the device tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from kernels import glsl
from witnessed import witness_below

from vyre_driver import Driver, Kernel
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Iterator


class CompileText(Protocol):
    """Compile GLSL text for the ``driver``, behind a head that sets 64 invocations a workgroup unless it has its own."""

    def __call__(self, text: str, specs: dict[str, object] | None = None) -> Kernel: ...


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave those that run a second time without the layer, and cost much, to ``make check-all``."""
    for item in items:
        call = getattr(item, "callspec", None)
        if item.get_closest_marker("dear_twins") is not None and call is not None and call.params.get("layer") == "0":
            item.add_marker(pytest.mark.thorough)


@pytest.fixture(params=["1", "0"], ids=["layer", "no layer"])
def layer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test under the vyre Vulkan layer, and again without it: everything works then, only slower."""
    monkeypatch.setenv("VYRE_LAYER", request.param)
    return str(request.param)


@pytest.fixture
def driver(layer: str) -> Iterator[Driver]:
    """A driver on the best device, with a cache of this test's own."""
    assert layer == os.environ["VYRE_LAYER"]
    with Driver() as opened:
        yield opened


@pytest.fixture
def compiled(driver: Driver) -> CompileText:
    """Kernels of GLSL text on the ``driver``."""
    return lambda text, specs=None: driver.compile(glsl(text), specs)


@pytest.fixture
def saxpy(driver: Driver) -> Kernel:
    """The shipped saxpy kernel on the ``driver``."""
    return driver.compile(shipped_module("saxpy"))


@pytest.fixture
def children() -> Path:
    """The folder of the scripts that run in child processes."""
    return Path(__file__).parent / "children"


@pytest.fixture
def witness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the layer below writes down what pipeline caches are made of."""
    return witness_below(tmp_path / "witness", monkeypatch)
