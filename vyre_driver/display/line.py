"""The one line that ``repr`` shows of an object: what it is, which one, and its state."""

from __future__ import annotations


def one_line(kind: str, *parts: str) -> str:
    """Return ``<vyre_driver.KIND PART, PART>``; empty parts are left out.

    What makes the parts may be called at any time, of any thread, after ``close`` and from a debugger: it takes no lock, asks
    neither disk nor device, and raises nothing. Texts from outside go in by ``repr``, so that the line stays one.
    """
    shown = ", ".join(filter(None, parts))
    return f"<vyre_driver.{kind} {shown}>" if shown else f"<vyre_driver.{kind}>"


def count(number: int, what: str) -> str:
    """Return a number of things whose plural ends in s: ``1 record``, ``2 records``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
