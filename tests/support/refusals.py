"""What a call is refused with."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

Error = TypeVar("Error", bound=BaseException)


def refusal(call: Callable[[], object], kind: type[Error] | tuple[type[Error], ...]) -> Error:
    """Return the error of this class, or of one of these, that a call raises."""
    with pytest.raises(kind) as refused:
        call()
    return refused.value
