"""The driver's statistics of compiled code: asked for by a setting, under its own names, and at no cost where nobody asks.

Below ours stands a layer of the tests, telling.c, as a driver that tells; it ends the process on a breach of Vulkan's rules.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from made_layers import build_layer
from tuned_code import FEW

from vyre_driver import Driver
from vyre_driver.autotune import AutotuneStore
from vyre_driver.autotune.measure.tune import tune
from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.cache.flight import SingleFlight
from vyre_driver.kernels import KERNELS
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan.layer._layer import PipelineExecutable, PipelineStatistic

if TYPE_CHECKING:
    from conftest import RunChild

    from vyre_driver.runtime.trace import Trace

pytestmark = pytest.mark.device
FEATURE = "pipelineExecutableInfo"
X = np.arange(100, dtype=np.float32)
TOLD = PipelineExecutable(
    "Compute Shader",
    "The shader \u00e0 la carte",
    32,
    (
        PipelineStatistic("Register Count", 2**64 - 1, "Number of registers allocated"),
        PipelineStatistic("Stack Size", -16, ""),
        PipelineStatistic("Occupancy", 0.75, "Part of all warps"),
        PipelineStatistic("Spills", True, "Whether it spills"),
        PipelineStatistic("From the Future", None, ""),
        PipelineStatistic("x" * 256, 0, "\ufffd" * 256),
    ),
)


@pytest.fixture
def _telling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the layer below ours."""
    source = Path(__file__).with_name("children") / "telling.c"
    try:
        name = build_layer(source, tmp_path / "telling", ("VK_KHR_pipeline_executable_properties",))
    except FileNotFoundError as error:
        pytest.skip(f"not installed: {error}")
    for variable, first in (("VK_LAYER_PATH", str(tmp_path / "telling")), ("VK_INSTANCE_LAYERS", name)):
        monkeypatch.setenv(variable, os.pathsep.join([first, *filter(None, [os.environ.get(variable)])]))


@pytest.fixture
def _asked(_telling: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for statistics too."""
    monkeypatch.setenv("VYRE_PIPELINE_STATISTICS", "1")


def used(driver: Driver) -> Trace:
    kernel = driver.compile(shipped_module("saxpy"))
    assert kernel.trace.executables == ()
    np.testing.assert_array_equal(kernel(X, X, push_constants={"alpha": 2, "count": 100}), 3 * X)
    return kernel.trace


@pytest.mark.usefixtures("_asked")
def test_what_the_driver_tells_comes_through_unchanged() -> None:
    with Driver() as driver:
        assert FEATURE in driver.context.device.features
        trace = used(driver)
        assert trace.executables == (TOLD,)
        kernel = driver.compile(shipped_module("saxpy"))
        kernel.bind(driver.buffer(X), driver.buffer(X), push_constants={"alpha": 2, "count": 100}).run()
        assert (kernel.trace.key, kernel.trace.executables) == (trace.key, (TOLD,))
    shown = trace._repr_html_()
    assert all(text in shown for text in ("Register Count", str(2**64 - 1), "subgroup size", "32"))


@pytest.mark.usefixtures("_telling")
def test_without_the_setting_nothing_is_captured_and_the_entry_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = []
    for switch in ("0", "1", "0", "1"):
        monkeypatch.setenv("VYRE_PIPELINE_STATISTICS", switch)
        with Driver() as driver:
            assert (FEATURE in driver.context.device.features) == (switch == "1")
            traces.append(used(driver))
    assert [one.executables for one in traces] == [(), (TOLD,)] * 2
    assert [one.verdict.value for one in traces] == ["no entry", "no entry", "hit", "hit"]
    assert [one.key for one in traces[:2]] == [one.key for one in traces[2:]]
    assert traces[0].key != traces[1].key


@pytest.mark.usefixtures("_asked")
@pytest.mark.parametrize(
    ("variable", "value", "is_on"),
    [
        ("TELLING_LACKS", "1", False),
        ("TELLING_FAILS", "1", True),
    ],
)
def test_where_the_driver_tells_nothing_there_is_nothing(
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    is_on: bool,  # noqa: FBT001 -- of the table
) -> None:
    monkeypatch.setenv(variable, value)
    with Driver() as driver:
        assert (FEATURE in driver.context.device.features, used(driver).executables) == (is_on, ())


@pytest.mark.usefixtures("_asked")
def test_a_driver_that_knows_more_the_second_time_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELLING_MANY", "1")
    with Driver() as driver:
        assert used(driver).executables == (TOLD, PipelineExecutable("Second", "", 0, ()))


@pytest.mark.usefixtures("_asked")
def test_how_long_capturing_takes_is_told_to_no_other_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    learnt: list[bool] = []
    monkeypatch.setattr(SingleFlight, "learn", lambda _flights, _code, _ns, *, has_blob: learnt.append(has_blob))
    for switch, count in (("1", 0), ("0", 1)):
        monkeypatch.setenv("VYRE_PIPELINE_STATISTICS", switch)
        with Driver() as driver:
            used(driver)
        assert len(learnt) == count


@pytest.mark.usefixtures("_asked", "records_in_memory")
@pytest.mark.thorough
@pytest.mark.parametrize("isolate", [False, True])
def test_a_tuning_tells_of_the_code_of_each_candidate_that_was_made(isolate: bool) -> None:  # noqa: FBT001 -- the question
    with Driver(autotune=AutotuneStore()) as driver:
        result = tune(TunedKernel(driver, KERNELS["saxpy"]), (1000,), budget=FEW, isolate=isolate)
    made = {one.candidate for one in result.outcomes if one.samples}
    assert (made > set(), made <= set(result.executables)) == (True, True)
    assert set(result.executables.values()) == {(TOLD,)}


@pytest.mark.usefixtures("_telling")
def test_the_command_line_tells_it_of_the_best_and_as_json_of_all(run_cli: RunChild, tmp_path: Path) -> None:
    command = ("tune", "run", "saxpy", "--size", "1000", "--seconds", "0.3", "--allow-software", "--force")
    command += ("--file", str(tmp_path / "tuned.toml"))
    line = "Register Count 18446744073709551615, Stack Size -16, Occupancy 0.75, Spills True, From the Future None, "
    told = {"Register Count": 2**64 - 1, "Stack Size": -16, "Occupancy": 0.75, "Spills": True, "From the Future": None}
    texts = [run_cli(*command, env={"VYRE_PIPELINE_STATISTICS": switch}).stdout for switch in "10"]
    assert [line in text for text in texts] == [True, False]
    (tuned,) = json.loads(run_cli(*command, "--json", env={"VYRE_PIPELINE_STATISTICS": "1"}).stdout)["tuned"]
    assert tuned["statistics"][tuned["choice"]] == told | {"x" * 256: 0, "subgroup size": 32}
