"""Child processes that run a module of this package: the command that starts one, and how to wait for what it says.

``python -m`` puts the working directory first among the places that modules are imported from. Whoever may write there, which
in /tmp is everybody, would have their ``json.py`` run by the child. A child of ours imports from where this process does.
"""

from __future__ import annotations

import selectors
import shlex
import sys
from pathlib import Path

_PACKAGES = Path(__file__).resolve().parents[2]
# ``-c`` puts the working directory first as well, but nothing is imported from it before this: sys is built in.
_START = "import sys; sys.path[:] = {}; import runpy; runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command of a Python process that runs a module of this package, as ``python -m`` would.

    Its ``sys.path`` is that of this process without relative places, which depend on the working directory; the package
    itself is found where this process found it.
    """
    path = [one for one in sys.path if isinstance(one, str) and Path(one).is_absolute()]
    if str(_PACKAGES) not in path:
        path.append(str(_PACKAGES))
    return [sys.executable, *_interpreter_options(), "-c", _START.format(ascii(path)), module, *arguments]


def command_to_try(module: str, *arguments: str) -> str:
    """Return a line for a shell that does the same, in a directory that nobody else may write to."""
    return f"(cd / && {shlex.join([sys.executable, '-m', module, *arguments])})"


def wait_readable(descriptor: int, seconds: float) -> bool:
    """Wait until a descriptor, whatever its number, has something to read or is at its end; returns False after ``seconds``."""
    with selectors.PollSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(max(0.0, seconds)))


def _interpreter_options() -> list[str]:
    """Return the options of this interpreter that keep the environment or the user's own packages out of it."""
    if sys.flags.isolated:
        return ["-I"]
    return ["-E"] * sys.flags.ignore_environment + ["-s"] * sys.flags.no_user_site
