"""Run rows of the misuse matrix one after the other: misuse_row.py NAME...

Prints as a line of JSON for each the error's class and code (null where there was none), whether its message ends in a fix, and
whether the same driver computes right afterwards.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from misuse_table import MATRIX, MORE, Row
from misuses import PUSH, X, saxpy

from vyre_driver import Driver, VyreError


def try_row(row: Row) -> dict[str, object]:
    raised = None
    with Driver() as driver:
        try:
            row.misuse(driver)
        except VyreError as error:
            raised = error
        right = bool(np.array_equal(saxpy(driver, X, X, push_constants=PUSH), 3 * X))  # type: ignore[arg-type]
    told = None if raised is None else (type(raised).__name__, raised.code, str(raised).endswith(f". Fix: {raised.fix}."))
    return {"told": told, "right afterwards": right}


def main() -> None:
    rows = {row.name: row for row in (*MATRIX, *MORE)}
    for name in sys.argv[1:]:
        sys.stdout.write(json.dumps(try_row(rows[name])) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
