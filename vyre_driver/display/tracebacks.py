"""Errors in a kernel, a call, or of opening a device, raised where it was called: frames between are ours, and say nothing."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from vyre_driver.errors import (
    BackendUnavailable,
    DeviceNotFound,
    InstallationUnusable,
    InvalidInput,
    InvalidSetting,
    KernelSourceError,
    VulkanUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

TOLD_BY_THEMSELVES = (
    KernelSourceError,
    InvalidInput,
    InvalidSetting,
    VulkanUnavailable,
    DeviceNotFound,
    BackendUnavailable,
    InstallationUnusable,
)
"""The errors whose message has the place: in the kernel, the argument, the setting, or what is installed."""


def shortens_tracebacks(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function whose errors of these kinds have one frame below that of the caller."""

    @functools.wraps(function)
    def called(*given: P.args, **named: P.kwargs) -> R:
        try:
            return function(*given, **named)
        except TOLD_BY_THEMSELVES as error:
            raise error.with_traceback(None) from error.__cause__

    return called
