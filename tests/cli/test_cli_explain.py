"""``vyre-driver explain``: the page of an error, as text and as data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from vyre_driver.cli.explain import PAGES, titles

if TYPE_CHECKING:
    from conftest import RunChild

MESSAGE = (
    "vyre_driver.errors.InvalidDispatchConfig: timeout of the dispatch is -1.0, which is not a number of seconds above 0. "
    "Fix: give seconds, for example 2.5."
)


def test_a_page_is_printed_without_marks(run_here: RunChild) -> None:
    done = run_here("explain", "2106")
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout == (
        "2106: InvalidDispatchConfig\n\n"
        "A field of a dispatch configuration is of the wrong type or out of range. error.context has field and value. It is a "
        "ValueError.\n\n"
        "Example\n\n"
        "    from vyre_driver import DispatchConfig\n\n"
        "    DispatchConfig(timeout=-1.0)\n\n"
        f"    {MESSAGE}\n\n"
        "Causes\n\n"
        "- A negative or zero time-out, budget or size.\n"
        "- A workgroup that does not fill whole subgroups of the subgroup_size that is asked for.\n"
        "- Another object where a DispatchConfig belongs.\n\n"
        "Cure\n\n"
        "- Give a value in the range that the message names, or leave the field out.\n"
    )


def test_upstreams_number_of_a_lost_device_shows_its_page(run_here: RunChild) -> None:
    assert run_here("explain", "1008").stdout == run_here("explain", "2006").stdout


def test_a_link_is_printed_as_its_text_and_place(run_here: RunChild) -> None:
    assert "the rules of the validator: docs/validation-rules.md" in run_here("explain", "1006").stdout


@pytest.mark.parametrize("given", ["2106", "InvalidDispatchConfig", "invaliddispatchconfig"])
def test_a_page_as_data_is_its_markdown(run_here: RunChild, given: str) -> None:
    done = run_here("explain", given, "--json")
    page = (PAGES / "2106.md").read_text("utf-8")
    assert json.loads(done.stdout) == {"schema": 1, "code": 2106, "name": "InvalidDispatchConfig", "page": page}


def test_without_a_code_all_errors_are_listed(run_here: RunChild) -> None:
    text, data = run_here("explain"), run_here("explain", "--json")
    assert text.stdout.splitlines() == [f"{code}  {name}" for code, name in titles().items()]
    assert json.loads(data.stdout) == {"schema": 1, "errors": [{"code": code, "name": name} for code, name in titles().items()]}


def test_a_rule_of_the_validator_is_said_to_be_one(run_here: RunChild) -> None:
    done = run_here("explain", "R015")
    assert (done.status, done.stdout, done.stderr) == (
        2,
        "",
        (
            "vyre-driver: error 2501: R015 is a rule of the validator, not the code of an error. "
            "Fix: see vyre-driver explain 1006, and docs/validation-rules.md for what the rule says.\n"
        ),
    )


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ("2140", "write 2014 or 2104 or 2401, or see vyre-driver explain, which lists all"),
        ("LimitExceded", "write LimitExceeded, or see vyre-driver explain, which lists all"),
        ("", "see vyre-driver explain, which lists all"),
    ],
)
def test_an_unknown_code_is_an_error_that_names_what_is_like_it(run_here: RunChild, given: str, fix: str) -> None:
    done = run_here("explain", given)
    assert (done.status, done.stdout, done.stderr) == (
        2,
        "",
        f"vyre-driver: error 2501: there is no error {given!r}. Fix: {fix}.\n",
    )
