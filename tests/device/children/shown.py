"""Work with VYRE_TOP on until standard input ends, or until killed; with ``fork`` a child is forked, which ends as told.

Writes ``ready``, and at the end how many calls came out right, how many dispatches were counted, and how many signals came.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress

import numpy as np

from vyre_driver import Driver
from vyre_driver.errors import VyreError
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.telemetry.events import EventKind

X = np.arange(100, dtype=np.float32)


def main(what: str, how: str) -> None:
    signals: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: signals.append(number))
    driver = Driver()
    kernel = driver.compile(shipped_module("saxpy"))
    driver.buffer(np.zeros(1000, np.float32), "weights\x1b[31m")  # which goes at once
    held = driver.buffer(np.zeros(1000, np.float32), "weights\x1b[31m")
    if what == "fork":
        child = os.fork()
        if not child:
            os._exit(0) if how == "at once" else sys.exit(0)
        os.waitpid(child, 0)
    with suppress(VyreError):
        kernel(X)
    right = 0
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while not select.select([sys.stdin], [], [], 0)[0]:
        right += bool((kernel(X, X, alpha=2.0, count=100) == 3 * X).all())
    sys.stdout.write(f"{right} {driver.events.counts()[EventKind.DISPATCH]} {len(signals)}\n")
    held.close()
    driver.close()


if __name__ == "__main__":
    main(*[*sys.argv[1:], "", ""][:2])
