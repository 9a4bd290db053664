"""What a fleet tells of itself: a table of its workers, and all their metrics as one text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.display.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SHOWN = ("worker", "device", "done", "failed", "waiting", "seconds", "kernels", "compiled")


class FleetReport(list[dict[str, Any]]):
    """Facts of each worker, as plain data; shown as a table."""

    def __str__(self) -> str:
        """Return the table as lines of text."""
        rows = [_SHOWN, *(_cells(one) for one in self)]
        widths = [max(len(row[at]) for row in rows) for at in range(len(_SHOWN))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        return table([_cells(one) for one in self], head=_SHOWN, caption=f"Fleet of {len(self)} workers")


def _cells(facts: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{facts[name]:.2f}" if name == "seconds" else str(facts[name]) for name in _SHOWN)


def merged_metrics(texts: Iterable[tuple[str, str]]) -> str:
    """Return the metrics of several processes, each with its worker's address, as one text in which each family is once.

    Source: the Prometheus text exposition format 0.0.4.
    """
    families: dict[str, list[str]] = {}
    for worker, text in texts:
        lines: list[str] = []
        for line in text.splitlines():
            if line.startswith("# HELP "):
                lines = families.setdefault(line.split(" ", 3)[2], [line])
            elif line.startswith("#"):
                if line not in lines:
                    lines.append(line)
            else:
                name, brace, rest = line.partition("{")
                lines.append(f'{name}{{worker="{worker}",{rest}' if brace else _labelled(line, worker))
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


def _labelled(line: str, worker: str) -> str:
    name, _, value = line.partition(" ")
    return f'{name}{{worker="{worker}"}} {value}'
