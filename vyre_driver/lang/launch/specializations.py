"""The programs of one kernel: made when they are needed first, and made anew when what they captured has changed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from vyre_driver.lang.frontend.translate import translate

if TYPE_CHECKING:
    import types

    from vyre_driver.lang.frontend.translate import TranslatedKernel
    from vyre_driver.lang.source.parameters import KernelSignature, Specialization

_MOST_KEPT = 8  # of one specialization: with other values captured


class Specializations:
    """What a function was translated to, by constants and types. ``lock`` is held while it is translated."""

    def __init__(self, function: types.FunctionType, signature: KernelSignature) -> None:
        """Translate nothing yet."""
        self.lock = threading.RLock()
        self._function = function
        self._signature = signature
        self._found: dict[object, tuple[TranslatedKernel, ...]] = {}

    def get(self, specialization: Specialization) -> TranslatedKernel:
        """Return the program for constants and types, and for what the function's names stand for now.

        Raises
        ------
        KernelSourceError
            As ``translate``.
        """
        key = (repr(specialization.constants), specialization)  # 0.0 equals -0.0
        found = self._unchanged(key)
        if found is not None:
            return found
        with self.lock:
            found = self._unchanged(key)
            if found is None:
                found = translate(self._function, self._signature, specialization)
                self._found[key] = (found, *self._found.get(key, ())[: _MOST_KEPT - 1])
            return found

    def _unchanged(self, key: object) -> TranslatedKernel | None:
        return next((one for one in self._found.get(key, ()) if one.captured.changed() is None), None)
