"""Child processes: started, asked, waited for until a deadline, killed with what they started, and how they ended, in words.

``python -m`` puts the working directory first among the places that modules are imported from. A user who may write there (in
/tmp, everybody) could have a ``json.py`` run by the child. A child of ours imports from where this process does.
"""

from __future__ import annotations

import functools
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from vyre_driver import settings
from vyre_driver.errors import InstallationUnusable

if TYPE_CHECKING:
    from collections.abc import Sequence

_PACKAGES = Path(__file__).resolve().parents[2]
# ``-c`` puts the working directory first as well, but nothing is imported from it before this: sys is built in.
_START = "import sys; sys.path[:] = {}; import runpy; runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
_PIPE = subprocess.PIPE
Ended = subprocess.CompletedProcess[bytes]
_CHUNK_BYTES = 1 << 16
_STDERR_BYTES = 1 << 20
_SHOWN_CHARACTERS = 300
_ABOUT = "import sys; print(sys.implementation.cache_tag + sys.abiflags)"
_ABOUT_S = 20.0
_ASKED = "_VYRE_DRIVER_ASKS"  # set in the environment of what may be a Python, or a program that would start itself again
_LEAVING_S = 10.0  # for a process that has closed its output, or given its last answer


class ChildTimeout(Exception):
    """A child did not answer, or not end, in time."""


class ChildDied(Exception):
    """A child ended without an answer; ``how``: the signal's name, ``status N``, or what it did instead of ending.

    ``signal`` is the signal's number, 0 for none.
    """

    def __init__(self, status: int | None, stderr: bytes, how: str = "its pipes closed") -> None:
        """Keep the status as ``subprocess`` has it, None if it has not ended, and what it printed to standard error."""
        self.status, self.stderr, self.signal = status, stderr, max(0, -(status or 0))
        if self.signal:
            how = {int(one): one.name for one in signal.Signals}.get(self.signal, f"signal {self.signal}")
        elif status is not None:
            how = f"status {status}"
        self.how = how
        text = stderr.decode("utf-8", "replace").strip()[-_SHOWN_CHARACTERS:]
        super().__init__(how if status is None or self.signal else f"{how}: {text}")


class _Session(subprocess.Popen[bytes]):
    """A process in a session of its own, killed with all that it started when this object goes, whatever comes."""

    pid: int = 0  # until it is started, which an interrupt may prevent
    _parent = 0

    def __init__(self, command: Sequence[str], **how: Any) -> None:  # noqa: ANN401 -- Popen's
        self._parent = os.getpid()
        super().__init__(command, start_new_session=True, **how)

    def end(self) -> None:
        """Kill it, wait for it and close its pipes; a second call does nothing, nor does one in a fork of the parent."""
        if not self.pid or self._parent != os.getpid():
            return
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        with suppress(BrokenPipeError):  # what was not written yet has no reader
            super().__exit__(None, None, None)

    def __exit__(self, *_: object) -> None:
        self.end()

    def __del__(self) -> None:
        self.end()


class Worker(_Session):
    """A process that runs a module of this package and answers by ``process.child``; a context manager that ends it.

    It ends with the thread that started it. ``shares_stderr`` is for one that tells its user itself what is wrong.
    """

    def __init__(self, module: str, *arguments: str, shares_stderr: bool = False, **how: Any) -> None:  # noqa: ANN401
        """Start it; ``how`` is what else ``Popen`` takes."""
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._is_at_end = False
        command = python_command(module, *arguments)
        errors = None if shares_stderr else open_in_memory()
        super().__init__(command, stdin=_PIPE, stdout=_PIPE, stderr=errors, **how)
        self.stderr = errors

    def ask(self, message: object, within: float) -> Any:  # noqa: ANN401 -- what JSON holds
        """Return the answer to a message, which goes through a pipe; raises as ``answer``, after the child is killed."""
        assert self.stdin is not None  # noqa: S101 -- it was asked for
        try:
            with suppress(BrokenPipeError):  # its output is at its end as well
                self.stdin.write(json.dumps(message).encode() + b"\n")
                self.stdin.flush()
            return self.answer(within)
        except BaseException:  # Ctrl-C too: the next answer would be to this message
            self.end()
            raise

    def answer(self, within: float | None = None) -> Any:  # noqa: ANN401 -- what JSON holds
        """Return the next answer; raises ChildTimeout if there is none in so many seconds, ChildDied if there will be none."""
        if not self.has_answer(within):
            raise ChildTimeout("no answer in time")
        if not self._lines:
            raise ChildDied(self.status_within(_LEAVING_S), self.stderr_tail())
        line = self._lines.popleft()
        try:
            return json.loads(line)
        except ValueError:
            raise ChildDied(None, self.stderr_tail(), f"an answer that is not JSON: {line[:_SHOWN_CHARACTERS]!r}") from None

    def only_answer(self, within: float | None = None) -> tuple[Any, bytes]:
        """Return the one answer, and what was printed to standard error; raises as ``answer``, also for a bad exit status."""
        found = self.answer(within)
        status = self.status_within()
        if status:
            raise ChildDied(status, self.stderr_tail())
        return found, self.stderr_tail()

    def has_answer(self, within: float | None) -> bool:
        """Wait until ``answer`` need not wait; returns False after so many seconds."""
        assert self.stdout is not None  # noqa: S101 -- it was asked for
        deadline = None if within is None else time.monotonic() + within
        poll = select.poll()  # select.select takes no descriptor from 1,024 up
        poll.register(self.stdout, select.POLLIN)
        while not self._lines and not self._is_at_end:
            if not poll.poll(None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000):
                return False
            data = os.read(self.stdout.fileno(), _CHUNK_BYTES)
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._lines.extend(lines)
            self._is_at_end = not data
        return True

    def status_within(self, within: float = _LEAVING_S) -> int | None:
        """Wait for its end and return its status; None if it does not end in so many seconds."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(within)
        return None

    def stderr_tail(self) -> bytes:
        """Return what it has printed to standard error, the last MiB at most."""
        if self.stderr is None:
            return b""
        file = self.stderr.fileno()  # the child shares its position
        return os.pread(file, _STDERR_BYTES, max(0, os.fstat(file).st_size - _STDERR_BYTES))


def open_in_memory() -> IO[bytes]:
    """Return a file that lies in memory: there need not be a directory for temporary files."""
    return open(os.memfd_create("vyre_driver"), "w+b")  # noqa: PTH123 -- a descriptor, which end closes


def run_tool(command: Sequence[str], given: bytes, within: float, **how: Any) -> Ended:  # noqa: ANN401
    """Run a program of others on what it reads; raises ChildTimeout after so many seconds, OSError if it cannot be run."""
    with _Session(command, stdin=_PIPE, stdout=_PIPE, stderr=_PIPE, **how) as tool:
        try:
            stdout, stderr = tool.communicate(given, within)
        except subprocess.TimeoutExpired:
            raise ChildTimeout("no end in time") from None
        return Ended(command, tool.returncode, stdout, stderr)


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command of a Python process that runs a module of this package, as ``python -m`` would.

    Its ``sys.path`` is that of this process without relative places, which depend on the working directory; the package
    itself is found where this process found it. Raises InstallationUnusable as ``python_executable``.
    """
    path = [one for one in sys.path if isinstance(one, str) and Path(one).is_absolute()]
    if str(_PACKAGES) not in path:
        path.append(str(_PACKAGES))
    return [python_executable(), *_interpreter_options(), "-c", _START.format(ascii(path)), module, *arguments]


def command_to_try(module: str, *arguments: str) -> str:
    """Return a line for a shell that does the same, in a directory that nobody else may write to."""
    return f"(cd / && {shlex.join([python_executable(), '-m', module, *arguments])})"


def python_executable() -> str:
    """Return the path of a Python that runs this package: ``sys.executable``, or else the Python that it was made from.

    In a program that Python is embedded in (uWSGI, Blender), ``sys.executable`` may be that program, which would be started
    once more. The modules of a frozen program (PyInstaller) can be imported by no other Python.

    Raises
    ------
    InstallationUnusable
        If there is none.
    """
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    needs = f"a child process needs a Python {version} that can import vyre_driver, and"
    without = "do without child processes: Driver() without isolated=True, tuning without isolation"
    if hasattr(sys, "frozen") or not Path(_PACKAGES, "vyre_driver", "__init__.py").is_file():
        raise InstallationUnusable(
            f"{needs} this is a frozen program, whose modules no Python can import", fix=without, path=sys.executable
        )
    if not settings.foreign_variables((_ASKED,)):  # else this process was started to find out whether it is a Python
        base = getattr(sys, "_base_executable", None)
        at_prefix = str(Path(sys.base_exec_prefix, "bin", f"python{version}"))
        for path in (sys.executable, base, at_prefix, shutil.which(f"python{version}")):
            if isinstance(path, str) and _is_this_python(path):
                return path
    raise InstallationUnusable(
        f"{needs} sys.executable is {sys.executable!r}, which is none",
        fix=f"set sys.executable to the path of that Python, or {without}",
        path=sys.executable,
    )


@functools.lru_cache(maxsize=16)
def _is_this_python(path: str) -> bool:
    """Return whether a program is a Python as this one; none is started whose name does not say that it is a Python."""
    is_named_so = os.path.basename(path).startswith("python")  # noqa: PTH119 -- of a text
    if not os.path.isabs(path) or not is_named_so or not os.access(path, os.X_OK):  # noqa: PTH117 -- the same
        return False
    if sys.orig_argv and os.path.realpath(path) == os.path.realpath("/proc/self/exe"):
        return True  # this process, which a command line of Python's started
    try:
        asks = settings.child_environment(**{_ASKED: str(os.getpid())})
        done = run_tool([path, "-I", "-S", "-c", _ABOUT], b"", _ABOUT_S, env=asks)
    except (OSError, ChildTimeout):
        return False
    return done.stdout.decode("utf-8", "replace").strip() == f"{sys.implementation.cache_tag}{sys.abiflags}"


def _interpreter_options() -> list[str]:
    """Return the options of this interpreter that keep the environment or the user's own packages out of it."""
    if sys.flags.isolated:
        return ["-I"]
    return ["-E"] * sys.flags.ignore_environment + ["-s"] * sys.flags.no_user_site
