"""What a function of numbers takes and gives: by its annotations, else by what it is called with."""

from __future__ import annotations

import types
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from vyre_driver.errors import InvalidInput, KernelTypeError
from vyre_driver.lang.decorator import kernel
from vyre_driver.lang.source.parameters import Parameter, annotations_of
from vyre_driver.lang.types import ConstType, Kind, ScalarType, bool_, f32, i32

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Type = ScalarType | TypeVar

_KINDS = {bool: Kind.BOOL, int: Kind.SIGNED, float: Kind.FLOAT}
_FORMS = "use f32, i32, u32, bool_ or a TypeVar of them"


@dataclass(frozen=True, slots=True)
class FunctionTypes:
    """A function's parameters and constants, and what it returns: None where that is what it computes."""

    name: str
    parameters: tuple[tuple[str, Type], ...]
    constants: tuple[Parameter, ...]
    results: tuple[Type, ...] | None
    is_tuple: bool
    is_inferred: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(name for name, _ in self.parameters)

    @property
    def variables(self) -> tuple[TypeVar, ...]:
        """The type variables of the parameters, in order."""
        return tuple(dict.fromkeys(one for _, one in self.parameters if isinstance(one, TypeVar)))

    @property
    def count(self) -> int:
        """How many outputs there are."""
        return 1 if self.results is None else len(self.results)


def function_types(function: types.FunctionType, local: Mapping[str, object]) -> FunctionTypes:
    """Return what a function takes and gives by its annotations; ``local`` are the names at the place where it is defined.

    Raises
    ------
    KernelTypeError
        If an annotation is none of the language's types, or the function has no parameters or any number of them.
    """
    code = function.__code__
    name = function.__name__ if function.__name__.isidentifier() else "fused"
    if code.co_flags & 0x0C or not code.co_argcount:
        problem = "takes *args or **kwargs" if code.co_flags & 0x0C else "takes nothing"
        is_wrapper = code.co_flags & 0x0C and hasattr(function, "__wrapped__")
        fix = "name each parameter of the wrapper" if is_wrapper else "name each of its parameters"
        raise KernelTypeError(f"{name!r} {problem}, and is called with elements", fix=fix)
    positional, keyword = code.co_varnames[: code.co_argcount], code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
    if function.__defaults__:
        late = positional[-len(function.__defaults__)]
        raise KernelTypeError(
            f"parameter {late!r} of {name!r} has a default",
            fix="make it a Const that is keyword only, or leave the default out",
        )
    for one in {"out", "where"}.intersection(positional + keyword):
        raise KernelTypeError(f"parameter {one!r} of {name!r} has the name of what every call may give", fix="rename it")
    annotations = annotations_of(function, local)
    is_inferred = not annotations
    parameters = tuple((one, _parameter(name, one, annotations, is_inferred=is_inferred)) for one in positional)
    constants = tuple(_constant(function, name, one, annotations.get(one)) for one in keyword)
    if is_inferred:
        return FunctionTypes(name, parameters, constants, None, is_tuple=False, is_inferred=True)
    found = annotations.get("return")
    is_tuple = isinstance(found, types.GenericAlias) and found.__origin__ is tuple
    results: tuple[Any, ...] = found.__args__ if isinstance(found, types.GenericAlias) and is_tuple else (found,)
    for one in results:
        if not isinstance(one, (ScalarType, TypeVar)):
            raise KernelTypeError(
                f"{name!r} returns {'nothing that is annotated' if found is None else repr(found)}",
                fix="annotate what it returns: -> f32, or -> tuple[f32, f32]",
            )
    described = FunctionTypes(name, parameters, constants, results, is_tuple, is_inferred=False)
    for one in results:
        if isinstance(one, TypeVar) and one not in described.variables:
            raise KernelTypeError(
                f"{name!r} returns the type variable {one.__name__!r}, which none of its parameters has",
                fix=f"annotate one: {positional[0]}: {one.__name__}",
            )
    return described


def _parameter(function: str, name: str, annotations: Mapping[str, object], *, is_inferred: bool) -> Type:
    if is_inferred:
        return TypeVar(f"type of {name}")
    found = annotations.get(name)
    if isinstance(found, (ScalarType, TypeVar)):
        return found
    shown = "has no type" if found is None else f"is annotated {found!r}"
    raise KernelTypeError(f"parameter {name!r} of {function!r} {shown}", fix=_FORMS, parameter=name)


def _constant(function: types.FunctionType, name: str, one: str, found: object) -> Parameter:
    if not isinstance(found, ConstType):
        raise KernelTypeError(
            f"the keyword {one!r} of {name!r} is annotated {found!r}", fix="use Const[int], Const[float] or Const[bool]"
        )
    defaults = function.__kwdefaults__ or {}
    return Parameter(one, found, defaults[one]) if one in defaults else Parameter(one, found)


def weak_type(variable: TypeVar, values: Sequence[bool | int | float], beside: ScalarType | None) -> ScalarType:
    """Return the type of a variable that only Python's numbers are given for: bool, i32 or f32, or one beside that holds them.

    Raises
    ------
    InvalidInput
        If the variable may not be of such a type.
    """
    kind = _KINDS[max((type(one) for one in values), key=list(_KINDS).index)]
    wanted = {Kind.BOOL: bool_, Kind.SIGNED: i32, Kind.FLOAT: f32}[kind]
    if beside is not None and (beside.kind is kind or (kind is Kind.SIGNED and beside.kind is not Kind.BOOL)):
        wanted = beside
    allowed: Sequence[ScalarType] = variable.__constraints__ or (wanted,)
    if wanted in allowed:
        return wanted
    found = next((one for one in allowed if one.kind is kind or (kind is Kind.SIGNED and one.kind is not Kind.BOOL)), None)
    if found is None:
        raise InvalidInput(
            f"{variable.__name__} is {wanted} by {values[0]!r}, and is one of {', '.join(map(str, allowed))}",
            fix="give a number of such a type, or an array",
        )
    return found


def with_results(
    function: types.FunctionType, described: FunctionTypes, known: Mapping[str, ScalarType]
) -> tuple[FunctionTypes, Callable[[], str | None]]:
    """Return what a function takes and gives with these types: as annotated, else as it is translated with them.

    The second of what is returned tells what has changed of the values that this depends on.

    Raises
    ------
    KernelSourceError
        If the function cannot be translated, or returns no number.
    """
    if described.results is not None:
        return described, _nothing
    names: dict[str, Any] = {"function": function}
    heads, given = ["i: Index"], []
    for place, (_, one) in enumerate(described.parameters):
        names[f"type_{place}"] = one if isinstance(one, ScalarType) else known[one.__name__]
        heads.append(f"x{place}: In[type_{place}, 1]")
        given.append(f"x{place}[i]")
    said = described.constants
    names.update({f"kind_of_{each.name}": each.type for each in said})
    keywords = [f"{each.name}: kind_of_{each.name}" for each in said]
    called = ", ".join([*given, *(f"{each.name}={each.name}" for each in said)])
    text = f"def {described.name}({', '.join([*heads, *['*'] * bool(said), *keywords])}):\n    function({called})\n"
    constants: dict[str, Any] = {
        each.name: each.default if each.has_default else each.type.type() for each in said if isinstance(each.type, ConstType)
    }
    translated = kernel.from_source(text, names, described.name).translated(**constants)
    found = translated.typings.returned()[0]
    results = found if isinstance(found, tuple) else (found,)
    numbers = tuple(one for one in results if isinstance(one, ScalarType))
    if not numbers or len(numbers) < len(results):
        raise KernelTypeError(f"{described.name!r} does not return a number that it computes", fix="annotate its types: -> f32")
    return replace(described, results=numbers, is_tuple=isinstance(found, tuple)), translated.captured.changed


def _nothing() -> None:
    return None
