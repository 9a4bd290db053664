"""The decorator that makes a kernel of a Python function."""

from __future__ import annotations

import sys
import textwrap
import types
from typing import TYPE_CHECKING, Any

from vyre_driver.display.tracebacks import shortens_tracebacks
from vyre_driver.errors import KernelSourceError, KernelSyntaxError, KernelTypeError
from vyre_driver.lang.kernel import Kernel
from vyre_driver.lang.launch.fitting import Definition
from vyre_driver.lang.launch.signatures import checked_over, parsed, with_ranks
from vyre_driver.lang.launch.specializations import Specializations
from vyre_driver.lang.source import texts
from vyre_driver.lang.source.parameters import signature_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
            texts.remember(filename, text, code)
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
        filename = texts.name_of(text)
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
