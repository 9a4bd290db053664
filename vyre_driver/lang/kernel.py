"""Kernels that are written as Python functions: the decorator, and the object that it makes."""

from __future__ import annotations

import functools
import inspect
import sys
import textwrap
import types
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from vyre_driver import settings
from vyre_driver.display.line import one_line
from vyre_driver.display.tracebacks import TOLD_BY_THEMSELVES, shortens_tracebacks
from vyre_driver.errors import InvalidInput, InvalidPushConstant, KernelSourceError, KernelSyntaxError, KernelTypeError
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang.launch.choices import Choices, chosen_driver, chosen_extent, chosen_values, specialization_of
from vyre_driver.lang.launch.fitting import Definition
from vyre_driver.lang.launch.launcher import Launcher
from vyre_driver.lang.launch.races import warn_of_updates
from vyre_driver.lang.launch.recent import RecentLaunches
from vyre_driver.lang.launch.signatures import checked_over, parsed, with_ranks
from vyre_driver.lang.launch.specializations import Specializations
from vyre_driver.lang.pickling import reduced_kernel
from vyre_driver.lang.source.parameters import signature_of
from vyre_driver.lang.source.text import filename_of, remember
from vyre_driver.lowering.program import emitted
from vyre_driver.runtime._quick import NotQuick, QuickLaunches
from vyre_driver.runtime.describe import SignatureProperty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vyre_driver.autotune.measure.tune import TuningResult
    from vyre_driver.autotune.search.outcomes import Budget, Progress
    from vyre_driver.driver import Driver
    from vyre_driver.ir.program import Program
    from vyre_driver.lang.explain.explanation import Explanation
    from vyre_driver.lang.frontend.translate import TranslatedKernel
    from vyre_driver.lang.source.parameters import Specialization
    from vyre_driver.lang.types import ScalarType
    from vyre_driver.runtime.bound import BoundKernel
    from vyre_driver.runtime.context import Context
    from vyre_driver.runtime.kernel import Kernel as CompiledKernel
    from vyre_driver.runtime.streamed_call import StreamedCall
    from vyre_driver.spirv.module import SpirvModule

_MOST_CHOICES = 64
_BY_POSITION, _BY_NAME = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY


class Kernel:
    """A kernel that is written as a Python function; called with arrays it runs on a device. Made by :func:`kernel`.

    ``on``, ``over``, ``groups`` and ``with_`` give the same kernel with something said beforehand. May be called from several
    threads.
    """

    __class_getitem__: Any = classmethod(GenericAlias)  # type checkers know it by its parameters: Kernel[...]

    def __init__(
        self,
        function: types.FunctionType,
        definition: Definition,
        choices: Choices | None = None,
        launcher: Launcher | None = None,
    ) -> None:
        """Wrap a function; made by :func:`kernel`."""
        functools.update_wrapper(self, function)
        self.function = function
        """The function as it was written."""
        self.definition = definition
        """Its name and parameters, and what the decorator says."""
        self._choices = Choices() if choices is None else choices
        self._launcher = Launcher(definition) if launcher is None else launcher
        self._chosen: dict[object, Kernel] = {}
        self._recent = RecentLaunches()
        self._quick = QuickLaunches(settings.INTERPRET.variable.encode())

    def __call__(self, /, *given: Any, **named: Any) -> Any:  # noqa: ANN401 -- arrays, numbers, and what comes back
        """Run the kernel; what is given for ``Out`` and ``InOut`` is written in place and returned.

        An ``Out`` that is left out is made: a numpy array, or a buffer where all arrays that are given are buffers. Numbers are
        given by position or name, constants by name, as are ``timeout``, ``strict`` and ``label``
        (:meth:`vyre_driver.runtime.kernel.Kernel.__call__`). A call in which an array has no elements runs nothing.

        Raises
        ------
        InvalidInput
            If arrays, numbers or constants do not fit, or nothing says how far the kernel goes; nothing has run then.
        KernelSourceError
            If the function cannot be translated.
        VyreError
            If the driver, its compiler or its kernels raise it.
        """
        result: Any = NotQuick if named else self._quick.run(given)
        if result is not NotQuick:
            return result
        known = None if named else self._recent.find(given, self._choices.driver)
        if known is not None:
            try:
                launch, taken = known
                result = launch.run_again(taken)
            except (InvalidInput, InvalidPushConstant):
                pass  # nothing has run: below it is said in the words of this kernel
            else:
                if launch.places is not None:
                    quick = launch.quick_launch(taken)
                    if quick is not None:
                        self._quick.add(quick)
                return result
        try:
            how = settings.choice(settings.INTERPRET, ("0", "1", "python"))
            if how in {"1", "python"}:
                return (self.interpret if how == "1" else self.python)(*given, **named)
            launch, result = self._launcher.call(self._choices, given, named)
        except TOLD_BY_THEMSELVES as error:
            raise error.with_traceback(None) from error.__cause__
        self._recent.add(launch)
        return result

    @shortens_tracebacks
    def bind(self, /, *given: Any, **named: Any) -> BoundKernel:  # noqa: ANN401 -- buffers and numbers
        """Bind resident buffers and numbers, and record the dispatch: ``run()``, ``submit()``, into ``driver.batch()``.

        Every array is given, and is a buffer. ``set(a=3.0)`` of what is returned replaces numbers by name.

        Raises
        ------
        InvalidInput
            As a call, and where something is no buffer.
        KernelSourceError
            If the function cannot be translated.
        VyreError
            If the driver raises it.
        """
        known = None if named else self._recent.find(given, self._choices.driver)
        if known is not None and known[0].kind is Buffer and not known[0].left_out:
            try:
                launch, taken = known
                return launch.bind_again(taken)
            except (InvalidInput, InvalidPushConstant):
                pass  # nothing was recorded: below it is said in the words of this kernel
        launch, found = self._launcher.bound(self._choices, given, named)
        self._recent.add(launch)
        return found

    @shortens_tracebacks
    def __vyre_stream__(self, context: Context, given: tuple[Any, ...], named: dict[str, Any], out: object) -> StreamedCall:
        """Return a call of it in ``Driver.stream``."""
        from vyre_driver.lang.launch.streaming import streamed_call  # late: few processes stream

        return streamed_call(self._launcher, self._choices, self.function, context.device.driver(), given, named, out)

    @shortens_tracebacks
    def tune(
        self,
        /,
        *given: Any,  # noqa: ANN401 -- as a call
        seconds: float | None = None,
        budget: Budget | None = None,
        tolerance: float = 0.0,
        replace: bool = True,
        on_progress: Callable[[Progress], None] | None = None,
        **named: Any,  # noqa: ANN401 -- as a call
    ) -> TuningResult:
        """Measure what the decorator's ``tune`` names on a call, and keep the best as a record, which calls like it use then.

        The arrays are not changed: candidates work on copies, and what they write is compared.

        Parameters
        ----------
        given, named
            As a call's. Constants that are given are not tuned.
        seconds, budget
            How long to search, in all or in detail; one of them, or neither.
        tolerance
            How far what two candidates write may be apart, relative to the largest magnitude in it.
        replace, on_progress
            As :func:`vyre_driver.autotune.measure.tune.tune`.

        Raises
        ------
        InvalidInput
            If the call does not fit, or nothing is left to tune.
        TuningFailed
            As ``Driver.tune``.
        """
        from vyre_driver.autotune.measure.calls import budget_of  # late: most processes tune nothing
        from vyre_driver.lang.launch.tuning import tune_call

        how = {"budget": budget_of(seconds, budget), "replace": replace, "on_progress": on_progress}
        return tune_call(self._launcher, self._choices, given, named, tolerance=tolerance, **how)

    @shortens_tracebacks
    def interpret(self, /, *given: Any, **named: Any) -> Any:  # noqa: ANN401 -- as a call
        """Run a call on the reference interpreter instead of a device, to find what is wrong with it; returns what a call does.

        No device is needed. Buffers are copied to the host, and back. ``timeout``, ``strict`` and ``label`` say nothing here.
        With ``VYRE_INTERPRET=1`` every call is run so.

        Raises
        ------
        InvalidInput
            As a call.
        KernelSourceError
            If the function cannot be translated.
        KernelFault
            If an index is out of range, two invocations race, some miss a barrier, or one runs too long: with the line.
        KernelAssertionError
            If an ``assert`` of the kernel does not hold.
        """
        from vyre_driver.lang.launch.off_device import run_on_reference  # late: few processes interpret

        return run_on_reference(self._launcher, self._choices, given, named)

    @shortens_tracebacks
    def python(self, /, *given: Any, **named: Any) -> Any:  # noqa: ANN401 -- as a call
        """Run a call as the Python function that it is, one invocation after the other; returns what a call does.

        ``print``, ``assert``, ``breakpoint()`` and ``pdb`` work at the kernel's own lines; results are those of the program.
        No device is needed. Buffers are copied to the host, and back. With ``VYRE_INTERPRET=python`` every call is run so.

        Raises
        ------
        InvalidInput
            As a call.
        KernelSourceError
            If the function cannot be translated.
        DivergentBarrier
            If some invocations of a workgroup miss a barrier.
        """
        from vyre_driver.lang.launch.off_device import run_plainly  # late: few processes interpret

        return run_plainly(self.function, self._launcher, self._choices, given, named)

    @shortens_tracebacks
    def on(self, driver: Driver) -> Kernel:
        """Return this kernel on a driver, instead of that of its buffers or the default one.

        Raises
        ------
        InvalidInput
            If it is no driver.
        """
        return self._with(self._choices._replace(driver=chosen_driver(self.definition, driver)))

    @shortens_tracebacks
    def over(self, *extent: int) -> Kernel:
        """Return this kernel with how far its indices go: elements along each axis, slowest first as its parameters.

        Raises
        ------
        InvalidInput
            If the kernel has another number of axes, or an extent is no whole number of 0 or more.
        """
        return self._with(self._choices._replace(over=chosen_extent(self.definition, "over", extent), groups=None))

    @shortens_tracebacks
    def groups(self, *count: int) -> Kernel:
        """Return this kernel with how many workgroups run along each axis, slowest first.

        Raises
        ------
        InvalidInput
            If the kernel has no Group or another number of axes, or a count is no whole number of 0 or more.
        """
        return self._with(self._choices._replace(groups=chosen_extent(self.definition, "groups", count), over=None))

    @shortens_tracebacks
    def with_(self, /, **given: bool | float | ScalarType) -> Kernel:
        """Return this kernel with values for its constants, and types for its type variables: ``with_(BLOCK=64, T=f32)``.

        Raises
        ------
        InvalidInput
            If it has no such constant or type variable, a value is of another type, or a type is not allowed.
        """
        constants, types_ = chosen_values(self.definition, self._choices, given)
        return self._with(self._choices._replace(constants=constants, types=types_))

    @shortens_tracebacks
    def program(self, /, **given: bool | float | ScalarType) -> Program:
        """Return the program of the kernel, for values of its constants and types for its type variables, by name.

        Raises
        ------
        InvalidInput
            If a constant without a default, or a type variable, is not given.
        KernelSourceError
            If the function cannot be translated.
        """
        return self.translated(**given).program

    def __vyre_program__(self) -> Program:
        """Return the program for ``Driver.compile``; warns of updates that are lost, for it sees no call."""
        translated = self.translated()
        warn_of_updates(self.definition, translated)
        return translated.program

    @shortens_tracebacks
    def spirv(self, /, **given: bool | float | ScalarType) -> SpirvModule:
        """Return the SPIR-V of the program for the device that was chosen by ``on``, else for any; arguments as of ``program``.

        Raises
        ------
        InvalidInput
            As ``program``.
        KernelSourceError
            As ``program``.
        UnsupportedFeature
            If it needs what the device, or without one any, has not.
        """
        from vyre_driver.spirv.module import SpirvModule

        translated = self.translated(**given)
        module = emitted(translated.program, self.definition.config(translated), self._choices.device)
        return SpirvModule.from_bytes(module.code, name=self.definition.name)

    @shortens_tracebacks
    def disassemble(self, /, **given: bool | float | ScalarType) -> str:
        """Return the SPIR-V as text, by spirv-dis; arguments as of ``spirv``.

        Raises
        ------
        InvalidInput
            As ``program``.
        KernelSourceError
            As ``program``.
        UnsupportedFeature
            As ``spirv``.
        ToolUnavailable
            If spirv-dis is not installed.
        """
        from vyre_driver.spirv.disassembler import disassemble  # late: most processes look at no code

        return disassemble(self.spirv(**given).code, self.definition.name)

    @shortens_tracebacks
    def explain(self, /, **given: bool | float | ScalarType) -> Explanation:
        """Tell types, extents, the checks of bounds that remain, and the lines that read and write; arguments as of ``spirv``.

        Raises
        ------
        InvalidInput
            As ``program``.
        KernelSourceError
            As ``program``.
        UnsupportedFeature
            As ``spirv``.
        """
        from vyre_driver.lang.explain.explanation import explained  # late: most processes look at no code

        definition, translated = self.definition, self.translated(**given)
        return explained(definition, translated, definition.config(translated), self._choices.device)

    @shortens_tracebacks
    def translated(self, /, **given: bool | float | ScalarType) -> TranslatedKernel:
        """Return what the kernel is translated to, arguments and errors as of ``program``."""
        return self.definition.programs.get(self.specialization(given))

    @shortens_tracebacks
    def compiled_for(self, driver: Driver, **given: bool | float | ScalarType) -> CompiledKernel:
        """Return what calls run on a driver, with its trace and its code; arguments as of ``program``, errors of a call too."""
        return self._launcher.compiled(driver, self.translated(**given))

    def specialization(self, given: Mapping[str, bool | float | ScalarType]) -> Specialization:
        """Return what a program is made for, by constants and types by name; raises InvalidInput as ``program``."""
        return specialization_of(self.definition, self._choices, *chosen_values(self.definition, self._choices, given))

    @SignatureProperty
    def __signature__(self) -> inspect.Signature:
        """The parameters of a call: the function's without the leading ones, which the device counts."""
        signature, empty = self.definition.signature, inspect.Parameter.empty
        given = [inspect.Parameter(one.name, _BY_POSITION, annotation=one.type) for one in signature.parameters]
        said = [
            inspect.Parameter(one.name, _BY_NAME, annotation=one.type, default=one.default if one.has_default else empty)
            for one in signature.constants
        ]
        return inspect.Signature([*given, *said])

    def _with(self, choices: Choices) -> Kernel:
        """Return the kernel with these choices; the same one each time that no driver is said: its calls stay proven."""
        found = self._chosen.get(choices.key)
        if found is None:
            found = Kernel(self.function, self.definition, choices, self._launcher)
            found._chosen = self._chosen
            if choices.driver is None:  # which a kernel of a module would keep open
                while len(self._chosen) >= _MOST_CHOICES:
                    self._chosen.pop(next(iter(self._chosen)), None)
                found = self._chosen.setdefault(choices.key, found)
        return found

    def __copy__(self, _: object = None) -> Kernel:
        """Return itself: a kernel does not change."""
        return self

    __deepcopy__ = __copy__

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle it by its name in its module, else by its text; raises TypeError for one that was put on a driver."""
        return reduced_kernel(self, self._choices)

    def __repr__(self) -> str:
        """Return its name and parameters on one line."""
        return one_line("lang.Kernel", f"{self.definition.name}{self.__signature__}", *self._choices.shown())


_CHOICES = {"floats": ("device", "exact", "fast"), "bounds": ("checked", "robust")}


class KernelDecorator:
    """Makes kernels: :data:`kernel` is the only one. ``@kernel``, or ``@kernel(floats="exact")``."""

    def __call__(  # noqa: PLR0913 -- what a kernel is decorated with, by keyword
        self,
        given: Callable[..., None] | None = None,
        /,
        *,
        signature: str | None = None,
        over: str | None = None,
        floats: str = "device",
        bounds: str = "checked",
        tune: Mapping[str, Sequence[bool | int]] | bool | None = None,
        checks: bool = False,
        debug: bool = False,
        **unknown: object,
    ) -> Kernel | Callable[[Callable[..., None]], Kernel]:
        """Make a kernel of a function, whose parameters say by their annotations what it takes.

        Parameters
        ----------
        given
            The function; without it a decorator is returned.
        signature
            Shapes of the arrays as numpy's generalized functions have them, ``"(m,k),(k,n)->(m,n)"``: axes of one name have one
            length, and outputs that a call leaves out are made with theirs. An array without axes, ``()``, is used with
            the index 0; an axis that is a number has that length.
        over
            The extent of the grid: the name of an array, or of axes of the signature (``"m, n"``). Without it, the arrays
            that its indices are used on.
        floats
            ``"device"``: each operation as the device has it; ``"exact"``: bit for bit as the reference interpreter computes;
            ``"fast"``: products and sums may be joined.
        bounds
            ``"checked"``: accesses out of range give 0 and do nothing; ``"robust"``: they are left to the device's robust
            buffer access.
        tune
            What :meth:`Kernel.tune` may choose: values of constants, ``{"BLOCK": [64, 128, 256]}``, of which the constant's
            default, else the first, is taken as long as nothing is known; or True for the workgroup of a kernel with indices.
        checks
            Have the device look for accesses out of range and asserts that fail: a call raises KernelFault then, with the line,
            the invocation, the index, and how many there were. Slower, and a program of its own; it is not bound or tuned.
        debug
            Put files and lines into the code, for debuggers, profilers and spirv-dis: code of its own, in the cache too.

        Raises
        ------
        KernelSyntaxError
            If there is no source for the function, or it is not that of its code.
        KernelTypeError
            If a parameter has no annotation or one that is none, or an option is none, or does not fit the parameters.
        """
        if unknown:
            raise KernelTypeError(
                f"kernel has no option {next(iter(unknown))!r}",
                fix="name signature, over, floats, bounds, tune, checks or debug",
            )
        options = {"signature": signature, "over": over, "floats": floats, "bounds": bounds, "tune": tune}
        options |= {"checks": checks, "debug": debug}
        local = sys._getframe(1).f_locals  # noqa: SLF001 -- names of string annotations
        if given is None:
            return shortens_tracebacks(lambda found: _made(found, options, local))
        try:
            return _made(given, options, local)
        except KernelSourceError as error:
            raise error.with_traceback(None) from error.__cause__

    @shortens_tracebacks
    def from_source(self, text: str, names: Mapping[str, object] | None = None, name: str | None = None) -> Kernel:
        """Make a kernel of the text of a function.

        Parameters
        ----------
        text
            Python source that defines the function, with ``@kernel`` or without; it may be indented as a whole.
        names
            Values of names in it, beside those of :mod:`vyre_driver.lang`.
        name
            The function's; without it the last kernel that the text defines, or the last function.

        Raises
        ------
        KernelSyntaxError
            If the text is no Python, or defines no such function.
        KernelTypeError
            As ``kernel``.
        """
        if not isinstance(text, str):
            raise KernelTypeError(f"the source is of type {type(text).__name__}", fix="give the text of a function")
        language = sys.modules[__package__]  # whose names it has; an import of it here would be a circle
        text = textwrap.dedent(text)
        filename, code = _compiled(text)
        found: dict[str, Any] = {one: value for one, value in vars(language).items() if one in language.__all__}
        found.update({"__name__": "<kernel source>", **(names or {})})
        before = dict(found)
        try:
            remember(filename, text, code)
            exec(code, found)  # noqa: S102 -- a text that the caller runs
        except SyntaxError as error:
            raise KernelSyntaxError(f"the source is no Python: {error}", fix=f"correct line {error.lineno}") from error
        except RecursionError:
            raise _nested_too_deeply() from None
        own = {one: value for one, value in found.items() if _is_of(value, filename) and before.get(one) is not value}
        kernels = [value for value in own.values() if isinstance(value, Kernel)]  # and functions that they call
        defined: list[Any] = kernels or list(own.values()) or [None]
        chosen = own.get(name) if name is not None else defined[-1]
        if chosen is None:
            raise KernelSyntaxError(
                f"the source defines no function{'' if name is None else f' {name!r}'}", fix="define it with def"
            )
        return chosen if isinstance(chosen, Kernel) else _made(chosen, {}, found)


def _compiled(text: str) -> tuple[str, types.CodeType]:
    """Return the name that a text has as a file, and its code; raises KernelSyntaxError if it is no Python."""
    try:
        filename = filename_of(text)
        return filename, compile(text, filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise KernelSyntaxError(f"the source is no Python: {error}", fix=f"correct line {error.lineno}") from error
    except ValueError as error:  # UnicodeEncodeError for a lone surrogate
        fix = "take out lone surrogates and null characters"
        raise KernelSyntaxError(f"the source is no Python: {error}", fix=fix) from error
    except (RecursionError, MemoryError):  # the second one is the parser's "too complex"
        raise _nested_too_deeply() from None


def _nested_too_deeply() -> KernelSyntaxError:
    problem = "an expression of the source is nested too deeply for Python"
    return KernelSyntaxError(problem, fix="give parts of it names")


def _is_of(value: Any, filename: str) -> bool:  # noqa: ANN401 -- whatever a text defines
    function = value.function if isinstance(value, Kernel) else value
    return isinstance(function, types.FunctionType) and function.__code__.co_filename == filename


def _made(given: Any, options: dict[str, Any], local: Mapping[str, object]) -> Kernel:  # noqa: ANN401 -- it is checked
    """Return the kernel of a function."""
    if not isinstance(given, types.FunctionType):
        raise KernelTypeError(
            f"a kernel is made of a Python function, and this is of type {type(given).__name__}",
            fix="put @kernel next to the def, under other decorators",
        )
    name = given.__name__
    if not isinstance(options.get("over"), (str, type(None))):
        raise KernelTypeError(f"over of {name!r} is {options['over']!r}", fix="give names as a text: 'x', or 'm, n'")
    for option, allowed in _CHOICES.items():
        if options.get(option, allowed[0]) not in allowed:
            raise KernelTypeError(
                f"{option} of {name!r} is {options[option]!r}", fix=f"give {' or '.join(f'{one!r}' for one in allowed)}"
            )
    may_be_tuned, signature = None, signature_of(given, local)
    if options.get("tune") is not None:
        from vyre_driver.lang.launch.candidates import tunable  # late: of most kernels nothing may be tuned

        may_be_tuned, signature = tunable(options["tune"], signature, name)
    shapes = None
    if options.get("signature") is not None:
        shapes = parsed(options["signature"], signature, name)
        signature = with_ranks(signature, shapes, name)
    over = checked_over(options.get("over"), signature, shapes, name)
    definition = Definition(
        name,
        signature,
        Specializations(given, signature),
        shapes,
        over,
        options.get("floats", "device"),
        options.get("bounds", "checked"),
        may_be_tuned,
        bool(options.get("checks")),
        bool(options.get("debug")),
    )
    return Kernel(given, definition)


kernel = KernelDecorator()
"""Makes a kernel of a Python function."""
