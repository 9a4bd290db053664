"""Whether what is installed can be used: compiled modules that are this Python's and load, the GIL, numpy's version."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.errors import InstallationUnusable

_ROOT = __file__.removesuffix("_loading.py")
OLDEST_NUMPY = (1, 24)  # as in pyproject.toml
REQUIRED = ("numpy", "blake3", "filelock", "platformdirs", "rich", "tomli_w", "tomli", "shtab")  # the same


def check_compiled(root: str) -> None:
    """Check that the package in this folder has compiled modules for this Python: the lack would be called a circular import.

    Raises
    ------
    InstallationUnusable
        If it has none, or those of another Python or system.
    """
    if PathFinder.find_spec("vyre_driver._fast", [root]) is not None:
        return
    from pathlib import Path

    from vyre_driver.errors import InstallationUnusable

    there = sorted(one.name.removeprefix("_fast.").removesuffix(".so") for one in Path(root).glob("_fast.*.so"))
    wanted = EXTENSION_SUFFIXES[0].removeprefix(".").removesuffix(".so")
    if not Path(root).is_dir():
        problem = f"{root} lies in an archive, from which Python cannot load compiled modules"
        fix = "pip install the wheel, and take it out of PYTHONPATH and sys.path"
    elif there:
        problem = f"the vyre_driver in {root} is compiled for {', '.join(there)}, and this Python takes {wanted}"
        fix = (
            "install it with this Python's pip, which refuses a wheel that does not fit; "
            "in a source tree, run scripts/setup or `pip install -e .`"
        )
    elif any(Path(root).glob("*/_*.so")):
        problem = f"the vyre_driver in {root} lacks its compiled module _fast.{wanted}.so"
        fix = "install it anew (pip install --force-reinstall, or scripts/setup in a source tree)"
    else:
        problem = f"the vyre_driver in {root} has no compiled modules for Python {sys.version_info[0]}.{sys.version_info[1]}"
        fix = "run scripts/setup, or `pip install -e .` in that source tree"
        fix += "; or leave its folder, so that the installed one is found"
    raise InstallationUnusable(problem, fix=fix, path=root)


def take_gil_back() -> None:
    """Have a free-threaded Python take its GIL back, which it says by a RuntimeWarning.

    Raises
    ------
    InstallationUnusable
        If PYTHON_GIL=0 or -X gil=0 keeps it off.
    """
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)
    if has_gil():
        return
    import vyre_driver._fast  # noqa: F401 -- it wants the GIL

    if not has_gil():
        from vyre_driver.errors import InstallationUnusable

        raise InstallationUnusable(
            "vyre_driver and kompute need the GIL, and PYTHON_GIL=0 or -X gil=0 keeps it off",
            fix="leave both out, or set PYTHON_GIL=1",
        )


def check_numpy() -> None:
    """Check that what was imported as numpy, if anything was, is numpy and new enough: pip can be told to install any.

    Raises
    ------
    InstallationUnusable
        If it is something else, as a file of that name in the working directory, or too old.
    """
    numpy = sys.modules.get("numpy")
    version = str(getattr(numpy, "__version__", ""))
    if numpy is not None and not version:
        from vyre_driver.errors import InstallationUnusable

        place = getattr(numpy, "__file__", None) or next(iter(getattr(numpy, "__path__", [])), "numpy")
        raise InstallationUnusable(f"{place} was imported as numpy, and is another module", fix=f"rename or remove {place}")
    numbers = [int(part) for part in version.split(".")[:2] if part.isdecimal()]
    if len(numbers) == 2 and tuple(numbers) < OLDEST_NUMPY:
        from vyre_driver.errors import InstallationUnusable

        needed = ".".join(map(str, OLDEST_NUMPY))
        raise InstallationUnusable(
            f"numpy {version} is installed, and vyre_driver needs {needed} or newer", fix=f"pip install 'numpy>={needed}'"
        )


@contextmanager
def missing_is_named() -> Iterator[None]:
    """Raise InstallationUnusable, with the fix, where the block imports a required package that is missing."""
    try:
        yield
    except (ImportError, AttributeError) as error:
        unusable = explained(error)
        if unusable is None:
            raise
        raise unusable from error


def explained(error: ImportError | AttributeError) -> InstallationUnusable | None:
    """Return an error in a sentence, if a required package is missing or is another module, or a compiled module is refused."""
    from vyre_driver.errors import InstallationUnusable

    try:
        check_numpy()
    except InstallationUnusable as told:  # what another module lacks is an AttributeError
        return told
    if isinstance(error, ModuleNotFoundError) and error.name in REQUIRED:
        name = error.name.replace("_", "-")
        return InstallationUnusable(f"{name} is not installed, and vyre_driver needs it", fix=f"pip install {name}", path=_ROOT)
    file = "" if isinstance(error, AttributeError | ModuleNotFoundError) else str(error.path)
    if not (file.startswith(_ROOT) and file.endswith(".so")):
        return None
    fix = "install vyre_driver anew with this Python's pip, from a wheel that pip takes or from source"
    if "GLIBC" in str(error):
        fix = "install it with pip on this system, from a wheel whose manylinux tag names no newer glibc, or from source"
    elif "ld-linux" in str(error) or "Error relocating" in str(error):  # as musl says it
        fix = "install vyre_driver from source: its wheels are for glibc, and this system has another C library"
    return InstallationUnusable(f"{file} does not load ({error})", fix=fix, path=file)
