"""The process that tries candidates for another one, asked and answering in JSON lines.

The first line on stdin is the job (``isolation``), each further one asks for a step of one trial. The answer is
``value``, or ``error`` (pickled, in base64) with ``said``, the same for people; ``is_over`` says that the device is out of
order.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
from typing import TYPE_CHECKING, Any

from vyre_driver.autotune.measure.isolation import read_pickle, write_pickle
from vyre_driver.autotune.measure.trials import DeviceTrial, Workbench
from vyre_driver.autotune.search.outcomes import Abandoned
from vyre_driver.autotune.search.space import Candidate
from vyre_driver.autotune.store.store import AutotuneStore
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.driver import Driver
from vyre_driver.process.child import take_over_stdout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def main(questions: Iterable[str], tell: Callable[[object], None]) -> None:
    """Answer until there are no more questions."""
    tried: _Tried | None = None

    def start(job: Mapping[str, Any]) -> None:
        nonlocal tried
        tried = _Tried(job)

    for line in questions:
        tell(_answered(start if tried is None else tried.do, json.loads(line)))


class _Tried:
    """A workbench and the trials on it, by their numbers."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        """Open the device and upload the inputs."""
        sys.path[:] = job["path"]
        self._outputs: int = job["outputs"]
        definition, parameters, arrays, cache = read_pickle(job["kernel"])
        how = {"allow_software": True, "strict": job["strict"]}
        driver = Driver(job["device"], DiskPipelineCache(**cache), AutotuneStore(), **how)
        if job["must_be_warm"]:
            driver.assert_warm()
        self._bench = Workbench(driver, definition, arrays, parameters, run_timeout=job["run_timeout"])
        self._trials: dict[int, DeviceTrial] = {}

    def do(self, message: Mapping[str, Any]) -> object:
        """Do one step of a trial; returns the nanoseconds of a sample, or the statistics of the code."""
        number, what = message["trial"], message["do"]
        if what in {"make", "make again"}:
            said = message["candidate"]
            candidate = Candidate(tuple(said["workgroup_size"]), tuple((name, value) for name, value in said["constants"]))
            trial = self._trials[number] = self._bench.make(candidate)
            if what == "make again":
                trial.outputs()  # as the first time; and a warm-up
            return trial.executables
        trial = self._trials[number]
        if what == "sample":
            return trial.sample()
        if what == "keep busy":
            return trial.keep_busy(message["busy_s"])
        if what == "outputs":
            write_pickle(self._outputs, trial.outputs())
        else:
            del self._trials[number]
            trial.close()
        return None


def _answered(step: Callable[[Mapping[str, Any]], object], message: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"value": step(message)}
    except Exception as error:  # noqa: BLE001 -- sent to the caller
        reported: BaseException = error
        is_over = isinstance(error, Abandoned)
        if error.__cause__ is not None and is_over:
            reported = error.__cause__
        said = f"{type(reported).__name__}: {reported}"
        try:
            whole = pickle.dumps(reported)
        except Exception:  # noqa: BLE001 -- any that an error's own parts raise
            whole = pickle.dumps(RuntimeError(said))
        return {"error": base64.b64encode(whole).decode(), "said": said, "is_over": is_over}


if __name__ == "__main__":
    main(sys.stdin, take_over_stdout())
    os._exit(0)  # without waiting for a device that may hang
