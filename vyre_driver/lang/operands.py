"""What an elementwise function takes and gives, and how the arguments of a call are gone through.

Types are those of annotations, else of what it is called with. Arrays broadcast as in numpy, without copies of what is
repeated. The axes of the result are joined as far as all arrays allow. What is left is gone through by one index. In an array
that is not as large as the result, a step along a joined axis is so many elements; none where it is repeated. By that the text
of a kernel is written, which finds the element of each array and calls the function.
"""

from __future__ import annotations

import math
import types
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from vyre_driver.errors import InvalidInput, KernelTypeError
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.lang.kernel import kernel
from vyre_driver.lang.launch.arrays import host_conversion, read_array
from vyre_driver.lang.source.parameters import Parameter, annotations_of
from vyre_driver.lang.types import COMPUTED, Access, ArrayType, ConstType, Kind, ScalarType, bool_, f32, i32, type_of, u8

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Type = ScalarType | TypeVar

    Shape = tuple[int, ...]

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


class Broadcast(NamedTuple):
    """How arrays are gone through: the result's shape, its joined axes, and each array's steps along these; slowest first.

    ``steps`` are None of an array that has an element for each of the result, in the same order.
    """

    shape: Shape
    sizes: Shape
    steps: tuple[Shape | None, ...]


def broadcast(name: str, shapes: Mapping[str, Shape], held: Sequence[Shape]) -> Broadcast:
    """Return how arrays of these shapes are gone through together.

    Parameters
    ----------
    name
        The function that they are given to.
    shapes
        Their shapes, by name.
    held
        The shape of each as it lies in memory: axes along which one element is repeated have a length of 1.

    Raises
    ------
    InvalidInput
        If they do not broadcast.
    """
    try:
        shape = np.broadcast_shapes(*shapes.values())
    except ValueError:
        raise _refuse(name, shapes) from None
    steps = [_steps(one, len(shape)) for one in held]
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    joined: list[list[int]] = []  # the innermost axis of each, and its size
    for axis in axes:
        size = shape[axis]
        if joined and all(one[joined[-1][0]] == one[axis] * size for one in steps):
            joined[-1] = [axis, joined[-1][1] * size]
        else:
            joined.append([axis, size])
    sizes = tuple(size for _, size in joined) or (1,)
    own = [tuple(one[axis] for axis, _ in joined) or (1,) for one in steps]
    count = math.prod(shape)
    full = _steps(sizes, len(sizes))
    return Broadcast(shape, sizes, tuple(None if count == 0 or one == full else one for one in own))


def _steps(held: Shape, rank: int) -> Shape:
    """Return how many elements a step along each of so many axes is, in an array of this shape; none where it is repeated."""
    found = []
    step = 1
    for size in reversed(held):
        found.append(0 if size == 1 else step)
        step *= size
    return (0,) * (rank - len(held)) + tuple(reversed(found))


def _refuse(name: str, shapes: Mapping[str, Shape]) -> InvalidInput:
    """Return the error of shapes that do not broadcast; it names the first two that do not."""
    given = list(shapes.items())
    for place, (one, first) in enumerate(given):
        for other, second in given[:place]:
            for a, b in zip(reversed(second), reversed(first), strict=False):
                if a != b and 1 not in {a, b}:
                    shown = f"{other} of {name} has the shape {second} and {one} has {first}"
                    return InvalidInput(
                        f"{shown}, which do not broadcast: {a} is not {b}",
                        fix="pass arrays whose axes, from the last on, have one length or the length 1",
                        parameters=(other, one),
                        shapes=(second, first),
                    )
    raise AssertionError  # numpy has found two


Steps: TypeAlias = "tuple[int, ...] | bool | None"


class Form(NamedTuple):
    """What a kernel's text depends on.

    ``operands`` has for each parameter of the function None for a number, ``()`` for an array that has an element for each
    of the result, else what a step along each joined axis is: 0, 1, or -1 for a number that is pushed. ``where`` is the same of
    the condition, and False where there is none. ``keeps`` says for each output whether it keeps what is not written.
    """

    name: str
    parameters: tuple[str, ...]
    operands: tuple[Steps, ...]
    where: Steps
    outputs: tuple[str, ...]
    keeps: tuple[bool, ...]
    is_tuple: bool
    constants: tuple[str, ...]


class Text(NamedTuple):
    """A kernel's text, and the names in it: of the function, its types and those of the outputs, and default values."""

    text: str
    function: str
    types: tuple[str, ...]
    results: tuple[str, ...]
    constants: tuple[tuple[str, str], ...]


def text_of(form: Form, defaults: tuple[bool, ...]) -> Text:
    """Return the text of a kernel; ``defaults`` says which constants have one."""
    names = _Names({*form.parameters, *form.outputs, *form.constants, form.name})
    index, function, where = (names.fresh(word) for word in ("i", "function", "where"))
    types = tuple(names.fresh(f"type_of_{name}") for name in form.parameters)
    results = tuple(names.fresh(f"type_of_{name}") for name in form.outputs)
    constants = tuple((names.fresh(f"type_of_{name}"), names.fresh(f"default_of_{name}")) for name in form.constants)
    masks = [one for one in (*form.operands, form.where) if isinstance(one, tuple) and any(one)]
    places = _Places(names, index, len(masks[0]) if masks else 1)
    given = [places.element(name, steps) for name, steps in zip(form.parameters, form.operands, strict=True)]
    test = places.element(where, form.where)
    body = _called(form, names, f"{function}({', '.join([*given, *(f'{name}={name}' for name in form.constants)])})", index)
    if form.where is not False:
        body = _under(
            form, test, body, [f"{name}[{index}] = {kind}(0)" for name, kind in zip(form.outputs, results, strict=True)]
        )
    parameters = [f"{index}: Index"]
    for name, kind, steps in zip(form.parameters, types, form.operands, strict=True):
        parameters.append(f"{name}: {kind}" if steps is None else f"{name}: In[{kind}, 1]")
    if form.where is not False:
        parameters.append(f"{where}: {'bool_' if form.where is None else 'In[bool_, 1]'}")
    for name, kind, keeps in zip(form.outputs, results, form.keeps, strict=True):
        parameters.append(f"{name}: {'InOut' if keeps else 'Out'}[{kind}, 1]")
    parameters += [f"{name}: u32" for name in places.pushed]
    said = zip(form.constants, constants, defaults, strict=True)
    keywords = [f"{name}: {kind}" + f" = {start}" * has for name, (kind, start), has in said]
    head = f"def {form.name}({', '.join([*parameters, *['*'] * bool(keywords), *keywords])}):"
    return Text("\n    ".join([head, *places.lines, *body]) + "\n", function, types, results, constants)


def _called(form: Form, names: _Names, call: str, index: str) -> list[str]:
    """Return the statements that call the function and store what it returns."""
    values = [names.fresh(f"value_of_{name}") for name in form.outputs] if form.is_tuple else [names.fresh("value")]
    stores = [f"{name}[{index}] = {one}" for name, one in zip(form.outputs, values, strict=True)]
    return [f"{', '.join(values)}{',' * form.is_tuple} = {call}", *stores]


def _under(form: Form, test: str, body: list[str], zeros: list[str]) -> list[str]:
    """Return statements under a condition; where it does not hold, outputs that keep nothing are zero."""
    made = [f"    {line}" for line, keeps in zip(zeros, form.keeps, strict=True) if not keeps]
    return [f"if {test}:", *(f"    {line}" for line in body), *["else:"] * bool(made), *made]


class _Places:
    """How elements are found: ``lines`` part the index into one along each joined axis, ``pushed`` names numbers of a call."""

    def __init__(self, names: _Names, index: str, axes: int) -> None:
        """Part an index."""
        self._names, self._index = names, index
        self.pushed = [names.fresh(f"size_{axis}") for axis in range(1, axes)]
        self.lines: list[str] = []
        rest = f"u32({index})"
        parts = []
        for axis in range(axes - 1, 0, -1):
            size, part, left = self.pushed[axis - 1], names.fresh(f"at_{axis}"), names.fresh(f"rest_{axis}")
            self.lines += [f"{part} = {rest} % {size}", f"{left} = {rest} // {size}"]
            parts.append(part)
            rest = left
        self._parts = [rest, *reversed(parts)]

    def element(self, name: str, steps: Steps) -> str:
        """Return an array's element, or a number itself."""
        if not isinstance(steps, tuple):
            return name
        if not steps:
            return f"{name}[{self._index}]"
        terms = []
        for part, step in zip(self._parts, steps, strict=False):  # one element alone has a step along one axis: 0
            if step < 0:
                self.pushed.append(self._names.fresh(f"step_of_{name}"))
                terms.append(f"{part} * {self.pushed[-1]}")
            elif step:
                terms.append(part)
        return f"{name}[{' + '.join(terms) or '0'}]"


class _Names:
    """Names that nothing else in a text has."""

    def __init__(self, taken: set[str]) -> None:
        """Begin with those that are taken."""
        self._taken = taken

    def fresh(self, word: str) -> str:
        """Return a name: the word, with as many underscores behind it as it takes."""
        while word in self._taken:
            word += "_"
        self._taken.add(word)
        return word


_NUMBERS = (bool, int, float, np.generic)


def outputs_of(described: FunctionTypes, out: object) -> list[NDArray[Any] | Buffer | None]:
    """Return the array given for each output, None for one that is to be made; raises InvalidInput."""
    name, count = described.name, described.count
    given = out if isinstance(out, tuple) else (out,) * (1 if out is not None else count)
    if len(given) != count:
        raise InvalidInput(
            f"{name} has {count} output(s), and out= is given {len(given)}",
            fix="give a tuple with an array or None for each",
            expected=count,
            received=len(given),
        )
    target = Parameter("out", ArrayType(Access.OUT, f32))
    return [read_array(name, target, one) for one in given]


def form_of(described: FunctionTypes, operands: Sequence[Steps], test: Steps, keeps: Sequence[bool]) -> Form:
    """Return what the text of a kernel depends on."""
    constants = tuple(one.name for one in described.constants)
    taken = {*described.names, *constants, described.name}
    names = []
    for place in range(described.count):
        word = f"out{place}" if described.count > 1 else "out"
        while word in taken:
            word += "_"
        names.append(word)
    return Form(
        described.name, described.names, tuple(operands), test, tuple(names), tuple(keeps), described.is_tuple, constants
    )


class Operand(NamedTuple):
    """What a call gives for a parameter: a number, or an array with its shape and that of what lies in memory.

    ``own`` is the type of a number of numpy's that is none of Python's; it counts where no array says what the types are.
    """

    name: str
    value: Any
    flat: Any
    is_array: bool = False
    shape: tuple[int, ...] = ()
    held: tuple[int, ...] = ()
    own: ScalarType | None = None


def operand(kernel_name: str, name: str, given: object, element: ScalarType | TypeVar | None = None) -> Operand:
    """Return what is given for a parameter of this type; raises InvalidInput if it is no number and no array.

    Bytes are the elements of that type, and uint8 where there is none.
    """
    if isinstance(given, _NUMBERS) or (isinstance(given, np.ndarray) and not given.ndim):
        number = given.item() if isinstance(given, (np.generic, np.ndarray)) else given
        own = None if isinstance(given, (bool, int, float)) else type_of(given.dtype)
        return Operand(name, number, number, own=own if own in COMPUTED else None)
    found = read_array(kernel_name, Parameter(name, ArrayType(Access.IN, element or u8)), given)
    if found is None:
        raise InvalidInput(f"{name} of {kernel_name} is None", fix="give an array or a number", parameter=name)
    if isinstance(found, Buffer):
        return Operand(name, found, found.reshape(-1), True, found.shape, found.shape)
    found = np.asarray(found)  # a matrix stays one of two axes however it is reshaped
    repeated = tuple(slice(0, 1) if not step and size > 1 else slice(None) for step, size in zip(found.strides, found.shape))  # noqa: B905 -- of one array
    held = found[repeated]
    return Operand(name, found, held.reshape(-1), True, found.shape, held.shape)


def key_of(one: Operand | None) -> object:
    """Return what of an argument decides how a call runs."""
    if one is None or not one.is_array:
        return None if one is None else (type(one.value), one.own)
    return type(one.value) is Buffer, one.value.dtype, one.shape, one.held


def shown_steps(steps: Mapping[str, tuple[int, ...] | None], one: Operand) -> Steps:
    """Return how a text finds an operand's element: its steps, where those that are not 0 or 1 are -1."""
    if not one.is_array:
        return None
    found = steps[one.name]
    return () if found is None else tuple(min(step, 1) if step < 2 else -1 for step in found)


def pushed_numbers(
    found: Broadcast, form: Form, operands: Sequence[Operand | None], steps: Mapping[str, tuple[int, ...] | None]
) -> tuple[int, ...]:
    """Return the numbers that a text takes behind those of the function: sizes of joined axes, and steps."""
    shown = [*form.operands, form.where]
    sizes = found.sizes[1:] if any(isinstance(one, tuple) and any(one) for one in shown) else ()
    return *sizes, *(
        step
        for one, kinds in zip(operands, shown, strict=True)
        if one is not None and isinstance(kinds, tuple) and kinds
        for step, kind in zip(steps[one.name] or (), kinds, strict=True)
        if kind < 0
    )


def chosen_types(described: FunctionTypes, operands: Sequence[Operand]) -> dict[str, ScalarType]:
    """Return the types of the variables that no array says, by the numbers given for them."""
    by_name = dict(zip(described.names, operands, strict=True))
    said = {one for name, one in described.parameters if isinstance(one, TypeVar) and by_name[name].is_array}
    arrays = [type_of(one.value.dtype) for one in operands if one.is_array]
    beside = arrays[0] if arrays else next((one.own for one in operands if one.own is not None), None)
    if beside is not None and beside not in COMPUTED:
        beside = f32 if beside.kind is Kind.FLOAT else i32  # as its elements are loaded
    found: dict[str, ScalarType] = {}
    for variable in described.variables:
        if variable in said:
            continue
        given = [by_name[name] for name, one in described.parameters if one is variable]
        own = None if arrays else next((one.own for one in given if one.own is not None), None)
        if own is not None and own in (variable.__constraints__ or (own,)):
            found[variable.__name__] = own
        else:
            values = [one.value for one in given]
            found[variable.__name__] = weak_type(variable, values, beside if described.is_inferred else None)
    return found


def known_types(
    described: FunctionTypes, operands: Sequence[Operand], chosen: Mapping[str, ScalarType]
) -> dict[str, ScalarType]:
    """Return the types of all variables, those of arrays and those that were chosen for numbers; raises InvalidInput."""
    found = dict(chosen)
    for (_, one), operand in zip(described.parameters, operands, strict=True):
        if not isinstance(one, TypeVar) or not operand.is_array:
            continue
        dtype = operand.value.dtype
        scalar = type_of(dtype)
        if scalar is None:
            raise InvalidInput(
                f"{operand.name} of {described.name} is {dtype}, which kernels do not compute with",
                fix=host_conversion(operand.name, operand.value, f32),
                parameter=operand.name,
            )
        found.setdefault(one.__name__, scalar)
    return found


def check_overlaps(described: FunctionTypes, operands: Sequence[Operand], outs: Sequence[Any], shape: tuple[int, ...]) -> None:
    """Check that no buffer is written that another invocation may read: one is all of an input, or has nothing of it."""
    targets = [one for one in outs if isinstance(one, Buffer)]
    for place, target in enumerate(targets):
        for one in operands:
            source = one.value
            if not isinstance(source, Buffer) or not source.overlaps(target):
                continue
            if source.span != target.span or source.shape != shape:
                raise InvalidInput(
                    f"out of {described.name} shares memory with {one.name}, and is not all of it",
                    fix=f"pass another buffer, or {one.name} itself",
                    parameter=one.name,
                )
        if any(target.overlaps(other) for other in targets[:place]):
            raise InvalidInput(f"two outputs of {described.name} share memory", fix="pass another buffer for one of them")
