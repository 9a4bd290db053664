"""What is said where kompute does not load."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from vyre_driver.errors import BackendUnavailable
from vyre_driver.kompute._kp import load_kompute

if TYPE_CHECKING:
    from collections.abc import Callable

BUNDLED = "vyre_driver.kompute.bundled.kp"
NO_LOADER = "libvulkan.so.1: cannot open shared object file: No such file or directory"
OLD_GLIBC = "/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.28' not found (required by kp.so)"
INSTALL_LOADER = "install the Vulkan loader (Debian, Ubuntu: libvulkan1; Fedora: vulkan-loader; Arch: vulkan-icd-loader)"
INSTALL_WHEEL = "install the wheel that pip itself chooses for this system, or build vyre_driver and kompute here from source"
BUILD = "install vyre_driver from a wheel for this Python, or run scripts/setup in a checkout"


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, ImportError]], BackendUnavailable]:
    """Load kompute where imports of these modules fail so."""

    def load(failing: dict[str, ImportError]) -> BackendUnavailable:
        class Failing:
            @staticmethod
            def find_spec(name: str, *_: object) -> None:
                if name in failing:
                    raise failing[name]

        for name in ("kp", BUNDLED):
            monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.setattr(sys, "meta_path", [Failing, *sys.meta_path])
        with pytest.raises(BackendUnavailable) as caught:
            load_kompute.__wrapped__()
        return caught.value

    return load


@pytest.mark.parametrize(("said", "fix"), [(NO_LOADER, INSTALL_LOADER), (OLD_GLIBC, INSTALL_WHEEL)])
def test_a_bundled_kompute_that_does_not_load_is_told_and_no_other_is_tried(
    said: str, fix: str, refused: Callable[[dict[str, ImportError]], BackendUnavailable]
) -> None:
    error = refused({BUNDLED: ImportError(said), "kp": ImportError("this one was asked")})
    assert (error.problem, error.fix) == (f"the kompute that comes with vyre_driver does not load ({said})", fix)


@pytest.mark.parametrize(
    ("cause", "fix"),
    [
        (ModuleNotFoundError("No module named 'kp'"), BUILD),
        (ImportError(NO_LOADER), INSTALL_LOADER),
        (ImportError(OLD_GLIBC), INSTALL_WHEEL),
    ],
)
def test_without_a_bundled_one_the_installed_kp_is_asked(
    cause: ImportError, fix: str, refused: Callable[[dict[str, ImportError]], BackendUnavailable]
) -> None:
    error = refused({BUNDLED: ModuleNotFoundError(f"No module named {BUNDLED!r}", name=BUNDLED), "kp": cause})
    assert (error.problem, error.fix) == (f"kp (kompute) cannot be imported ({cause})", fix)
