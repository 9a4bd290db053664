"""The text of an autotune file: its own pattern and the TOML reader agree, and what cannot be read is kept."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from vyre_driver.autotune import AutotuneKey, AutotuneRecord
from vyre_driver.autotune.store import text as autotune_text
from vyre_driver.autotune.store.record import Timing, format_timings, parse_timings
from vyre_driver.autotune.store.text import AutotuneText, format_text, parse
from vyre_driver.errors import InvalidAutotuneRecord

KEY = AutotuneKey("00" * 16, "adapter")
PLAIN = AutotuneRecord((64, 1, 1), 2, (0, 0, 0), "2026-11-21")
OURS = AutotuneRecord(
    (64, 1, 1), 2, (8, 8, 1), "2026-11-21", "ab" * 32, 50, 123_456, 1_780_000_000, "matmul", "a GPU", "1.2", "4096x64"
)
U32 = st.integers(0, 2**32 - 1)
I64 = st.integers(0, 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
AXES = st.tuples(U32, U32, U32)
TIMING = st.builds(Timing, st.text(max_size=90), st.integers(0, 2**63), st.integers(0, 10**6), st.integers(0, 400))
TIMINGS = st.lists(TIMING, max_size=18).map(format_timings)
SIZE = st.lists(st.integers(0, 2**62).map(str), max_size=3).map("x".join)
IDENTITY = st.sampled_from(["", "ab" * 32, "cd" * 32])
RECORD = st.builds(AutotuneRecord, AXES, U32, AXES, TEXT, IDENTITY, I64, I64, I64, TEXT, TEXT, TEXT, SIZE, TIMINGS)
AT = st.builds(AutotuneKey, TEXT, TEXT)


def table(record: str = "") -> str:
    return f'[[record]]\nkey = "k"\nadapter = "a"\nworkgroup_size = [1, 2, 3]\nunroll = 4\ntile = [5, 6, 7]\n{record}'


def content(*records: tuple[AutotuneKey, AutotuneRecord]) -> AutotuneText:
    return AutotuneText({(key, record.identity): record for key, record in records})


@given(st.lists(st.tuples(AT, RECORD), max_size=5))
def test_what_is_written_is_read_back_by_the_pattern_and_by_the_toml_reader(records: list[Any]) -> None:
    made = content(*records)
    text = format_text(made)
    tables = tomli.loads(text)["record"]
    by_toml = parse("# a comment, which only the TOML reader takes\n" + text)
    assert (parse(text), by_toml, len(tables)) == (made, made, len(made.records))


@given(st.lists(st.tuples(AT, RECORD), max_size=3), st.data())
def test_of_a_text_changed_anywhere_the_pattern_never_says_other_than_the_toml_reader(
    records: list[Any], data: st.DataObject
) -> None:
    text = format_text(content(*records))
    place = data.draw(st.integers(0, len(text)))
    changed = (
        text[:place] + data.draw(st.sampled_from(["", "0", '"', "\n", "a", "\r", "[[record]]\n", "_", "-"])) + text[place + 1 :]
    )
    own = autotune_text.parse_own(changed)
    if own is not None:
        assert own == parse("# for the TOML reader\n" + changed).records


def test_what_the_original_does_not_know_stands_after_what_it_does() -> None:
    timings = format_timings([Timing("GROUP=64", 123_456, 789, 50), Timing("GROUP=32", 123_500, 800, 9)])
    written = format_text(content((KEY, OURS)))
    assert format_text(content((KEY, replace(OURS, timings=timings)))) == (
        written + 'timings = "123456+-789/50 GROUP=64; 123500+-800/9 GROUP=32"\n'
    )
    assert written == (
        f'schema = 1\n\n[[record]]\nkey = "{"00" * 16}"\nadapter = "adapter"\nworkgroup_size = [\n    64,\n    1,\n    1,\n]\n'
        "unroll = 2\ntile = [\n    8,\n    8,\n    1,\n]\n"
        f'recorded_at = "2026-11-21"\nidentity = "{"ab" * 32}"\nsamples = 50\nmedian_ns = 123456\nmeasured_at = 1780000000\n'
        'kernel = "matmul"\ndevice = "a GPU"\ndriver = "1.2"\nsize = "4096x64"\n'
    )


def test_a_bad_record_is_told_and_written_back_as_it_was() -> None:
    bad = 'later = 2027-01-01\n[[record]]\nkey = "b"\nunroll = "many"\nnote = 1.5\n'
    read = parse(f"{bad}{table()}")
    why = "a tuning record has no adapter, workgroup_size, tile"
    again = parse(format_text(read))
    assert (read.unreadable, len(read.records)) == ((({"key": "b", "unroll": "many", "note": 1.5}, why),), 1)
    assert again == AutotuneText(read.records, 0, read.unreadable, read.unknown)


def test_fields_that_others_have_added_are_kept() -> None:
    read = parse(f'future = "x"\n{table("p99_ns = 5")}')
    assert (read.unknown, list(read.unknown_of.values())) == ({"future": "x"}, [{"p99_ns": 5}])
    assert parse(format_text(read)) == read


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("schema = -1\n", "its schema is -1, which is not an integer from 0 to 4294967295"),
        ("schema = true\n", "its schema is True, which is not an integer from 0 to 4294967295"),
        ("record = 5\n", "its records are not an array"),
        (f"a = {'[' * 100_000}", "its arrays are nested too deeply"),
    ],
)
def test_a_text_that_is_no_autotune_file_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        parse(text)


def test_a_long_value_that_is_refused_is_cut_in_the_message() -> None:
    with pytest.raises(InvalidAutotuneRecord) as caught:
        replace(OURS, timings="1+-1/1 a; " * 10_000)
    assert (len(str(caught.value)) < 600, str(caught.value).startswith("timings of a tuning record is '1+-1/1 a; ")) == (
        True,
        True,
    )


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("workgroup_size", [1, 1, 1], "is not three integers"),
        ("workgroup_size", (1, 1), "is not three integers"),
        ("tile", (1, True, 1), "is not an integer from 0 to 4294967295"),
        ("tile", (1, 2**32, 1), "is not an integer from 0 to 4294967295"),
        ("unroll", -1, "is not an integer from 0 to 4294967295"),
        ("unroll", 1.0, "is not an integer from 0 to 4294967295"),
        ("samples", 2**63, "is not an integer from 0 to 9223372036854775807"),
        ("recorded_at", None, "is not a str with a UTF-8 form"),
        ("driver", "\ud800", "is not a str with a UTF-8 form"),
        ("identity", "AB" * 32, "is not 64 hex digits in lower case"),
        ("identity", "ab" * 31, "is not 64 hex digits in lower case"),
        ("size", "4x", "is not integers with an x between them"),
        ("size", "04", "is not integers with an x between them"),
        ("size", 4, "is not integers with an x between them"),
        ("size", "9" * 20, "is not integers with an x between them"),
        ("timings", None, "is not the times of at most 16 candidates"),
        ("timings", "1+-1/1", "is not the times of at most 16 candidates"),
        ("timings", "1+-1/1 a\x1b[2J", "is not the times of at most 16 candidates"),
        ("timings", f"1+-1/1 {'a' * 81}", "is not the times of at most 16 candidates"),
        ("timings", "; ".join(["1+-1/1 a"] * 17), "is not the times of at most 16 candidates"),
    ],
)
def test_a_record_holds_only_what_can_be_meant(field: str, value: object, why: str) -> None:
    given_fields: dict[str, Any] = {"workgroup_size": (1, 1, 1), "unroll": 1, "tile": (0, 0, 0), field: value}
    wrong = value[1] if field == "tile" and isinstance(value, tuple) else value
    with pytest.raises(InvalidAutotuneRecord) as caught:
        AutotuneRecord(**given_fields)
    told = str(caught.value), caught.value.context, caught.value.code
    message = f"{field} of a tuning record is {wrong!r}, which {why}. Fix: tune the kernel again, or correct the record."
    assert told == (message, {"field": field, "value": wrong}, 2208)


def test_times_of_a_search_are_kept_within_limits() -> None:
    given = [Timing(f"A={n}", n, 0, 1) for n in range(20)]
    awkward = [Timing('a "b"; \\c\u2028\x00', -1, 2, 3), Timing("x" * 100, 10**19, 0, 0), Timing(" ", 1, 1, 1)]
    assert parse_timings(format_timings(given)) == given[:16]
    assert parse_timings(format_timings(awkward)) == [
        Timing("a ?b?? ?c??", 0, 2, 3),
        Timing("x" * 77 + "...", 10**18 - 1, 0, 0),
        Timing("?", 1, 1, 1),
    ]
    assert parse_timings("") == []


@given(RECORD, RECORD)
def test_of_two_records_everybody_keeps_the_same(one: AutotuneRecord, other: AutotuneRecord) -> None:
    kept = [one.supersedes(other), other.supersedes(one)]
    assert kept == [False, False] if one == other else sorted(kept) == [False, True]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (OURS, PLAIN),
        (AutotuneRecord((1, 1, 1), 1, (0, 0, 0), samples=3), AutotuneRecord((1, 1, 1), 1, (0, 0, 0), "2027-01-01", samples=2)),
        (AutotuneRecord((1, 1, 1), 1, (0, 0, 0), "2026-11-22"), PLAIN),
        (AutotuneRecord((1, 1, 1), 1, (0, 0, 0), measured_at=2), AutotuneRecord((9, 1, 1), 1, (0, 0, 0), measured_at=1)),
    ],
    ids=["timed", "timed more often", "newer by day", "newer by second"],
)
def test_the_one_timed_more_often_is_better_known_then_the_newer(better: AutotuneRecord, worse: AutotuneRecord) -> None:
    assert (better.supersedes(worse), worse.supersedes(better)) == (True, False)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("unroll = 2\n", "unroll = 4294967296\n"),
        ("    64,\n", "    4294967296,\n"),
        ('size = "4096x64"', 'size = "4096x"'),
        (f'identity = "{"ab" * 32}"', f'identity = "{"AB" * 32}"'),
    ],
)
def test_what_no_record_holds_is_left_to_the_toml_reader_which_tells_of_it(right: str, wrong: str) -> None:
    text = format_text(content((KEY, OURS)))
    changed = text.replace(right, wrong, 1)
    read = parse(changed)
    assert (changed != text, autotune_text.parse_own(changed), read.records, len(read.unreadable)) == (True, None, {}, 1)


FIELDS = '"ab", "adapter", [64, 1, 1], 4, [16, 16, 1]'
AS_TABLE = 'key = "ab"\nadapter = "adapter"\nworkgroup_size = [64, 1, 1]\nunroll = 4\ntile = [16, 16, 1]\n'


@pytest.mark.parametrize(
    ("text", "day"),
    [
        (f"schema = 1\n[[record]]\n{AS_TABLE}", ""),
        (f'schema = 1\nrecord = [[{FIELDS}, "2026-11-21"]]', "2026-11-21"),
        (f"schema = 1\nrecord = [[{FIELDS}]]", ""),
        (f'schema = 1\nrecord = [[{FIELDS}, "2026-11-21", 7, "more", {{ a = 1 }}]]', "2026-11-21"),
        (f"schema = 1\n[[record]]\n{AS_TABLE}".replace("[64, 1, 1]", '[64, 1, 1, 2, "more"]'), ""),
        (f"schema = 1\n[[record]]\n{AS_TABLE}".replace("[16, 16, 1]", "[16, 16, 1, -1]"), ""),
        (f"schema = 1\nrecord = [{{\n{AS_TABLE.replace(chr(10), ',' + chr(10))}}}]", ""),
        (f"when = 07:32\n[[record]]\n{AS_TABLE}", ""),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_record_is_read_in_each_form_that_the_original_reads(text: str, day: str, mark: str) -> None:
    found = parse(mark + text)
    assert found.unreadable == ()
    assert found.records == {(AutotuneKey("ab", "adapter"), ""): AutotuneRecord((64, 1, 1), 4, (16, 16, 1), day)}
    assert parse(format_text(found)).records == found.records


@pytest.mark.parametrize(
    "given", ['["ab", "adapter", [64, 1, 1], 4]', f"[{FIELDS}, 7]", "[]", '["ab", "adapter", [64, 1], 4, [1, 1, 1]]']
)
def test_an_array_that_lacks_a_field_is_left_out_and_kept(given: str) -> None:
    found = parse(f"record = [{given}]")
    assert (found.records, len(found.unreadable)) == ({}, 1)
    assert tomli.loads(format_text(found))["record"] == tomli.loads(f"record = [{given}]")["record"]


def test_a_byte_order_mark_within_a_text_is_no_toml() -> None:
    for text in ("\ufeff\ufeffschema = 1", "schema = 1\n\ufeff"):
        with pytest.raises(ValueError, match="Invalid statement"):
            parse(text)
