"""Objects that hold numbers and speak one protocol only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


class OnlyArrayInterface:
    """Nothing but ``__array_interface__``."""

    def __init__(self, held: np.ndarray[Any, Any]) -> None:
        self.held = held

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.held.__array_interface__


class OnlyDLPack:
    """Nothing but DLPack; ``device`` is the device it says it is on."""

    def __init__(self, held: np.ndarray[Any, Any], device: tuple[int, int] = (1, 0)) -> None:
        self.held = held
        self.device = device

    def __dlpack__(self, **options: Any) -> Any:  # noqa: ANN401 -- DLPack's
        return self.held.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device
