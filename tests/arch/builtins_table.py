"""The table of builtins as docs/lang-reference.md has it. Run it to write the table there anew."""

from __future__ import annotations

from pathlib import Path

from vyre_driver.lang.frontend.builtins.table import ALL, BUILTINS, NUMBERS, WHOLE, Builtin

PAGE = Path(__file__).parents[2] / "docs" / "lang-reference.md"
BEGIN, END = "<!-- The table of builtins: tests/arch/builtins_table.py writes it. -->\n", "<!-- The end of that table. -->\n"
_TYPES = {ALL: "any", NUMBERS: "any but bool", WHOLE: "whole numbers"}
_RESULTS = {
    "same": "",
    "number": "of bool i32",
    "whole": "i32, of f64 i64; whole numbers as they are",
    "i32": "i32",
    "bool": "bool",
}


def row(builtin: Builtin) -> str:
    """Return the line of a builtin."""
    names = ", ".join(f"`{name}`" for name in builtin.names.split())
    types = _TYPES.get(builtin.types) or ", ".join(map(str, builtin.types))
    return f"| {names} | {types} | {_RESULTS[builtin.result]} | {builtin.error} | {builtin.about} |\n"


def table() -> str:
    """Return the table."""
    head = "| | of | gives | error | |\n|---|---|---|---|---|\n"
    return BEGIN + "\n" + head + "".join(map(row, BUILTINS)) + "\n" + END


def written(page: str) -> str:
    """Return the page with the table as it is today."""
    before, _, rest = page.partition(BEGIN)
    return before + table() + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
