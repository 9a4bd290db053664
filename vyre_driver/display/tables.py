"""Tables of HTML, which ``_repr_html_`` returns to notebooks; whatever is put into one is shown as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.display.line import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


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
