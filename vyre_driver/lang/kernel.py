"""Kernels that are written as Python functions: the decorator, and the object that it makes."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

from vyre_driver.binding import _call_form
from vyre_driver.errors import InvalidInput
from vyre_driver.lang.launch.default_driver import DEFAULT
from vyre_driver.lang.launch.launch import ArgumentPlaces
from vyre_driver.lang.launch.launcher import Choices, Definition, Launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.lang.launch.launch import Launch

_MOST_CHOICES = 64


def _no_launch() -> None:
    return None


class Kernel:
    """A kernel that is written as a Python function; called with arrays it runs on a device. Made by :func:`kernel`.

    ``on``, ``over``, ``groups`` and ``with_`` give the same kernel with something said beforehand.
    """

    def __init__(self, function: types.FunctionType, definition: Definition) -> None:
        """Wrap a function; made by :func:`kernel`."""
        functools.update_wrapper(self, function)
        self.function = function
        self.definition = definition
        self._launcher = Launcher(definition)
        self._places = ArgumentPlaces(definition.signature)
        self._choices = Choices()
        self._device: KomputeDevice | None = None
        self._whole = self
        self._chosen: dict[object, Kernel] = {}
        self._last: Callable[[], Launch | None] = _no_launch

    def __call__(self, /, *given: Any, **named: Any) -> Any:  # noqa: ANN401 -- arrays, numbers, and what comes back
        """Run the kernel; what is given for ``Out`` and ``InOut`` is written in place and returned.

        An ``Out`` that is left out is made: a numpy array, or a buffer where all arrays that are given are buffers. Numbers are
        given by position or name, constants by name, as are ``timeout``, ``strict`` and ``label`` (``Kernel`` of the runtime).
        A call in which an array has no elements runs nothing.

        Raises
        ------
        InvalidInput
            If arrays, numbers or constants do not fit, or nothing says how far the kernel goes; nothing has run then.
        KernelSourceError
            If the function cannot be translated.
        VyreError
            What the driver raises, its compiler and its kernels.
        """
        last = self._last()
        if last is not None and not named and len(given) == self._places.count:
            places = self._places
            arrays = places.arrays(given)
            if _call_form.matches(last.form, arrays, None, None, last.kind) and last.changed() is None:
                if last.kind is not _ARRAY:
                    device = arrays[0].device
                else:
                    device = DEFAULT.device if self._device is None else self._device
                if device is last.device:
                    numbers = dict(zip(places.names, places.numbers(given), strict=True))
                    numbers.update(last.fixed)
                    try:
                        return last.compiled(
                            *places.inputs(given),
                            push_constants=numbers,
                            out=places.outputs(given) if last.writes else None,
                            **last.grid,
                        )
                    except InvalidInput:
                        pass  # nothing has run: below it is said in the words of this kernel
                    except _InvalidPushConstant:
                        pass
        launch, result = self._launcher.call(self._choices, given, named)
        if launch.form is not None:
            self._last = _reference(launch)
        return result
