"""The command line: one module for each verb.

Exit status: 0 done, 1 a result was wrong, 2 something given or missing stopped it (one line on stderr with the error's code and
what to do; with ``--json`` the line is a JSON object), 130 interrupted.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from typing import TYPE_CHECKING

from vyre_driver._loading import explained
from vyre_driver.cli.options import error_as_data, line_as_json, printable, say
from vyre_driver.cli.parser import PROGRAM, parsed
from vyre_driver.errors import FileUnusable, VyreError

if TYPE_CHECKING:
    from collections.abc import Sequence

_OF_A_WRITE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EAGAIN, errno.EINVAL})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit status; ``arguments`` are those after the program's name."""
    given = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in given
    if isinstance(sys.stdout, io.TextIOWrapper):  # names need not fit the terminal's encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _run(given, as_json=as_json)
    except VyreError as error:
        _complain(error, as_json=as_json)
    except (ImportError, AttributeError) as error:
        told = explained(error)
        if told is None:
            raise
        _complain(told, as_json=as_json)
    except KeyboardInterrupt:
        say(f"{PROGRAM}: interrupted", on_stderr=True)
        return 130
    except BrokenPipeError:
        _silence_stdout()
        return 1
    except OSError as error:
        _complain(_explained_os_error(error), as_json=as_json)
    return 2


def _explained_os_error(error: OSError) -> FileUnusable:
    """Return in a sentence an error that no verb foresaw.

    Files that a verb writes raise FileUnusable: what fails in a write, which names no file, is standard output.
    """
    if error.filename is None and error.errno in _OF_A_WRITE:
        _silence_stdout()
        return FileUnusable(f"cannot write standard output ({error.strerror})", fix="free some space")
    if isinstance(error, FileNotFoundError) and error.filename is None:  # as tempfile says it
        fix = "make /tmp a directory that this user may write to, or set TMPDIR to one"
        return FileUnusable(f"there is no directory for temporary files ({error.strerror})", fix=fix)
    place = "" if error.filename is None else f" ({error.filename})"
    return FileUnusable(f"the system refused a step: {error.strerror}{place}", fix="correct what it names")


def _run(given: Sequence[str], *, as_json: bool) -> int:
    options = parsed(given)

    def warn(message: Warning | str, *_: object) -> None:
        """Print a warning as one line: users need not see where it comes from."""
        line = line_as_json({"warning": str(message)}) if as_json else f"{PROGRAM}: warning: {printable(message)}"
        say(line, on_stderr=True)

    with warnings.catch_warnings():
        warnings.showwarning = warn  # type: ignore[assignment]
        status: int = options.run(options)
    if sys.stdout is not None:
        sys.stdout.flush()
    return status


def _complain(error: VyreError, *, as_json: bool) -> None:
    """Print an error as one line, whatever names are in it."""
    text = f"{PROGRAM}: error {error.code}: {printable(error)}"
    say(line_as_json({"error": error_as_data(error)}) if as_json else text, on_stderr=True)


def _silence_stdout() -> None:
    """Keep the interpreter from complaining when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
