"""Nannies that go on trying where a process that they start again does not come up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from distributed import Nanny, Status

if TYPE_CHECKING:
    from typing import Literal

_LONGEST_S = 30.0
_FAILED = "nanny-instantiate-failed"


class RestartingNanny(Nanny):  # type: ignore[misc] # Dask has no types that we use
    """Starts its process again after 1, 2, 4 and at most 30 s where the device cannot be opened, say because it is being reset.

    Dask's own closes when a restart fails once, and the fleet has a worker less from then on. A first start that fails is an
    error of the fleet's.
    """

    _failures = 0

    async def instantiate(self) -> Status:
        """Start the process, later if the last start failed."""
        if self._failures:
            await asyncio.sleep(min(2.0 ** (self._failures - 1), _LONGEST_S))
            if self.status != Status.running:  # it was closed meanwhile
                return Status.closed
        found: Status = await super().instantiate()
        self._failures = 0
        return found

    async def close(self, timeout: float = 5, reason: str = "nanny-close") -> Literal["OK"]:
        """Close, but not because a process did not come up again: that one's end has another started."""
        if reason == _FAILED and self.status == Status.running:
            self._failures += 1
            return "OK"
        closed: Any = await super().close(timeout=timeout, reason=reason)
        return "OK" if closed is None else closed
