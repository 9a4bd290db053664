"""The files of the compiled original load here as they load there, and what is written here is what it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from vectors import vectors

from vyre_driver.autotune import AutotuneKey, AutotuneRecord, AutotuneStore
from vyre_driver.autotune.store.text import parse

if TYPE_CHECKING:
    from pathlib import Path

STORE = vectors("autotune_store.json")

# Texts that the original refuses whole, and here only the record is left out.
ONE_BAD_RECORD = {
    "recorded_at_date",
    "missing_key",
    "missing_tile",
    "wg_negative",
    "wg_overflow",
    "unroll_bool",
    "key_int",
    "wg_table",
}


def read(text: str) -> list[dict[str, Any]] | str:
    try:
        content = parse(text)
    except ValueError:
        return "InvalidData"
    return [
        {
            "key": key.key_hex,
            "adapter": key.adapter_id,
            "workgroup_size": list(record.workgroup_size),
            "unroll": record.unroll,
            "tile": list(record.tile),
            "recorded_at": record.recorded_at,
        }
        for (key, _), record in sorted(content.records.items(), key=lambda item: item[0])
    ]


def expected(case: dict[str, Any]) -> list[dict[str, Any]] | str:
    if case["name"] in ONE_BAD_RECORD:
        return []
    found = case["result"]
    return found["ok"]["records"] if "ok" in found else found["err_kind"]


@pytest.mark.parametrize("case", [one for one in STORE["loads"] if one["text"] is not None], ids=lambda case: case["name"])
def test_a_text_is_read_as_the_original_reads_it(case: dict[str, Any]) -> None:
    assert read(case["text"]) == expected(case)


def test_all_that_the_original_takes_is_taken() -> None:
    cases = {case["name"]: case for case in STORE["loads"]}
    refused = {name for name in ONE_BAD_RECORD if cases[name]["result"].get("err_kind") == "InvalidData"}
    taken = [case for case in cases.values() if "ok" in case["result"] and case["text"] is not None]
    assert refused == ONE_BAD_RECORD
    assert {"wg_four", "key_escape_e", "key_escape_x", "inline_multiline"} <= {case["name"] for case in taken}
    assert [case["name"] for case in taken if read(case["text"]) != case["result"]["ok"]["records"]] == []


def stored(case: dict[str, Any]) -> AutotuneStore:
    store = AutotuneStore()
    for put in case["puts"]:
        given = put["record"]
        record = AutotuneRecord(tuple(given["workgroup_size"]), given["unroll"], tuple(given["tile"]), given["recorded_at"])
        store.put(AutotuneKey(put["key"], put["adapter"]), record)
    return store


@pytest.mark.parametrize("case", STORE["written"], ids=lambda case: case["name"])
@pytest.mark.parametrize("reader", ["text", "text_toml_0_5_11"])
def test_what_the_original_wrote_holds_the_same_records(case: dict[str, Any], reader: str) -> None:
    assert parse(case[reader]).records == stored(case).records()


@pytest.mark.parametrize("case", [one for one in STORE["written"] if one["name"] != "escapes"], ids=lambda case: case["name"])
def test_records_of_the_original_are_written_byte_for_byte_as_it_writes_them(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "autotune.toml"
    assert (stored(case).save_if_dirty(path), path.read_text()) == (True, case["text"])


def test_an_emptied_store_is_written_as_the_original_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "autotune.toml"
    path.write_text(STORE["written"][0]["text"])
    store = AutotuneStore.load(path)
    (key, _), *_ = store.records()
    told = store.forget(key), store.is_dirty, store.forget(key), store.save_if_dirty(path)
    assert (told, path.read_text()) == ((True, True, False, True), STORE["fs"]["forget_then_save_empty"]["text"])
