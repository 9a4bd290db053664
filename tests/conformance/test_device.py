"""The device answers as the reference does, with all its features and with none."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pytest
from lacking_devices import lack_features

from vyre_driver import Driver, ProgramConfig
from vyre_driver.binding import BindingPlan
from vyre_driver.conformance.adapters import open_backend
from vyre_driver.conformance.case import EXACT
from vyre_driver.conformance.cases import hand_written
from vyre_driver.conformance.options import Options
from vyre_driver.conformance.suite import Report, answer, ask, random_cases
from vyre_driver.errors import VyreError
from vyre_driver.ir import BufferDecl, Program, load, store, u32
from vyre_driver.ir.arithmetic import Binary
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Cast, Fma
from vyre_driver.ir.extensions import application
from vyre_driver.ir.nodes import ProgramCapability
from vyre_driver.ir.operators import OpaqueOp
from vyre_driver.ir.terms import terms_within
from vyre_driver.lowering.emit.entry import emit
from vyre_driver.lowering.program import target_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.conformance.case import Case, RunProgram
    from vyre_driver.lowering.emit.target import LoweringTarget
    from vyre_driver.vulkan import PhysicalDevice

NVIDIA = 4  # VK_DRIVER_ID_NVIDIA_PROPRIETARY, whose fma rounds once
pytestmark = pytest.mark.device


@pytest.fixture
def kompute() -> Iterator[RunProgram]:
    with ExitStack() as stack:
        yield open_backend("kompute", stack, allow_software=True)


# Beginnings of the names of hand-written cases that the emitter refuses, with the reason.
REFUSED = {
    "copies in and out": "AsyncLoad has no lowering",
    "bytes as a word": "elements of a type that has no lowering",
    "a trap that nobody reaches": "the device has no traps",
    "barrier GRID_SYNC": "a barrier of the whole grid",
}
# Beginnings of the names of those that a driver answers otherwise which takes subnormals for zeros unasked, in f64 too.
OF_SUBNORMALS = ("halves as ", "add<f64> ", "sub<f64> ", "mul<f64> ", "div<f64> ")
NOT_FUSED = {"fma<f64> of f64 and f64 and f64": "an fma of f64 that rounds once"}


@pytest.fixture
def of_subnormals() -> tuple[str, ...]:
    """Return OF_SUBNORMALS where the driver takes them for zeros in code that does not ask, as Mesa 26's llvmpipe does."""
    x = BufferDecl.read_write("x", 0, DataType.F32)
    doubled = Program.wrapped([x], (1, 1, 1), [store(x, u32(0), load(x, u32(0)) + load(x, u32(0)))])
    with Driver() as driver:
        kernel = driver.compile(doubled, config=ProgramConfig(floats="device"))
        return () if kernel(np.full(1, 1e-40, np.float32), workgroups=(1,))[0] else OF_SUBNORMALS


def computes_with_f64(case: Case) -> bool:
    """Whether a case has what a device without 64-bit floats refuses."""
    terms = list(terms_within(*case.program.entry))
    found = [application(term) for term in terms if isinstance(term, Cast)]
    operators = any(one is not None and one.operator.needs_f64 for one in found)
    plain = [term for term in terms if isinstance(term, Binary) and not isinstance(term.op, OpaqueOp)]
    return operators or any(term.left.dtype == DataType.F64 for term in plain)


def fuses(case: Case) -> bool:
    """Whether a case has an fma of f32, which takes 64-bit floats where the device's own rounds twice."""
    return any(isinstance(term, Fma) for term in terms_within(*case.program.entry))


def told(report: Report) -> str:
    return "\n".join(one.text for one in report.failures)


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.thorough) for first in range(1, 8))])
def test_the_hand_written_cases_agree_and_what_is_refused_is_known(
    kompute: RunProgram, physical_device: PhysicalDevice, of_subnormals: tuple[str, ...], first: int
) -> None:
    answers = [answer(kompute, case) for case in islice(hand_written(Options()), first, None, 8)]
    failed = [one.failure.text for one in answers if one.failure is not None]
    failed = [text for text in failed if not text.startswith(of_subnormals)]
    refused = {one.name: one.refusal for one in answers if one.refusal is not None}
    every = REFUSED if physical_device.driver_id == NVIDIA else REFUSED | NOT_FUSED
    known = {name: reason for name, reason in every.items() if any(one.name == name for one in answers)}
    assert failed == []
    assert set(refused) == set(known)
    assert [name for name, reason in known.items() if reason not in str(refused[name])] == []


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(25, 300, 25))])
def test_random_programs_agree_bit_for_bit_but_for_quotients_and_functions(kompute: RunProgram, seed: int) -> None:
    report = ask(kompute, (replace(case, tolerance=EXACT) for case in random_cases(seed, 25)))
    assert (report.agreed, report.failures) == (25, []), told(report)


@pytest.fixture
def features() -> frozenset[str]:
    """What the device has; asked for before :func:`bare`, which leaves that out."""
    with Driver() as driver:
        return driver.context.device.features


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunProgram]:
    """A device without features.

    There are 64-bit integers as pairs of words, and elements of 8 and 16 bits in words that others write to.
    """
    lack_features(monkeypatch)
    with ExitStack() as stack:
        yield open_backend("kompute", stack, allow_software=True)


def lowered(case: Case, target: LoweringTarget) -> bytes | str:
    """Return what a case's program is for a target, or the name of the error that refuses it."""
    try:
        return emit(case.program, BindingPlan.build(case.program), (), target).code
    except VyreError as error:
        return type(error).__name__


@pytest.mark.parametrize("first", [0, *(pytest.param(one, marks=pytest.mark.thorough) for one in range(1, 6))])
def test_the_hand_written_cases_whose_code_takes_features_agree_on_a_device_without_them(
    features: frozenset[str], bare: RunProgram, physical_device: PhysicalDevice, first: int
) -> None:
    with_all, with_none = (target_for(physical_device, one, None) for one in (features, frozenset[str]()))
    cases = [case for case in hand_written(Options()) if lowered(case, with_all) != lowered(case, with_none)]
    assert len(cases) > 150
    report = ask(bare, cases[first::6])
    assert report.failures == [], told(report)
    refused = [case for case in cases[first::6] if isinstance(lowered(case, with_none), str)]
    rounds_twice = physical_device.driver_id != NVIDIA
    assert report.unsupported.total() == len(refused) > (5 if rounds_twice else 4)  # an fma is among them, or is not
    assert [case.name for case in refused if not computes_with_f64(case) and not (rounds_twice and fuses(case))] == []


@pytest.mark.parametrize(("seed", "count"), [(300, 10), pytest.param(310, 50, marks=pytest.mark.thorough)])
def test_random_programs_agree_on_a_device_without_features(bare: RunProgram, seed: int, count: int) -> None:
    report = ask(bare, random_cases(seed, count, Options(fma=False)))
    assert (report.failures, report.agreed) == ([], count), told(report)


@pytest.mark.parametrize("count", [15, pytest.param(40, marks=pytest.mark.thorough)])
def test_subgroups_agree_in_the_size_that_the_device_has(kompute: RunProgram, count: int) -> None:
    options = Options(subgroups=True, subgroup_lanes=getattr(kompute, "subgroup_lanes", 0))
    cases = [case for case in hand_written(options) if case.program.stats().capabilities & ProgramCapability.SUBGROUP]
    by_hand, random = ask(kompute, cases), ask(kompute, random_cases(0, count, options))
    assert (by_hand.failures, random.failures) == ([], []), told(by_hand) + told(random)
    assert (by_hand.agreed, random.agreed) == (30, count)
