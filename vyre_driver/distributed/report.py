"""A table of a fleet's workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.display.tables import table

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHOWN = ("worker", "device", "done", "failed", "waiting", "seconds", "kernels", "misses")


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
