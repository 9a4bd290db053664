"""What has to be the same in every process of a fleet, and the check of it."""

from __future__ import annotations

import platform
from typing import NamedTuple

from vyre_driver._version import __version__
from vyre_driver.errors import InstallationUnusable
from vyre_driver.lowering.emit.target import EMITTER_VERSION


class Versions(NamedTuple):
    """Versions of this package, of the code that it emits, and of Python."""

    package: str
    emitter: int
    python: str

    @classmethod
    def own(cls) -> Versions:
        """Return those of this process."""
        return cls(__version__, EMITTER_VERSION, ".".join(platform.python_version_tuple()[:2]))

    def check_same(self, where: str) -> None:
        """Check that this process has these versions.

        Raises
        ------
        InstallationUnusable
            If one differs: ``where`` says which process this is.
        """
        own = Versions.own()
        differing = [
            f"{name} {mine} here and {theirs} there"
            for name, mine, theirs in zip(("vyre-driver", "emitter", "Python"), own, self, strict=True)
            if mine != theirs
        ]
        if differing:
            raise InstallationUnusable(
                f"{where} cannot join the fleet: {', '.join(differing)}",
                fix=f"install vyre-driver {self.package} on Python {self.python} there",
            )
