"""Lines of text: the one that ``repr`` shows of an object (what it is, which one, and its state), and those of a table.

Tables of HTML are what ``_repr_html_`` returns to notebooks; whatever is put into one is shown as text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence


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
    """Return a number of things: ``1 record``, ``2,000 records``, ``2 entries``, ``2 misses``."""
    several = f"{what}{'es' if what.endswith(('s', 'ch')) else 's'}"
    several = f"{what[:-1]}ies" if what.endswith("ry") else several
    return f"{number:,} {what if number == 1 else several}"


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


def table(rows: Iterable[Sequence[object]], *, head: Sequence[object] = (), caption: object = "") -> str:
    """Return rows of cells as a table, below a row of headings and a caption where there are any; every text is escaped."""
    parts = [f"<caption>{_escaped(caption)}</caption>"] if caption != "" else []
    if head:
        parts.append(f"<thead>{_row('th', head)}</thead>")
    parts += ["<tbody>", *(_row("td", row) for row in rows), "</tbody>"]
    return f"<table>{''.join(parts)}</table>"


def facts(caption: object, named: Mapping[str, object]) -> str:
    """Return facts by name as a table of two columns below a caption; every text is escaped."""
    rows = (f"<tr><th>{_escaped(name)}</th><td>{_escaped(value)}</td></tr>" for name, value in named.items())
    return f"<table><caption>{_escaped(caption)}</caption><tbody>{''.join(rows)}</tbody></table>"


def _row(tag: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_escaped(one)}</{tag}>' for one in cells)}</tr>"


def _escaped(value: object) -> str:
    """Return a value as text in which a browser finds no markup, and a reader no character that cannot be seen."""
    from html import escape  # late: its list of entities is long

    return escape(escaped(str(value)))
