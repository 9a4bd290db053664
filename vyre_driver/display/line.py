"""Lines of text: the one that ``repr`` shows of an object (what it is, which one, and its state), and those of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def one_line(kind: str, *parts: str) -> str:
    """Return ``<vyre_driver.KIND PART, PART>``; empty parts are left out.

    What makes the parts may be called at any time, of any thread, after ``close`` and from a debugger: it takes no lock, asks
    neither disk nor device, and raises nothing. What texts from outside could break the line with, or steer a terminal, is
    escaped.
    """
    shown = escaped(", ".join(filter(None, parts)))
    return f"<vyre_driver.{kind} {shown}>" if shown else f"<vyre_driver.{kind}>"


def escaped(text: str) -> str:
    """Return a text whose characters are all printable: line feeds, escapes and lone surrogates as ``ascii`` writes them."""
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def count(number: int, what: str) -> str:
    """Return a number of things whose plural ends in s: ``1 record``, ``2 records``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Return rows of cells as lines whose columns are as wide as their widest cell; those of ``left`` begin at one place."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if at in left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
