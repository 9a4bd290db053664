"""On a free-threaded Python the package takes the GIL back, and is refused where it may not."""

from __future__ import annotations

import sys
import sysconfig
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import RunChild

REFUSED = (
    "vyre_driver.errors.InstallationUnusable: vyre_driver and kompute need the GIL, and PYTHON_GIL=0 or -X gil=0 keeps it off. "
    "Fix: leave both out, or set PYTHON_GIL=1."
)
free_threaded = pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python is not free-threaded")


def test_a_python_that_stays_without_the_gil_is_refused(run_python: RunChild) -> None:
    done = run_python("-c", "import sys; sys._is_gil_enabled = lambda: False; import vyre_driver")
    assert (done.status, done.stderr.splitlines()[-1]) == (1, REFUSED)


@free_threaded
@pytest.mark.parametrize(("options", "env"), [(("-X", "gil=0"), {}), ((), {"PYTHON_GIL": "0"})])
@pytest.mark.parametrize("imported", ["vyre_driver", "vyre_driver.identity", "vyre_driver.telemetry._counters"])
def test_the_gil_cannot_be_kept_off(run_python: RunChild, options: tuple[str, ...], env: dict[str, str], imported: str) -> None:
    done = run_python(*options, "-c", f"import {imported}", env=env)
    assert (done.status, done.stderr.splitlines()[-1]) == (1, REFUSED)


@free_threaded
def test_importing_the_package_takes_the_gil_back_and_python_says_so(run_python: RunChild) -> None:
    told = run_python(
        "-c",
        "import sys; print(sys._is_gil_enabled()); import vyre_driver; print(sys._is_gil_enabled())",
        env={"PYTHON_GIL": None},
    )
    assert (told.status, told.stdout) == (0, "False\nTrue\n")
    assert (
        "RuntimeWarning: The global interpreter lock (GIL) has been enabled to load module 'vyre_driver._fast'" in told.stderr
    )


@free_threaded
def test_who_asks_for_the_gil_is_not_warned(run_python: RunChild) -> None:
    done = run_python("-W", "error", "-c", "import vyre_driver, numpy; vyre_driver.Driver", env={"PYTHON_GIL": "1"})
    assert (done.status, done.stderr) == (0, "")


def test_what_is_known_of_the_gil_is_known_by_this_name() -> None:
    assert hasattr(sys, "_is_gil_enabled") == (sys.version_info >= (3, 13))
