"""What a kernel takes: its parameters by their annotations, and what of them a program is made for.

Annotations are read where the function is defined. Those that are text (``from __future__ import annotations``) are looked up
name by name among the function's own, those of its module and of the functions around it; nothing is executed for that.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

from vyre_driver.errors import KernelSourceError, KernelTypeError
from vyre_driver.lang.source.text import FunctionSource
from vyre_driver.lang.types import COMPUTED, ArrayType, ConstType, Group, GroupType, Index, ScalarType

if TYPE_CHECKING:
    import types
    from collections.abc import Mapping

_FORMS = "In[f32], Out[f32], InOut[f32], f32, i32, Index or Const[int]"
_COMPUTED_AS = {True: "i32, u32, i64 or u64", False: "f32 or f64"}  # whole numbers or not
_MOST_AXES = 3
_CONSTANTS = (bool, int, float)


class _NoDefault:
    """Stands for a default that there is not; a class, which stays itself when it is pickled."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its name and annotation; ``default`` is that of a constant."""

    name: str
    type: ArrayType | ScalarType | TypeVar | ConstType
    default: object = _NoDefault

    @property
    def has_default(self) -> bool:
        """Whether a call may leave it out."""
        return self.default is not _NoDefault


@dataclass(frozen=True, slots=True)
class KernelSignature:
    """The parameters of a kernel: ``indexes`` or ``group`` in front, then what a call gives, then constants by keyword.

    ``axes`` are the names of the axes of arrays whose shapes are said: each call checks that axes of one name have one length,
    and that one whose name is a number has as many elements.
    """

    indexes: tuple[str, ...]
    group: tuple[str, GroupType] | None
    parameters: tuple[Parameter, ...]
    constants: tuple[Parameter, ...]
    axes: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def arrays(self) -> tuple[Parameter, ...]:
        """The parameters that are arrays."""
        return tuple(one for one in self.parameters if isinstance(one.type, ArrayType))

    @property
    def scalars(self) -> tuple[Parameter, ...]:
        """The parameters that are numbers."""
        return tuple(one for one in self.parameters if isinstance(one.type, (ScalarType, TypeVar)))

    @property
    def type_variables(self) -> tuple[TypeVar, ...]:
        """The variables of a generic kernel, in order."""
        found = [one.type.element if isinstance(one.type, ArrayType) else one.type for one in self.parameters]
        return tuple(dict.fromkeys(one for one in found if isinstance(one, TypeVar)))


@dataclass(frozen=True, slots=True)
class Specialization:
    """What one program of a kernel is made for: values of its constants, and types for its type variables, by name.

    ``is_over`` says that each call gives how far the indices go, which is no further than any array that they are used on.
    With ``strides`` each invocation takes several indices, for what is larger than a device's grid. ``counted`` are arrays
    whose length each call gives: those that are empty, of which no buffer can be made. With ``stored`` the parameters that are
    numbers come in a buffer, because a device does not push as many. With ``robust`` the device keeps accesses inside of
    buffers, and no condition has to prove it. ``workgroup`` is the size of an Index
    kernel's, along x, y and z; None is the one that all have.
    ``mode`` is ``"plain"`` for what runs as Python, where ``print`` is left out of the program; with ``"trap"`` the program
    checks its indices and asserts, for the reference interpreter; with ``"record"`` for a device.
    """

    constants: tuple[tuple[str, bool | int | float], ...] = ()
    types: tuple[tuple[str, ScalarType], ...] = ()
    mode: str | None = None
    is_over: bool = False
    strides: bool = False
    counted: frozenset[str] = frozenset()
    workgroup: tuple[int, int, int] | None = None
    stored: bool = False
    robust: bool = False

    def element(self, array: ArrayType) -> ScalarType:
        """Return the type of an array's elements."""
        return self.number(array.element)

    def number(self, given: ScalarType | TypeVar) -> ScalarType:
        """Return a type, or what a type variable stands for."""
        return given if isinstance(given, ScalarType) else dict(self.types)[given.__name__]


def signature_of(function: types.FunctionType, local: Mapping[str, object] | None = None) -> KernelSignature:
    """Return what a kernel takes; ``local`` are the names at the place where it is defined.

    Raises
    ------
    KernelTypeError
        If a parameter has no annotation, or one that is none of the language's.
    """
    code = function.__code__
    if code.co_flags & 0x0C:
        raise KernelTypeError(
            f"{function.__name__!r} takes *args or **kwargs, and a kernel has a fixed number of parameters",
            fix="put @kernel next to the def, under other decorators"
            if hasattr(function, "__wrapped__")
            else "name each of them",
            function=function.__name__,
        )
    positional, keyword = code.co_varnames[: code.co_argcount], code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
    annotations = annotations_of(function, local or {})
    given = [(name, annotations.get(name)) for name in positional]
    indexes = tuple(name for name, found in given if found is Index)
    groups = [(name, found) for name, found in given if isinstance(found, GroupType)]
    bare = [name for name, found in given if found is Group or found == GroupType(())]
    _check_leading(function, [name for name, _ in given], indexes, groups, bare)
    rest = given[len(indexes) + len(groups) :]
    parameters = tuple(_parameter(function, name, found) for name, found in rest)
    if function.__defaults__:
        name = positional[-len(function.__defaults__)]
        raise _refuse(
            function,
            name,
            f"parameter {name!r} has a default",
            "make it a Const that is keyword only, or leave the default out",
        )
    defaults = function.__kwdefaults__ or {}
    constants = tuple(_constant(function, name, annotations.get(name), defaults.get(name, _NoDefault)) for name in keyword)
    if groups:
        _check_group(function, *groups[0], [one.name for one in constants if one.type == ConstType(int)])
    return KernelSignature(indexes, groups[0] if groups else None, parameters, constants)


def _check_leading(
    function: types.FunctionType,
    names: list[str],
    indexes: tuple[str, ...],
    groups: list[tuple[str, GroupType]],
    bare: list[str],
) -> None:
    """Check that indices, or one workgroup, stand in front, and that there are as many as a grid has axes."""
    name = (names or ["?"])[0]
    if name in bare:
        raise _refuse(function, name, f"{name!r} is a Group without a size", f"write {name}: Group[256], or Group[16, 16]")
    if not indexes and not groups:
        raise _refuse(function, name, f"{function.__name__!r} has no Index and no Group", "begin its parameters with i: Index")
    if indexes and groups:
        raise _refuse(function, groups[0][0], "a kernel has Index parameters or a Group, not both", "use the group's index")
    if len(groups) > 1:
        raise _refuse(function, groups[1][0], "a kernel has one Group", "leave the other out")
    leading = tuple(names[: len(indexes) + len(groups)])
    if leading != (indexes or tuple(one for one, _ in groups)):
        late = next(one for one in (*indexes, *(one for one, _ in groups)) if one not in leading)
        raise _refuse(function, late, f"parameter {late!r} stands behind others", "put Index and Group parameters first")
    axes = len(indexes) or len(groups[0][1].sizes)
    if axes > _MOST_AXES:
        raise _refuse(
            function, name, f"a grid has {_MOST_AXES} axes, and {function.__name__!r} has {axes}", "compute the others of these"
        )


def _check_group(function: types.FunctionType, name: str, group: GroupType, constants: list[str]) -> None:
    """Check that sizes of a workgroup are whole numbers from 1 on, or names of whole constants of the kernel."""
    for size in group.sizes:
        if isinstance(size, str):
            if size not in constants:
                fix = f"take one: {', '.join(constants)}" if constants else "add a keyword: *, BLOCK: Const[int] = 64"
                problem = (
                    f"the size of {name!r} is {size!r}, and {function.__name__!r} has no constant of this name that is an int"
                )
                raise _refuse(function, name, problem, fix)
        elif isinstance(size, bool) or not hasattr(size, "__index__") or size < 1:
            raise _refuse(
                function, name, f"a size of {name!r} is {size!r}", "give whole numbers of 1 or more, or names of constants"
            )


def _parameter(function: types.FunctionType, name: str, found: object) -> Parameter:
    if found is None:
        raise _refuse(function, name, f"parameter {name!r} has no type", f"write {name}: {_FORMS}")
    if isinstance(found, ConstType):
        raise _refuse(
            function, name, f"the constant {name!r} is given by position", "put a * before it: constants are keyword only"
        )
    if isinstance(found, ScalarType) and found not in COMPUTED:
        raise _refuse(
            function, name, f"parameter {name!r} is {found}, which is a type of arrays", f"use {_COMPUTED_AS[found.is_whole]}"
        )
    if isinstance(found, (ArrayType, ScalarType, TypeVar)) and _is_element(found):
        _check_variable(function, name, found.element if isinstance(found, ArrayType) else found)
        return Parameter(name, found)
    raise _refuse(function, name, f"parameter {name!r} is annotated {found!r}", f"use {_FORMS}")


def _check_variable(function: types.FunctionType, name: str, found: ScalarType | TypeVar) -> None:
    """Check that a type variable stands for types of the language."""
    if not isinstance(found, TypeVar):
        return
    others = [one for one in (*found.__constraints__, found.__bound__) if one is not None and not isinstance(one, ScalarType)]
    if others or found.__bound__ is not None:
        shown = getattr(found.__bound__ if found.__bound__ is not None else others[0], "__name__", None) or "something else"
        how = "is bound to" if found.__bound__ is not None else "may be"
        raise _refuse(
            function,
            name,
            f"the type variable {found.__name__!r} of {name!r} {how} {shown}",
            f'name the types that it may be: TypeVar("{found.__name__}", f32, i32)',
        )


def _is_element(found: ArrayType | ScalarType | TypeVar) -> bool:
    if not isinstance(found, ArrayType):
        return True
    rank = found.rank
    return isinstance(found.element, (ScalarType, TypeVar)) and (
        rank is None or (isinstance(rank, int) and 0 < rank <= _MOST_AXES + 1)
    )


def _constant(function: types.FunctionType, name: str, found: object, default: object) -> Parameter:
    if not isinstance(found, ConstType) or found.type not in _CONSTANTS:
        raise _refuse(
            function, name, f"the keyword {name!r} is annotated {found!r}", "use Const[int], Const[float] or Const[bool]"
        )
    return Parameter(name, found, default)


def _refuse(function: types.FunctionType, name: str, problem: str, fix: str) -> KernelTypeError:
    """Raise KernelTypeError, with the place of a parameter where the source is at hand."""
    frames: list[tuple[str, str, int, str, int, int]] = []
    try:
        source = FunctionSource.of(function)
    except KernelSourceError:
        source = None
    if source is not None:
        arguments = source.arguments
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if one.arg == name:
                text = source.line(one.lineno)
                start = len(text.encode()[: one.col_offset].decode(errors="replace"))
                frames = [(source.name, source.filename, one.lineno, text, start, start + len(one.arg))]
    return KernelTypeError(problem, fix=fix, frames=frames, parameter=name)


def annotations_of(function: types.FunctionType, local: Mapping[str, object]) -> dict[str, object]:
    """Return what a function's annotations stand for, by name, with that of ``return``; what is none stays as it is written."""
    return {name: _resolved(function, name, found, local) for name, found in function.__annotations__.items()}


def _resolved(function: types.FunctionType, name: str, found: object, local: Mapping[str, object]) -> object:
    if isinstance(found, str):
        try:
            found = _looked_up(ast.parse(found, mode="eval").body, _names_of(function, local))
        except KeyError as error:
            if name == "return":  # of which kernels need nothing
                return found
            raise _refuse(
                function,
                name,
                f"{name!r} is annotated {found!r}, and there is no name {error.args[0]!r} when the module runs",
                "import it outside of 'if TYPE_CHECKING', or define it before the kernel",
            ) from error
        except (SyntaxError, LookupError, TypeError, AttributeError, ValueError, MemoryError, RecursionError):
            return found  # which is no annotation of the language, and is refused by name
    if get_origin(found) is Annotated and get_args(found)[0] is Group:
        return Group[get_args(found)[1:]]  # type: ignore[misc] # Annotated[Group, 16, 16], for checkers take no Group[16, 16]
    return found


def _names_of(function: types.FunctionType, local: Mapping[str, object]) -> dict[str, object]:
    closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells = {name: cell.cell_contents for name, cell in closure.items() if cell != type(cell)()}
    code = function.__code__
    constants = {name: name for name in code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]}
    variables = {one.__name__: one for one in getattr(function, "__type_params__", ())}  # def name[T](...)
    return {**vars(sys.modules["builtins"]), **function.__globals__, **local, **cells, **variables, **constants}


def _looked_up(node: ast.expr, names: Mapping[str, object]) -> Any:  # noqa: ANN401 -- whatever the names stand for
    """Return what an annotation of names, attributes and subscripts stands for."""
    match node:
        case ast.Name(name):
            return names[name]
        case ast.Constant(value):
            return _looked_up(ast.parse(value, mode="eval").body, names) if isinstance(value, str) else value
        case ast.Attribute(owner, name):
            return getattr(_looked_up(owner, names), name)
        case ast.Tuple(items):
            return tuple(_looked_up(item, names) for item in items)
        case ast.Subscript(owner, item):
            return _looked_up(owner, names)[_looked_up(item, names)]
    raise LookupError(ast.dump(node))
