"""Source that lies in no file: kept where Python looks for lines, so that functions made of it are found and shown."""

from __future__ import annotations

import hashlib
import linecache


def remember(filename: str, text: str) -> None:
    """Keep the lines of a text under a name that no file has."""
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)


def name_of(text: str) -> str:
    """Return the name that a text is kept under: the same for the same text, in each process."""
    return f"<kernel source {hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}>"


def remembered(filename: str) -> str | None:
    """Return the text of a source that lies in no file, None for one that does or that nobody has kept."""
    found = linecache.cache.get(filename)
    if found is None or len(found) < 4 or found[1] is not None:
        return None
    return "".join(found[2])
