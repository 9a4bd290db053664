"""Backends in the form that the suite asks: one function for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.backends.reference import run as run_reference
from vyre_driver.backends.reference.dispatch import interpret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.conformance.case import RunProgram
    from vyre_driver.driver import Driver
    from vyre_driver.ir.program import Program

__all__ = ["driver_backend", "one_by_one", "run_reference"]


def one_by_one(
    program: Program,
    inputs: Sequence[NDArray[Any]],
    *,
    grid: tuple[int, int, int],
    element_counts: Mapping[str, int],
) -> Sequence[NDArray[Any]]:
    """Run a program on the reference with every invocation alone: what it gives in lockstep has to be the same."""
    return interpret(program, inputs, grid=grid, element_counts=element_counts, lockstep=0).outputs


def driver_backend(driver: Driver) -> RunProgram:
    """Return a driver as a backend; each program is compiled by ``Driver.compile`` and called once."""

    def run(
        program: Program,
        inputs: Sequence[NDArray[Any]],
        *,
        grid: tuple[int, int, int],
        element_counts: Mapping[str, int],
    ) -> Sequence[NDArray[Any]]:
        kernel = driver.compile(program)
        made = kernel(*inputs, groups=grid, out_counts=dict(element_counts))
        return (made,) if isinstance(made, np.ndarray) else tuple(made)

    return run
