"""``vyre-driver trace``: run a Python program as it is and write what its drivers did, or join traces of several processes."""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver.cli.options import say
from vyre_driver.errors import FileUnusable, InvalidCommand
from vyre_driver.process.whole_files import write_whole
from vyre_driver.profiling.profile import ProgramProfile
from vyre_driver.profiling.report import html_of
from vyre_driver.profiling.summary import text_of
from vyre_driver.profiling.trace_events import joined, read_document, write_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.profiling.trace_events import Document

_INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument("-o", "--out", metavar="FILE", default="trace.json", help="the trace (default: %(default)s)")
    parser.add_argument("--html", metavar="FILE", help="write a page with pictures and tables too")
    parser.add_argument("--events", type=int, metavar="N", help="keep so many events of each driver (default: 250000)")
    parser.add_argument("--quiet", action="store_true", help="print no summary")
    parser.add_argument("--join", nargs="+", metavar="TRACE", help="join these traces of other processes instead of running")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="a module, and its arguments")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM", help="a Python file, and its arguments")


def run(options: argparse.Namespace) -> int:
    """Run the program, or join, and write what is asked for; the status is the program's."""
    command = ["-m", *options.module] if options.module is not None else options.program
    places = _places(options)
    if options.join:
        if command:
            raise InvalidCommand("--join is given beside a program", fix="join in a call of its own")
        _write(options, places, joined([_read(Path(one)) for one in options.join]))
        return 0
    if not command:
        raise InvalidCommand("there is no program to run", fix="name a Python file, or -m and a module")
    with ProgramProfile(options.events) as profile:
        status = _run_program(command)
    if not profile.has_drivers:
        say("vyre-driver trace: the program opened no driver in this process, so there is no trace", on_stderr=True)
        return status
    _write(options, places, profile.trace)
    return status


def _places(options: argparse.Namespace) -> list[Path]:
    """Return where the trace goes, and the page if there is one, before the program runs for hours or changes its directory."""
    places = [Path(name).absolute() for name in (options.out, options.html) if name]
    for place in places:
        if place.is_dir() or not place.parent.is_dir():
            problem = "is a directory" if place.is_dir() else "is in a directory that does not exist"
            raise FileUnusable(f"{place}, to be written, {problem}", fix="name a file in one that exists", path=str(place))
    return places


def _run_program(command: Sequence[str]) -> int:
    """Run it as ``python`` would; returns its exit status."""
    is_module = command[0] == "-m"
    if is_module and len(command) == 1:
        raise InvalidCommand("-m names no module", fix="write -m MODULE")
    name, before, path = command[1 if is_module else 0], sys.argv[:], sys.path[:]
    if not is_module and not Path(name).exists():
        raise FileUnusable(f"there is no file {name} to run", fix="name a Python file", path=name)
    sys.argv = list(command[1:] if is_module else command)
    sys.path.insert(0, "" if is_module else str(Path(name).resolve().parent))
    try:
        if is_module:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(name, run_name="__main__")
    except SystemExit as error:
        return _status_of(error.code)
    except KeyboardInterrupt:
        say("vyre-driver: interrupted", on_stderr=True)
        return _INTERRUPTED
    except Exception:  # noqa: BLE001 -- the program's own, which the trace goes up to
        traceback.print_exc()
        return 1
    finally:
        sys.argv, sys.path[:] = before, path
    return 0


def _status_of(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    say(code, on_stderr=True)
    return 1


def _read(path: Path) -> Document:
    try:
        return read_document(path)
    except OSError as error:
        raise FileUnusable(f"cannot read {path} ({error.strerror})", fix="name a trace", path=str(path)) from error


def _write(options: argparse.Namespace, places: list[Path], document: Document) -> None:
    out = places[0]
    try:
        write_document(out, document)
        for out in places[1:]:
            write_whole(out, html_of(document, None).encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise FileUnusable(f"cannot write {out} ({error.strerror})", fix="name another file", path=str(out)) from error
    if not options.quiet:
        say(text_of(document), end="", on_stderr=True)
        say(f"Trace in {options.out}: open it at ui.perfetto.dev or chrome://tracing.", on_stderr=True)
