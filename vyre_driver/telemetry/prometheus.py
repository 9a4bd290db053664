"""A driver's counters in Prometheus's text format.

Source: the Prometheus text exposition format 0.0.4. Names end in ``_total`` for what only grows, and carry their unit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "vyre_driver_"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class _Family:
    kind: str
    about: str
    samples: list[str] = field(default_factory=list)


class MetricsText:
    """Metric families, collected one sample after the other and written out together."""

    def __init__(self, labels: Mapping[str, str] | None = None) -> None:
        """Start without any; ``labels`` are those that samples get from now on."""
        self.labels = dict(labels or {})
        self._families: dict[str, _Family] = {}

    def counter(self, name: str, about: str, value: float, **labels: object) -> None:
        """Add a sample of what only grows; the name is without prefix and ``_total``."""
        self._add(f"{PREFIX}{name}_total", "counter", about, value, labels)

    def gauge(self, name: str, about: str, value: float, **labels: object) -> None:
        """Add a gauge; its name is given without the prefix."""
        self._add(f"{PREFIX}{name}", "gauge", about, value, labels)

    def _add(self, name: str, kind: str, about: str, value: float, labels: Mapping[str, object]) -> None:
        family = self._families.setdefault(name, _Family(kind, about))
        pairs = ",".join(f'{label}="{str(said).translate(_ESCAPES)}"' for label, said in {**self.labels, **labels}.items())
        family.samples.append(f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}")

    def __str__(self) -> str:
        """Return the text: families in the order in which they came, each with its help and type."""
        lines = []
        for name, family in self._families.items():
            lines += [f"# HELP {name} {family.about.translate(_HELP_ESCAPES)}", f"# TYPE {name} {family.kind}", *family.samples]
        return "".join(f"{line}\n" for line in lines)


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(int(value))
    return repr(value) if math.isfinite(value) else {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
