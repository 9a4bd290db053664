"""Imports that an interrupt must not break off: some modules in C can be initialised only once a process.

The next import of a module that was left half imported raises "cannot load module more than once per process" or crashes.
"""

from __future__ import annotations

import sys

from vyre_driver._loading import check_numpy, missing_is_named
from vyre_driver.process._lock import call_uninterrupted


def check_required() -> None:
    """Import numpy and blake3, which nearly every package needs, and check that numpy fits.

    Raises
    ------
    InstallationUnusable
        If one is missing, or numpy is another module or too old.
    """
    with missing_is_named():
        import blake3  # noqa: F401 -- only whether it is there

        import_numpy()
    check_numpy()


def import_numpy() -> None:
    """Import numpy if nobody has begun to; raises what that raises."""
    if sys.modules.get("numpy") is None:  # None: it must not be imported, and the error is to say so
        call_uninterrupted(_import_numpy)


def _import_numpy() -> None:
    import numpy  # noqa: F401, ICN001 -- for those that come later
