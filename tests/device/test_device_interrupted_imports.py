"""Ctrl-C while modules in C are imported, and imports in a subinterpreter: no process is left unable to open a driver."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import RunChild

pytestmark = pytest.mark.device

# kompute calls basicConfig while its types are being registered.
INTERRUPTS_KOMPUTE = """
import logging, signal, sys
real = logging.basicConfig
def basicConfig(**how):
    signal.raise_signal(signal.SIGINT)
    real(**how)
logging.basicConfig = basicConfig
"""
# numpy imports numpy.linalg when its module in C, which is loaded once a process, is initialised.
INTERRUPTS_NUMPY = """
import signal, sys
class Finder:
    asked = 0
    def find_spec(self, name, *_):
        if name == "numpy.linalg":
            Finder.asked += 1
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""
OPENS = "import vyre_driver\nvyre_driver.Driver(allow_software=True).close()"
TRANSLATES = "from vyre_driver.lang import kernel"


@pytest.mark.parametrize(
    ("preparation", "action"), [(INTERRUPTS_KOMPUTE, OPENS), (INTERRUPTS_NUMPY, OPENS), (INTERRUPTS_NUMPY, TRANSLATES)]
)
def test_an_interrupted_import_is_finished_before_the_interrupt_is_raised(
    preparation: str, action: str, run_python: RunChild
) -> None:
    program = f"""{preparation}
try:
    {textwrap.indent(action, "    ").strip()}
except KeyboardInterrupt:
    print("interrupted")
{action}
print("opened")
"""
    ended = run_python("-c", program)
    assert (ended.status, ended.stdout, ended.stderr) == (0, "interrupted\nopened\n", "")


def swept(run_python: RunChild, count: int, step_s: float) -> dict[float, tuple[int, str]]:
    """Return how processes ended that were interrupted at some moment of opening their first driver, if not well."""
    program = f"""
import signal, sys
import vyre_driver.driver
def interrupt(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
try:
    signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]))
    vyre_driver.Driver(allow_software=True)
except KeyboardInterrupt:
    pass
finally:
    signal.setitimer(signal.ITIMER_REAL, 0)
{OPENS}
"""
    ended = {at: run_python("-c", program, str(at)) for at in (step_s * number for number in range(1, count + 1))}
    return {at: (child.status, child.stderr) for at, child in ended.items() if child.status}


@pytest.mark.parametrize(("count", "step_s"), [(4, 0.008), pytest.param(240, 0.00025, marks=pytest.mark.thorough)])
def test_a_process_interrupted_while_it_opens_its_first_driver_opens_the_next(
    count: int, step_s: float, run_python: RunChild
) -> None:
    assert swept(run_python, count, step_s) == {}


def test_a_driver_in_a_subinterpreter_is_refused(run_python: RunChild) -> None:
    inner = """
import sys, warnings
warnings.simplefilter("ignore")
sys.path[:] = {path!r}
from vyre_driver import Driver
try:
    Driver(allow_software=True)
except Exception as error:
    print(type(error).__name__, error, flush=True)
"""
    program = f"""
import sys
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
    number = interpreters.create("legacy")
else:
    import _xxsubinterpreters as interpreters
    number = interpreters.create(isolated=False)
inner = {inner!r}.format(path=sys.path)
print(interpreters.run_string(number, inner))
"""
    ended = run_python("-c", program)
    assert ended.stdout == (
        "UnsupportedFeature kompute works in Python's main interpreter alone, and this is a subinterpreter. "
        "Fix: open the driver in the main interpreter; under mod_wsgi, set WSGIApplicationGroup %{GLOBAL}.\nNone\n"
    )
