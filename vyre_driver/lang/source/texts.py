"""Source that lies in no file: kept where Python looks for lines, so that functions made of it are found and shown."""

from __future__ import annotations

import functools
import hashlib
import linecache
import threading
import types
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


_lock = threading.RLock()  # which a collection may want on the thread that has it
_alive: dict[str, dict[int, weakref.ref[types.CodeType]]] = {}


def remember(filename: str, text: str, made: types.CodeType) -> None:
    """Keep the lines of a text under a name that no file has, as long as any code is alive that was made of it.

    That is code within ``made``: of a function that somebody has, or of a frame in a traceback.
    """
    with _lock:
        kept = _alive.get(filename, {})
        for one in _codes(made):
            kept[id(one)] = weakref.ref(one, functools.partial(_forget, filename, id(one)))
        # Last, for a collection on this thread may have forgotten the text just before.
        _alive[filename] = kept
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)


def _codes(made: types.CodeType) -> Iterator[types.CodeType]:
    yield made
    for one in made.co_consts:
        if isinstance(one, types.CodeType):
            yield from _codes(one)


def _forget(filename: str, key: int, gone: weakref.ref[types.CodeType]) -> None:
    with _lock:
        kept = _alive.get(filename, {})
        if kept.get(key) is gone:  # not one that was made since in the same place
            del kept[key]
        if not kept and _alive.pop(filename, None) is not None:
            linecache.cache.pop(filename, None)


def name_of(text: str) -> str:
    """Return the name that a text is kept under: the same for the same text, in each process."""
    return f"<kernel source {hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}>"


def remembered(filename: str) -> str | None:
    """Return the text of a source that lies in no file, None for one that does or that nobody has kept."""
    found = linecache.cache.get(filename)
    if found is None or len(found) < 4 or found[1] is not None:
        return None
    return "".join(found[2])
