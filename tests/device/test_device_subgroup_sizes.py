"""Subgroups of a required size: asked for by a configuration, in the key, kept by the tuner, refused where they do not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import glsl
from lacking_devices import lack_features
from subgroups import SIZES
from tuned_code import FEW, X, floats, key, saxpy

from vyre_driver import Driver, ProgramConfig
from vyre_driver.autotune import Axis, Candidate, Status, TuningSpace
from vyre_driver.autotune.target import module_target, program_target
from vyre_driver.backends.kompute import KomputeBackend
from vyre_driver.errors import InvalidDispatchConfig, LimitExceeded, UnsupportedFeature
from vyre_driver.lowering.program import prepare_for
from vyre_driver.target.config import DispatchConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver import Kernel

pytestmark = pytest.mark.device


@pytest.fixture
def sized() -> Iterator[tuple[Driver, int, DispatchConfig]]:
    """A driver under the layer, the size of its device's subgroups, and the configuration that asks for it."""
    with Driver() as opened:
        if "subgroupSizeControl" not in opened.context.device.features:
            pytest.skip("no subgroupSizeControl")
        size = opened.device.subgroup_size
        yield opened, size, DispatchConfig(subgroup_size=size)


def seen(kernel: Kernel) -> list[list[int]]:
    found: list[list[int]] = kernel(workgroups=2, out_shapes={"a": 2}).tolist()
    return found


def test_a_module_runs_with_full_subgroups_of_the_size_and_has_an_entry_of_its_own(
    sized: tuple[Driver, int, DispatchConfig],
) -> None:
    driver, size, config = sized
    module, constants = glsl(SIZES), {"GROUP": 2 * size}
    asked, left = driver.compile(module, constants, config), driver.compile(module, constants)
    assert (seen(asked), seen(left)) == ([[size, 2]] * 2, [[size, 2]] * 2)
    # Equal in all but the size: the layer must not hand the one's pipeline to the other.
    assert [one.trace.pipeline.shared for one in (asked, left) if one.trace.pipeline is not None] == [False, False]
    assert key(asked) != key(left)
    assert (key(driver.compile(module, constants, config)), seen(driver.compile(module, constants, config))) == (
        key(asked),
        [[size, 2]] * 2,
    )


def test_a_program_runs_with_the_size_also_where_floats_are_the_devices_own(sized: tuple[Driver, int, DispatchConfig]) -> None:
    driver, size, config = sized
    x, y = floats(1000, 1), floats(1000, 2)
    kernels = [driver.compile(saxpy(), None, one) for one in (None, config, ProgramConfig(floats="fast", subgroup_size=size))]
    for one in kernels:
        np.testing.assert_allclose(one(x, y), np.float32(2.5) * x + y, rtol=1e-6)
    assert len({key(one) for one in kernels}) == 3


def test_without_the_features_a_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lack_features(monkeypatch)
    with Driver() as driver, pytest.raises(UnsupportedFeature, match="subgroupSizeControl") as refused:
        driver.compile(saxpy(), None, DispatchConfig(subgroup_size=driver.device.subgroup_size))
    assert refused.value.context["feature"] == "subgroupSizeControl"


def test_sizes_and_workgroups_that_do_not_fit_are_refused_before_anything_runs(
    sized: tuple[Driver, int, DispatchConfig],
) -> None:
    driver, size, config = sized
    offered = driver.device.subgroup_size_control
    assert offered is not None
    module = glsl(SIZES)
    with pytest.raises(LimitExceeded, match=f"asks for subgroups of {2 * offered.max_size} invocations"):
        driver.compile(module, None, DispatchConfig(subgroup_size=2 * offered.max_size))
    with pytest.raises(InvalidDispatchConfig, match=f"fill no whole subgroups of {size}"):
        driver.compile(module, {"GROUP": size + 1}, config)
    with pytest.raises(InvalidDispatchConfig, match=f"a workgroup of the program has {size // 2} invocations along x"):
        driver.compile(saxpy(), None, DispatchConfig(workgroup_override=(size // 2, 1, 1), subgroup_size=size))


def test_the_backend_keeps_a_size_of_modules_and_of_programs(sized: tuple[Driver, int, DispatchConfig]) -> None:
    driver, size, config = sized
    backend = KomputeBackend(driver)
    module, program = glsl(SIZES), saxpy()
    loaded = [backend.load(module, config=config), backend.load(program, config=config)]
    assert [one.id for one in loaded] == [key(driver.compile(module, None, config)), key(driver.compile(program, None, config))]
    overridden = DispatchConfig(workgroup_override=(4 * size, 1, 1), subgroup_size=size)
    expected = driver.compile(module, {"GROUP": 4 * size}, config)
    assert backend.load(module, config=overridden).id == key(expected)


@pytest.mark.usefixtures("records_in_memory")
def test_what_was_tuned_for_a_size_counts_for_that_size_alone(driver: Driver) -> None:
    if "subgroupSizeControl" not in driver.context.device.features:
        pytest.skip("no subgroupSizeControl")
    size = driver.device.subgroup_size
    config = DispatchConfig(subgroup_size=size)
    module, program = glsl(SIZES), saxpy()
    space = TuningSpace((Axis("GROUP", (size, 2 * size, size + 1), workgroup="x"),))
    # Half a subgroup is right where none is asked for, and would be refused where one is.
    odd = Candidate((size // 2, 1, 1))
    prepared = prepare_for(driver.context.device, program, None, None)
    left = program_target(prepared, None, driver.device)
    assert left.identity() != program_target(prepared, config, driver.device).identity()
    driver.tuning.keep(left, left.record(odd, 9, 100))
    assert key(driver.compile(program, None, config)) != key(driver.compile(program))
    result = driver.tune(module, space=space, config=config, workgroups=(2, 1, 1), out_shapes={"a": 2}, budget=FEW, tolerance=9)
    statuses = {one.candidate["GROUP"]: one.status for one in result.outcomes}
    assert statuses[size + 1] is Status.FAILED
    targets = [module_target(module, None, space, driver.device, one) for one in (size, None)]
    assert (targets[0].known(driver.tuning), targets[1].known(driver.tuning)) == (result.best.candidate, None)
    assert driver.compile(module, None, config, space=space).constants == dict(result.best.candidate.constants)


@pytest.mark.usefixtures("records_in_memory")
def test_a_configuration_that_a_module_cannot_keep_is_refused_by_the_tuner(driver: Driver) -> None:
    space = TuningSpace((Axis("GROUP", (64, 128), workgroup="x"),))
    with pytest.raises(UnsupportedFeature, match="asks for label = 'x', which compile does not keep for a module"):
        driver.tune(glsl(SIZES), X, space=space, config=DispatchConfig(label="x"))
