"""A kernel bound to buffers and numbers, whose numbers are set by the names and types of its parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.display.line import one_line
from vyre_driver.errors import InvalidInput
from vyre_driver.lang.launch.scalars import checked
from vyre_driver.runtime.bound import BoundKernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.lang.launch.launch import Launch


class BoundPythonKernel(BoundKernel):
    """What :meth:`vyre_driver.lang.kernel.Kernel.bind` returns."""

    __slots__ = ("_launch", "_numbers", "_stored")

    def __init__(self, bound: BoundKernel, launch: Launch, numbers: Mapping[str, Any], stored: Buffer | None) -> None:
        """Be what was bound; ``stored`` is the buffer of its numbers where they are too many to be pushed."""
        super().__init__(bound._dispatch)  # noqa: SLF001 -- of its own class
        self._launch = launch
        self._numbers = numbers
        self._stored = stored

    def set(self, /, **numbers: object) -> None:
        """Replace numbers, all or some of them, in what is run and submitted from now on; the others keep their values.

        Work that is under way keeps the values that it was handed over with. A batch that holds this kernel takes the new ones
        when it is next run or submitted. Other kernels that were bound to the same buffers have values of their own.

        Raises
        ------
        InvalidInput
            If the kernel has no such number, or it does not fit; all keep their values then.
        DispatchFailed
            If the dispatch cannot be recorded, or the driver is closed.
        """
        try:
            found = self._checked(numbers)
        except InvalidInput as error:
            raise error.with_traceback(None) from None
        if self._stored is None:
            super().set(**found)
        else:
            self._numbers = {**self._numbers, **found}
            self._stored.write(self._launch.words(self._numbers))

    def _checked(self, numbers: Mapping[str, object]) -> dict[str, Any]:
        """Return numbers as Python's own; raises InvalidInput."""
        name, scalars = self._launch.name, self._launch.scalars
        for one in numbers:
            if one not in scalars:
                known = ", ".join(map(repr, scalars))
                raise InvalidInput(
                    f"{name} has no number {one!r} to be set",
                    fix=f"set {known}; for other arrays or constants bind it again" if known else "bind it again",
                    parameter=one,
                )
        return {one: checked(name, *scalars[one], value) for one, value in numbers.items()}

    def __repr__(self) -> str:
        """Return which kernel it is of, on one line."""
        return one_line("BoundKernel", f"of {self._launch.name}")
