"""A program whose workgroup was tuned: faster where nobody can tell the difference, as declared where somebody could."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.errors import LimitExceeded
from vyre_driver.runtime.kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.runtime.bound import BoundKernel
    from vyre_driver.runtime.context import Context
    from vyre_driver.runtime.kernel import Groups
    from vyre_driver.runtime.kernel_pipelines import CompiledKernel
    from vyre_driver.runtime.options import CallOptions
    from vyre_driver.runtime.streamed import Slots, StreamedLoad
    from vyre_driver.runtime.trace import Trace


class TunedProgram(Kernel):
    """A program with another workgroup than it declares, and with the declared one where that is what has to run.

    A caller's own grid counts workgroups of the declared size, and invocations are rounded up to those. And a tuned one may be
    so small that the elements need more workgroups than the device allows (``maxComputeWorkGroupCount``), where the declared
    one needs fewer. The program is compiled with it when it is needed first. ``workgroup_size`` is the declared one; ``trace``
    is that of whichever ran last.
    """

    def __init__(
        self,
        context: Context,
        compiled: CompiledKernel,
        declared: tuple[int, int, int],
        compile_declared: Callable[[], CompiledKernel],
    ) -> None:
        """Made by ``Driver.compile``."""
        super().__init__(context, compiled)
        self.workgroup_size = declared
        self._compile_declared = compile_declared
        self._as_declared: Kernel | None = None
        self._ran_as_declared = False

    def _again(self, *call: Any) -> Any:  # noqa: ANN401 -- as Kernel's
        found = super()._again(*call)
        if found is not None:
            self._ran_as_declared = False
        return found

    def _run(self, arrays: tuple[object, ...], named: dict[str, object], options: CallOptions) -> list[Buffer | NDArray[Any]]:
        if options.workgroups is None and options.invocations is None:
            try:
                found = super()._run(arrays, named, options)
            except LimitExceeded:  # nothing has run; if it is another limit, what is declared is refused for it too
                pass
            else:
                self._ran_as_declared = False
                return found
        found = self._declared()._run(arrays, named, options)  # noqa: SLF001 -- its own class
        self._ran_as_declared = True
        return found

    def _load(self, arrays: tuple[object, ...], named: dict[str, object], options: CallOptions, slots: Slots) -> StreamedLoad:
        if options.workgroups is None and options.invocations is None:
            try:
                return super()._load(arrays, named, options, slots)
            except LimitExceeded:  # as in a call
                pass
        return self._declared()._load(arrays, named, options, slots)  # noqa: SLF001 -- its own class

    @property
    def trace(self) -> Trace:
        """What the cache said of what ran last, and where the time of that call went."""
        return self._declared().trace if self._ran_as_declared else super().trace

    def _bound(
        self, buffers: tuple[object, ...], groups: Groups, push_words: tuple[int, ...], label: str | None
    ) -> BoundKernel:
        if groups is None:
            try:
                return super()._bound(buffers, None, push_words, label)
            except LimitExceeded:
                pass
        return self._declared()._bound(buffers, groups, push_words, label)  # noqa: SLF001 -- its own class

    def _declared(self) -> Kernel:
        found = self._as_declared
        if found is None:  # under no lock: a listener may call this kernel, and twice compiled does no harm
            found = self._as_declared = Kernel(self._context, self._compile_declared())
        return found
