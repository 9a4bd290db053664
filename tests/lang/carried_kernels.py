"""Kernels that tests carry to other processes; run as a program it carries those of ``__main__``, and prints what came out."""

from __future__ import annotations

import math
import multiprocessing
import pickle
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.lang import Const, Index, InOut, function, i32, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.lang import Kernel

N = 3


@dataclass(frozen=True)
class Box:
    side: int

    def area(self) -> int:
        return self.side * self.side


BOX = Box(4)


def scaled(x: int) -> int:
    return x * N + math.floor(2.5)


@function
def marked(x: int) -> int:
    return scaled(x) + 1


@kernel(floats="exact")
def named(i: Index, x: InOut[i32], n: i32, *, times: Const[int] = 2) -> None:
    x[i] = marked(x[i]) + n * times + BOX.area()


def made(r: int, then: Callable[[int], int] = scaled) -> Kernel:
    """Return a kernel that is a closure, of a function that is one too."""

    def shifted(v: int) -> int:
        return v + r

    @kernel
    def inner(i: Index, x: InOut[i32]) -> None:
        x[i] = shifted(x[i]) * then(r)

    return inner


def found(carried: Kernel, *numbers: int) -> tuple[list[int], bytes]:
    """Return what a kernel makes of 0 to 3, and the digest of its program."""
    result: Any = carried(np.arange(4, dtype=np.int32), *numbers)
    return result.tolist(), carried.program().digest()


def _print_what_children_find(method: str) -> None:
    cases: list[tuple[Any, ...]] = [(made(5),), (made(6, lambda v: v * v),), (named, 4), (named.with_(times=9), 4)]
    with multiprocessing.get_context(method).Pool(1) as pool:
        for case in cases:
            there, digest = pool.apply(found, case)
            once = pickle.loads(pickle.dumps(case[0]))  # noqa: S301 -- our own
            again = pickle.loads(pickle.dumps(once))  # noqa: S301 -- the same
            print(there, digest == found(*case)[1] == found(again, *case[1:])[1], there == found(*case)[0])  # noqa: T201 -- a program's output


if __name__ == "__main__":
    _print_what_children_find(sys.argv[1])
