"""Run one row of the misuse matrix: misuse_row.py NAME.

Prints as JSON the error's class and code (null where there was none), whether its message ends in a fix, and whether the same
driver computes right afterwards.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from misuse_table import MATRIX, MORE
from misuses import PUSH, X, saxpy

from vyre_driver import Driver, VyreError


def main() -> None:
    row = {row.name: row for row in (*MATRIX, *MORE)}[sys.argv[1]]
    raised = None
    with Driver() as driver:
        try:
            row.misuse(driver)
        except VyreError as error:
            raised = error
        right = bool(np.array_equal(saxpy(driver, X, X, push_constants=PUSH), 3 * X))  # type: ignore[arg-type]
    told = None if raised is None else (type(raised).__name__, raised.code, str(raised).endswith(f". Fix: {raised.fix}."))
    json.dump({"told": told, "right afterwards": right}, sys.stdout)


if __name__ == "__main__":
    main()
