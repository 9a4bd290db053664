"""Backends that are acquired by their ids are asked as those that are called."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vyre_driver.backends import BackendRegistration, register_backend
from vyre_driver.backends.reference.backend import ReferenceBackend
from vyre_driver.backends.registry import unregister_backend
from vyre_driver.cli import main
from vyre_driver.conformance.adapters import AcquiredBackend, open_backend
from vyre_driver.conformance.cases import hand_written
from vyre_driver.conformance.options import Options
from vyre_driver.conformance.suite import ask, random_cases
from vyre_driver.errors import DispatchFailed
from vyre_driver.ir import BufferDecl, DataType, Program, gid_x, load, store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


class Mine(ReferenceBackend):
    """A backend that somebody has made."""

    id = "mine"


class Wrong(Mine):
    """One that forgets what it computed."""

    id = "wrong"

    def dispatch(self, *given: object, **named: object) -> tuple[NDArray[Any], ...]:
        return tuple(np.zeros_like(one) for one in super().dispatch(*given, **named))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    for kind in (Mine, Wrong):
        register_backend(BackendRegistration(kind.id, lambda _, kind=kind: kind(), dispatches=True))  # type: ignore[misc]
    yield
    for kind in (Mine, Wrong):
        unregister_backend(kind.id)


def test_one_that_is_right_agrees_in_every_case_with_subgroups_too() -> None:
    options = Options(subgroups=True)
    with ExitStack() as stack:
        mine = open_backend("mine", stack)
        reports = [ask(mine, islice(hand_written(options), 0, None, 4)), ask(mine, random_cases(0, 20, options))]
    assert [(one.failures, one.unsupported, one.asked - one.agreed) for one in reports] == [([], {}, 0)] * 2
    assert getattr(mine, "subgroup_lanes", 0) == 32


def test_it_is_closed_with_the_stack() -> None:
    with ExitStack() as stack:
        mine = open_backend("mine", stack)
    case = next(random_cases(0, 1))
    with pytest.raises(DispatchFailed, match="closed"):
        mine(case.program, case.inputs, grid=case.grid, element_counts=case.element_counts)


def test_an_output_that_run_time_sizes_comes_between_the_inputs_where_its_binding_is() -> None:
    u32 = DataType.U32
    a, out, b = BufferDecl.read("a", 0, u32), BufferDecl.output("out", 1, u32), BufferDecl.read("b", 2, u32)
    program = Program.wrapped([a, out, b], (4, 1, 1), [store(out, gid_x(), load(a, gid_x()) - load(b, gid_x()))])
    x, y = np.array([9, 8], np.uint32), np.array([1, 2, 3], np.uint32)
    found = AcquiredBackend(Mine())(program, [x, y], grid=(1, 1, 1), element_counts={"out": 2})
    assert [one.tolist() for one in found] == [[8, 6]]


def test_the_verb_asks_any_backend_by_its_id(capsys: pytest.CaptureFixture[str]) -> None:
    ask_it = ["--count", "2", "--no-cases"]
    statuses = [main(["conform", "--backend", name, *ask_it]) for name in ("mine", "wrong", "mime")]
    printed = capsys.readouterr()
    assert (statuses, "asked 2, agreed 2, failed 0" in printed.out, "asked 2, agreed 0, failed 2" in printed.out) == (
        [0, 1, 2],
        True,
        True,
    )
    assert "error 2014: no backend has the id 'mime'" in printed.err
    assert "near it: mine" in printed.err
