"""A taste of ``make forms``: every form means the same, changes the code of a program of its kind, and a wrong one is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from forms import run
from forms.every_form import FORMS
from forms.formed import Form, applied
from forms.questions import SEEDS, asked, questions

from vyre_driver.binding import BindingPlan
from vyre_driver.spirv.emit import Target, emit
from vyre_driver.spirv.instructions import Ins

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.ir.program import Program

EVERYTHING = Target(frozenset({"shaderInt64", "shaderFloat64", "storageBuffer8BitAccess", "storageBuffer16BitAccess"}))


@pytest.fixture(scope="module")
def every() -> list[run.Question]:
    return list(questions(32))


def code(program: Program, *forms: Form) -> bytes:
    with applied(*forms, folds=False):
        return emit(program, BindingPlan.build(program), (), EVERYTHING).code


@pytest.mark.parametrize(
    ("kind", "form"),
    [(kind, form) for kind, forms in FORMS.items() for form in forms],
    ids=lambda one: getattr(one, "name", one),
)
def test_a_form_changes_the_code_of_a_program_of_its_kind(every: list[run.Question], kind: str, form: Form) -> None:
    programs = [one.case.program for one in every if one.kind == kind]
    assert any(code(one, form) != code(one) for one in programs)


def test_what_is_lowered_without_forms_and_with_its_constants_is_what_ships(every: list[run.Question]) -> None:
    program = every[0].case.program
    with applied(folds=True):
        found = emit(program, BindingPlan.build(program), (), EVERYTHING).code
    assert found == emit(program, BindingPlan.build(program), (), EVERYTHING).code


def test_every_kept_program_and_every_seed_is_asked_with_inputs(every: list[run.Question]) -> None:
    assert {one.kind for one in every} == set(FORMS)
    names = [one.case.name for one in every]
    assert {f"seed {seed}" for seed in SEEDS} < set(names)
    assert [one.case.name for one in every if not list(asked(one.case, 2))] == []


def test_the_first_form_that_is_always_right_is_taken_unless_another_is_wanted() -> None:
    first, second, third = (form.name for form in FORMS["bits"][:3])
    rows = [run.Row("bits", "p", first, "right"), run.Row("bits", "q", first, "wrong for 1 of 1: ...")]
    rows += [run.Row("bits", one, way, "right") for one in "pq" for way in (second, third)]
    assert run.taken(rows) == {"bits": second}
    assert run.taken(rows, [third]) == {"bits": third}


@pytest.fixture
def machine() -> run.Machine:
    return run.Machine(None, allow_software=True)


def places(kind: str) -> Iterator[int]:
    """Those of the small programs of a kind."""
    for place, one in enumerate(questions(32)):
        if one.kind == kind and not one.case.name.startswith("seed"):
            yield place


@pytest.mark.device
@pytest.mark.parametrize("kind", FORMS)
def test_every_form_gives_what_the_reference_does(machine: run.Machine, kind: str) -> None:
    ways = [way for way in run.ways_of(kind) if way.forms]  # NVIDIA's driver is wrong without
    rows = [row for place in places(kind) for row in run.ask(machine, place, ways, 1)]
    assert len(rows) >= len(ways)
    assert [row for row in rows if not row.is_right] == []


@pytest.mark.device
def test_a_form_that_means_something_else_is_told_of(machine: run.Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Form("wrong", {Ins.BitCount: lambda code, type_id, word: code.op(Ins.IAdd, type_id, word, word)})
    monkeypatch.setitem(run.BY_NAME, "wrong", wrong)
    way = run.Ways("wrong", ("wrong",))
    place = next(place for place, one in enumerate(questions(32)) if one.case.name == "bits of a byte")
    (row,) = run.ask(machine, place, [way], 1)
    assert row[:3] == ("bits", "bits of a byte", "wrong")
    assert row.verdict == "wrong for 2 of 2: signed_out[1] is 266 (0x0000010a), and should be 3 (0x00000003)"
