"""A taste of ``make forms``: every form means the same, changes the code of a program of its kind, and a wrong one is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from forms import run
from forms.every_form import FORMS
from forms.formed import Form, FormedCode, applied
from forms.questions import SEEDS, asked, questions

from vyre_driver.binding import BindingPlan
from vyre_driver.spirv.emit import Target, emit
from vyre_driver.spirv.instructions import Ins

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.ir.program import Program
    from vyre_driver.vulkan import PhysicalDevice

NVIDIA = 4  # VK_DRIVER_ID_NVIDIA_PROPRIETARY
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
    assert any(code(one, form) != code(one) for one in programs), "the emitter does so by now: take the form out"


def test_what_is_lowered_without_forms_and_with_its_constants_is_what_ships(every: list[run.Question]) -> None:
    program = every[0].case.program
    with applied(folds=True):
        found = emit(program, BindingPlan.build(program), (), EVERYTHING).code
    assert found == emit(program, BindingPlan.build(program), (), EVERYTHING).code


def test_every_kept_program_and_every_seed_is_asked_with_inputs(every: list[run.Question]) -> None:
    assert {one.kind for one in every} == set(FORMS)
    names = [one.case.name for one in every]
    assert {f"seed {seed}" for seed in SEEDS} < set(names)
    assert [one.case.name for one in every if not list(asked(one, 2))] == []


def test_a_form_is_taken_that_is_always_right_and_hides_nothing_unless_another_is_wanted() -> None:
    first, second, third = (form.name for form in FORMS["bits"][:3])
    hidden = FORMS["bits"][-1].name
    rows = [run.Row("bits", "p", first, "right"), run.Row("bits", "q", first, "wrong for 1 of 1: ...")]
    rows += [run.Row("bits", one, way, "right") for one in "pq" for way in (hidden, second, third)]
    assert run.taken([row for row in rows if row.way in {first, hidden}]) == {"bits": hidden}
    assert run.taken(rows) == {"bits": second}
    rows += [run.Row("bits", "p, changed 3", way, "right") for way in (hidden, third)]
    assert run.taken([*rows, run.Row("bits", "p, changed 3", second, "wrong for 1 of 1: ...")]) == {"bits": third}
    assert run.taken(rows, [first]) == {"bits": first}


@pytest.fixture
def machine(physical_device: PhysicalDevice) -> run.Machine:
    if physical_device.driver_id == NVIDIA:
        pytest.skip("which forms this driver gets right is what `make forms` asks")
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
    rows = [row for place in places(kind) for row in run.ask(machine, [run.Pick(place)], 1, ways)]
    assert len(rows) >= len(ways)
    assert [row for row in rows if not row.is_right] == []


def place_of(name: str) -> int:
    return next(place for place, one in enumerate(questions(32)) if one.case.name == name)


def double(code: FormedCode, type_id: int, word: int) -> int:
    """Not what a count of bits is."""
    return code.op(Ins.IAdd, type_id, word, word)


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> run.Ways:
    """A way that means something else."""
    monkeypatch.setitem(run.BY_NAME, "wrong", Form("wrong", {Ins.BitCount: double}))
    return run.Ways("wrong", ("wrong",))


@pytest.mark.device
def test_a_form_that_means_something_else_is_told_of(machine: run.Machine, wrong: run.Ways) -> None:
    (row,) = run.ask(machine, [run.Pick(place_of("bits of a byte"))], 1, [wrong])
    assert row[:3] == ("bits", "bits of a byte", "wrong")
    assert row.verdict == "wrong for 2 of 2: signed_out[1] is 266 (0x0000010a), and should be 3 (0x00000003)"


@pytest.mark.device
def test_neighbours_are_asked_in_more_ways_where_one_is_wrong(machine: run.Machine, wrong: run.Ways) -> None:
    picks = [run.Pick(place_of("bits of a byte"), change) for change in range(1, 9)]
    way, more = run.Ways("rounded by its bits", ("rounded by its bits",)), run.Ways("counted by sums", ("counted by sums",))
    rows = run.ask(machine, picks, 1, [way, wrong], [more])
    found = [row.program for row in rows if row.way == "wrong" and not row.is_right]
    others = [row.program for row in rows if row.way == "wrong" and row.is_right]
    assert [row.program for row in rows if row.way == "counted by sums"] == found
    assert (len(found) > 2, len(others) > 0, {row.verdict for row in rows if row.way != "wrong"}) == (True, True, {"right"})


def test_neighbours_are_other_programs_and_the_same_for_one_number(every: list[run.Question]) -> None:
    question = every[place_of("a high word less 64 bits")]
    first, second = ([str(run.changed(question, change).case.program) for change in range(40)] for _ in range(2))
    assert (first == second, first[0] == str(question.case.program), len(set(first)) > 10) == (True, True, True)
