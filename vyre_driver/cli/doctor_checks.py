"""The result of a ``vyre-driver doctor`` check, and its form on the way from the child process."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, field
from typing import Any


class State(enum.Enum):
    """How a check came out, from good to bad."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the examination: what was looked at, how it is, details below it, what to do, and the facts as data."""

    name: str
    state: State
    says: str
    details: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self) | {"state": self.state.value, "details": list(self.details), "fixes": list(self.fixes)}

    @classmethod
    def of_data(cls, data: dict[str, Any]) -> Check:
        """Return what ``as_data`` was made of."""
        return cls(**{**data, "state": State(data["state"]), "details": tuple(data["details"]), "fixes": tuple(data["fixes"])})


def worst(checks: list[Check]) -> State:
    """Return the worst state of all."""
    order = list(State)
    return max((one.state for one in checks), key=order.index, default=State.OK)
