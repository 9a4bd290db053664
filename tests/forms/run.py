"""Which ways to lower a construct a driver gets right: what ``make forms`` runs.

Usage: python -m forms.run [--device NAME] [--allow-software] [--inputs N] [--neighbours N] [--programs N] [--first SEED]
                           [--take FORM]... [--jobs N] [--out FILE]

Every program that a driver is known to get wrong (questions.py) is lowered as ever, with its constants left to the device, and
by every form for constructs of its kind (every_form.py), and run on inputs of its own and on random ones. So are neighbours of
the small ones (neighbours.py), by forms only where one is answered otherwise. Then one form of each kind that was right in all
programs of the kind is taken, or the one that --take names, and all programs and N random ones are lowered by them together.
A line is printed for each program and form: "right", or how many inputs were answered otherwise, and the first difference.
Exit status: 0 lowered as ever all is right, 1 something is not.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from forms.every_form import FORMS
from forms.formed import applied
from forms.neighbours import changed
from forms.questions import Asked, Question, asked, questions

from vyre_driver import Driver
from vyre_driver.conformance.adapters import DriverBackend
from vyre_driver.conformance.compare import difference
from vyre_driver.conformance.generate import generate
from vyre_driver.conformance.options import Options
from vyre_driver.conformance.suite import answer
from vyre_driver.errors import DeviceLost, VyreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

BY_NAME = {form.name: form for forms in FORMS.values() for form in forms}
AS_EVER, UNFOLDED, TOGETHER = "as ever", "constants left to the device", "together"
CHANGED = ", changed "  # in the names of neighbours
CHUNK, NEIGHBOURS_AT_ONCE = 100, 20


class Ways(NamedTuple):
    """Forms by their names, under a title, and whether f32 constants are folded."""

    title: str
    forms: tuple[str, ...] = ()
    folds: bool = False


class Row(NamedTuple):
    """What came of a program lowered in one way."""

    kind: str
    program: str
    way: str
    verdict: str

    @property
    def is_right(self) -> bool:
        return self.verdict == "right"


class Machine(NamedTuple):
    """How a device is opened."""

    device: str | None
    allow_software: bool

    def open(self, stack: ExitStack) -> Driver:
        cache = stack.enter_context(tempfile.TemporaryDirectory(prefix="vyre-forms-"))
        return stack.enter_context(Driver(self.device, cache=cache, allow_software=self.allow_software or None))


def ways_of(kind: str) -> list[Ways]:
    """As ever, unfolded, by each form, and by all that hide something or all others at once."""
    names = [form.name for form in FORMS[kind]]
    hidden = tuple(one for one in names if one.startswith("hidden"))
    plain = tuple(one for one in names if one not in hidden)
    several = [Ways("all but the hidden ones", plain), Ways("all the hidden ones", hidden)]
    return [Ways(AS_EVER, folds=True), Ways(UNFOLDED), *(Ways(one, (one,)) for one in names), *several]


class Pick(NamedTuple):
    """A question by its place among all, and the number that it is changed by; 0 leaves it as it is."""

    place: int
    change: int = 0


class Asker:
    """Asks a device; one that is lost is opened anew."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._stack = ExitStack()
        self._driver = machine.open(self._stack)
        self.lanes = DriverBackend(self._driver).subgroup_lanes

    def close(self) -> None:
        self._stack.close()

    def row(self, question: Question, way: Ways, every: Sequence[Asked]) -> Row:
        """Ask a question in one way, with all inputs."""
        try:
            told = self._verdict(question, way, every)
        except VyreError as error:
            told = f"{type(error).__name__}: {error.problem}"
            if isinstance(error, DeviceLost):
                self.close()
                self._driver = self._machine.open(self._stack)
        return Row(question.kind, question.case.name, way.title, told)

    def _verdict(self, question: Question, way: Ways, every: Sequence[Asked]) -> str:
        case, wrong, first = question.case, 0, ""
        with applied(*(BY_NAME[one] for one in way.forms), folds=way.folds):
            kernel = self._driver.compile(case.program, question.specs or None)
            for one in every:
                made = kernel(*one.inputs, groups=case.grid, out_counts=dict(case.element_counts))
                received = made if isinstance(made, tuple) else (made,)
                found = difference(replace(case, inputs=one.inputs), one.expected, received)
                if found is not None:
                    wrong, first = wrong + 1, first or str(found)
        return "right" if not wrong else f"wrong for {wrong} of {len(every)}: {first}"


def ask(machine: Machine, picks: Sequence[Pick], inputs: int, ways: Sequence[Ways], more: Sequence[Ways] = ()) -> list[Row]:
    """Ask questions in some ways, and what is wrong in one of these in more."""
    rows: list[Row] = []
    with closing(Asker(machine)) as asker:
        every = list(questions(asker.lanes))
        for pick in picks:
            question = changed(every[pick.place], pick.change)
            known = list(asked(question, inputs))
            if known:
                found = [asker.row(question, way, known) for way in ways]
                is_wrong = not all(row.is_right for row in found)
                rows += found + [asker.row(question, way, known) for way in more if is_wrong]
    return rows


def ask_random(machine: Machine, first: int, count: int, way: Ways) -> list[Row]:
    """Ask random programs in one way; returns a row for each that is not right, and one for all others."""
    rows = []
    with ExitStack() as stack:
        backend = DriverBackend(machine.open(stack))
        lanes = backend.subgroup_lanes
        options = Options(subgroups=bool(lanes), subgroup_lanes=lanes or 32)
        with applied(*(BY_NAME[one] for one in way.forms), folds=way.folds):
            for seed in range(first, first + count):
                found = answer(backend, generate(seed, options), shrink=False)
                if found.failure is not None:
                    rows.append(Row("random", found.name, way.title, found.failure.why))
                if found.is_last:
                    break
    return rows or [Row("random", f"seeds {first} to {first + count - 1}", way.title, "right")]


def gathered(jobs: int, work: Sequence[Callable[[], list[Row]]]) -> Iterator[list[Row]]:
    """Do work in processes of its own; what a process dies of is told, and what waited for it is done by others."""
    waiting = list(work)
    while waiting:
        begun, waiting = waiting, []
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            futures = {pool.submit(one): one for one in begun}
            for future in as_completed(futures):
                try:
                    yield future.result()
                except BrokenProcessPool:
                    waiting.append(futures[future])
        if len(waiting) == len(begun):
            yield [Row("all", str(waiting.pop(0)), "", "the process died")]


def picked(place: int, neighbours: int) -> list[list[Pick]]:
    """The neighbours of a question, so many that a process asks them in a few seconds."""
    every = [Pick(place, change) for change in range(1, neighbours + 1)]
    return [every[first : first + NEIGHBOURS_AT_ONCE] for first in range(0, neighbours, NEIGHBOURS_AT_ONCE)]


def taken(rows: Sequence[Row], wanted: Sequence[str] = ()) -> dict[str, str]:
    """The form of each kind that is wanted, or was right in most neighbours of those that were right in every program.

    Hidden ones are taken only where there is no other. A neighbour may be wrong for a reason of its own.
    """
    found = {}
    for kind, forms in FORMS.items():
        right = {form.name: rights(rows, kind, form.name) for form in forms}
        first = [one for one in right if one in wanted] or [one for one, (is_always, _) in right.items() if is_always]
        first = [one for one in first if not one.startswith("hidden")] or first
        if first:
            found[kind] = max(first, key=lambda one: right[one][1])
    return found


def rights(rows: Sequence[Row], kind: str, way: str) -> tuple[bool, int]:
    """Whether a way was right in every program that is no neighbour, and in how many of all."""
    told = [row for row in rows if (row.kind, row.way) == (kind, way)]
    whole = [row for row in told if CHANGED not in row.program]
    return bool(whole) and all(row.is_right for row in whole), sum(row.is_right for row in told)


def table(rows: Sequence[Row]) -> None:
    for row in rows:
        print(f"{row.kind} | {row.program} | {row.way} | {row.verdict}", flush=True)


def summary(rows: Sequence[Row]) -> None:
    """For each kind and form, in how many programs it was right."""
    for kind in FORMS:
        for way in ways_of(kind):
            told = [row for row in rows if (row.kind, row.way) == (kind, way.title)]
            print(f"{kind}: {way.title}: right in {sum(row.is_right for row in told)} of {len(told)}", flush=True)


def main() -> int:
    """Do it all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="which device, as for vyre-driver")
    parser.add_argument("--allow-software", action="store_true", help="accept a CPU device")
    parser.add_argument("--inputs", type=int, default=24, help="random inputs for each program")
    parser.add_argument("--neighbours", type=int, default=100, help="changed programs for each small one")
    parser.add_argument("--programs", type=int, default=0, help="random programs for the forms that were right, together")
    parser.add_argument("--first", type=int, default=3000000, help="the first program's seed")
    parser.add_argument("--take", action="append", default=[], choices=sorted(BY_NAME), metavar="FORM", help="take this one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    parser.add_argument("--out", type=Path, help="also write the rows there, as JSON")
    options = parser.parse_args()
    machine = Machine(options.device, options.allow_software)
    kinds = [one.kind for one in questions(32)]
    work = [partial(ask, machine, [Pick(place)], options.inputs, ways_of(kind)) for place, kind in enumerate(kinds)]
    small = [(place, one.kind) for place, one in enumerate(questions(32)) if one.is_small]
    for place, kind in small:
        plain, forms = ways_of(kind)[:2], ways_of(kind)[2:]
        work += [partial(ask, machine, picks, 2, plain, forms) for picks in picked(place, options.neighbours)]
    rows: list[Row] = []
    for part in gathered(options.jobs, work):
        table([row for row in part if not (row.is_right and CHANGED in row.program)])
        rows += part
    summary(rows)
    best = taken(rows, options.take)
    print(json.dumps({"taken": best, "none right": sorted(FORMS.keys() - best.keys())}))
    ways = [Ways(TOGETHER, tuple(best.values()), folds=folds) for folds in (True, False)]
    last = [partial(ask, machine, [Pick(place)], options.inputs, ways) for place in range(len(kinds))]
    last += [partial(ask, machine, picks, 2, ways[1:]) for place, _ in small for picks in picked(place, options.neighbours)]
    ends = range(options.first, options.first + options.programs, CHUNK)
    last += [partial(ask_random, machine, first, CHUNK, ways[0]) for first in ends]
    for part in gathered(options.jobs, last):
        table([row for row in part if not row.is_right])
        rows += part
    together = [row for row in rows if row.way == TOGETHER]
    print(f"together: right in {sum(row.is_right for row in together)} of {len(together)}")
    if options.out is not None:
        options.out.write_text(json.dumps([row._asdict() for row in rows], indent=1) + "\n")
    return 0 if all(row.is_right for row in rows if row.way == AS_EVER) else 1


if __name__ == "__main__":
    sys.exit(main())
