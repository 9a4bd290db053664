"""What belongs to a device that this process has open: a copy would be a second owner, and other processes have no such."""

from __future__ import annotations

from typing import NoReturn, SupportsIndex

from vyre_driver.errors import with_article


def refuse_copies(self: object, _protocol: SupportsIndex) -> NoReturn:
    """Raise TypeError; the ``__reduce_ex__`` of classes whose objects are neither copied nor pickled."""
    raise TypeError(
        f"{with_article(type(self).__name__)} belongs to a device that this process has open, and is neither copied nor "
        "pickled. Fix: make another where it is needed; the cache keeps what is compiled."
    )
