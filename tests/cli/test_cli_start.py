"""What starts light imports little: neither numpy nor what draws tables, which take longer than all else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vyre_driver import __version__

if TYPE_CHECKING:
    from conftest import RunChild

HEAVY = ("numpy", "rich", "kp", "vyre_driver.driver", "vyre_driver.ir", "vyre_driver.spirv")
TELL = f"print([one for one in {HEAVY!r} if one in sys.modules])"
STARTS = {
    "the package": f"import sys, vyre_driver; {TELL}",
    "errors": f"import sys; from vyre_driver import errors, VyreError; {TELL}",
    "keys": f"import sys; from vyre_driver import identity; {TELL}",
    "a cache": f"import sys; from vyre_driver.cache import DiskPipelineCache; {TELL}",
    "cache dir": f"import sys; from vyre_driver.cli import main; main(['cache', 'dir', '--json']); {TELL}",
}


@pytest.mark.parametrize("what", STARTS)
def test_what_starts_light_imports_neither_numpy_nor_the_driver(what: str, run_python: RunChild) -> None:
    assert run_python("-c", STARTS[what]).stdout.splitlines()[-1] == "[]"


def test_the_version_is_that_of_the_package(run_cli: RunChild) -> None:
    done = run_cli("--version")
    assert (done.status, done.stdout, done.stderr) == (0, f"vyre-driver {__version__}\n", "")


def test_help_names_every_verb(run_cli: RunChild) -> None:
    told = run_cli("--help").stdout
    assert [
        verb
        for verb in ("doctor", "devices", "run", "spirv", "stub", "demo", "cache", "tune", "conform", "metrics")
        if verb not in told
    ] == []
