"""The programs of one kernel: made when they are needed first, and made anew when what they captured has changed."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.lang.frontend.translate import translate

if TYPE_CHECKING:
    import types

    from vyre_driver.lang.frontend.translate import TranslatedKernel
    from vyre_driver.lang.source.parameters import KernelSignature, Specialization

MAX_PROGRAMS = 32
"""Programs that a kernel keeps, of all constants, types and captured values; the least recently used goes first."""


@dataclass(eq=False, slots=True)
class _Entry:
    """A program, what it was made for, and when it was last asked for."""

    key: object
    translated: TranslatedKernel
    used: int


class Specializations:
    """What a function was translated to, by constants, types and captured values. ``lock`` is held while it is translated."""

    def __init__(self, function: types.FunctionType, signature: KernelSignature) -> None:
        """Translate nothing yet."""
        self.lock = threading.RLock()
        self._function = function
        self._signature = signature
        self._entries: tuple[_Entry, ...] = ()  # replaced, never changed: it is searched without the lock
        self._uses = itertools.count()

    def get(self, specialization: Specialization) -> TranslatedKernel:
        """Return the program for constants and types, and for what the function's names stand for now.

        Raises
        ------
        KernelSourceError
            As ``translate``.
        """
        key = (repr(specialization.constants), specialization)  # 0.0 equals -0.0
        translated = self._unchanged(key)
        if translated is not None:
            return translated
        with self.lock:
            translated = self._unchanged(key)
            if translated is None:
                translated = translate(self._function, self._signature, specialization)
                kept = sorted(self._entries, key=lambda entry: entry.used)[-(MAX_PROGRAMS - 1) :]
                self._entries = (*kept, _Entry(key, translated, next(self._uses)))
            return translated

    def _unchanged(self, key: object) -> TranslatedKernel | None:
        for entry in self._entries:
            if entry.key == key and entry.translated.captured.changed() is None:
                entry.used = next(self._uses)
                return entry.translated
        return None
