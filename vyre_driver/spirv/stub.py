"""Generate a Python stub for a module's kernel, for type checkers and editors.

The stub holds a protocol, so that nothing of it is needed when a program runs: ``typing.cast`` gives the kernel of
``Driver.compile`` its type. Names are the shader's where Python allows them.
"""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.spirv.layout import Member, MemoryType, Scalar, Struct, Vector, numbers_of, shown
from vyre_driver.spirv.signature import default_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vyre_driver.spirv.interface import SpecConstant
    from vyre_driver.spirv.module import SpirvModule
    from vyre_driver.spirv.reflection import BufferInterface, Reflection

_NUMPY = {"u": "uint", "i": "int", "f": "float"}
_PYTHON = {"u": "int", "i": "int", "f": "float", "b": "bool"}
_GRID = ("workgroups: int | Sequence[int] | None = None", "invocations: int | Sequence[int] | None = None")
_LABEL = "label: str | None = None"
_OPTIONS = ("split: bool = False", "timeout: float | None = None", "strict: bool | None = None", _LABEL)
_OWN = ("self", "push_constants", "out", "out_shapes")
_TAKEN = frozenset({*_OWN, *(one.partition(":")[0] for one in (*_GRID, *_OPTIONS))})
_HEAD = """\
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypedDict, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from vyre_driver import BoundKernel, Buffer, Trace
from vyre_driver.binding import Binding, BindingPlan

Values: TypeAlias = NDArray[Any] | Mapping[str, Any] | Sequence[Mapping[str, Any]]
Out = TypeVar("Out", bound=NDArray[Any] | Buffer)
"""
_PROPERTIES = {
    "name": "str",
    "signature": "str",
    "buffers": "tuple[Binding, ...]",
    "push_constants": "tuple[Any, ...]",
    "constants": "dict[str, int | float | bool]",
    "workgroup_size": "tuple[int, int, int]",
    "plan": "BindingPlan",
    "trace": "Trace",
}


def stub_of(module: SpirvModule) -> str:
    """Return the text of a ``.pyi`` for the entry point that the module runs.

    ``Kernel`` in it is called with one array or buffer each, or without those that are only written where ``out`` or
    ``out_shapes`` gives their shape, and with push constants by keyword or as ``push_constants``. It returns buffers where all
    that is given is buffers, what ``out`` is, and else arrays. ``Constants`` is what ``Driver.compile`` takes.

    Raises
    ------
    UnsupportedFeature
        If the module needs what kompute cannot bind, or has several entry points and none is chosen.
    InvalidInput
        If it has no entry point of the chosen name.
    """
    found = module.reflection
    title = f"{shown(module.name)}: {module.signature}".replace("\\", "\\\\").replace('"', '\\"')
    shapes = [_Field(one.name, "int | tuple[int, ...]", "elements, or shape") for one in found.buffers if _is_output(one)]
    parts = [
        f'"""{title}"""\n',
        _HEAD,
        *_dictionary("Constants", [_constant_field(one) for one in found.spec_constants], total=False),
        *_dictionary("PushConstants", [_push_field(one) for one in found.push_constants], total=True),
        *_dictionary("OutShapes", shapes, total=False),
        "\n".join(_kernel(found)),
    ]
    return "\n".join(parts) + "\n"


class _Field(NamedTuple):
    name: str
    type_text: str
    comment: str


class _Call(NamedTuple):
    """A form of the calls: the type of what each buffer is given, and of the rest."""

    arrays: dict[str, str]
    out: str
    shapes: str
    returned: str


def _dictionary(name: str, fields: Sequence[_Field], *, total: bool) -> list[str]:
    """A dictionary type in the form that takes any key; none without fields."""
    lines = [f"    {field.name!r}: {field.type_text},  # {field.comment}" for field in fields]
    return ["\n".join([f"{name} = TypedDict({name!r}, {{", *lines, f"}}, total={total})"]) + "\n"] if fields else []


def _constant_field(constant: SpecConstant) -> _Field:
    return _Field(constant.name, _PYTHON[constant.scalar.kind], f"{constant.scalar} = {default_text(constant)}")


def _push_field(member: Member) -> _Field:
    return _Field(member.name, _push_type(member.type), _push_comment(member.type))


def _push_type(found: MemoryType) -> str:
    match found:
        case Scalar():
            return _PYTHON[found.kind]
        case Vector(scalar):
            return f"Sequence[{_PYTHON[scalar.kind]}] | NDArray[Any]"
        case Struct():
            return "Mapping[str, Any]"
    numbers = numbers_of(found)
    if numbers is not None and len(numbers.shape) == 1:
        return f"Sequence[{_PYTHON[numbers.scalar.kind]}] | NDArray[Any]"
    return "Sequence[Any] | NDArray[Any]" if numbers is not None else "Sequence[Any]"


def _push_comment(found: MemoryType) -> str:
    numbers = numbers_of(found)
    if numbers is None or not numbers.shape:
        return shown(str(found))
    count = " x ".join(map(str, numbers.shape))
    return f"{count} x {numbers.scalar}"


def _is_output(buffer: BufferInterface) -> bool:
    """Whether a call may leave it out: what is only written."""
    return buffer.writable and not buffer.readable


def _given(buffer: BufferInterface) -> str:
    """Return the type of the arrays that a buffer takes."""
    found = _returned(buffer)
    return "Values" if found == "NDArray[Any]" else found


def _returned(buffer: BufferInterface) -> str:
    """Return the type of the array that a buffer comes back as."""
    scalar = buffer.element.scalar
    if scalar is None or scalar.dtype is None or scalar.is_encoded or buffer.header_bytes:
        return "NDArray[Any]"
    return f"NDArray[np.{_NUMPY[scalar.kind]}{scalar.bits}]"


def _one_or_tuple(types: Sequence[str]) -> str:
    return types[0] if len(types) == 1 else f"tuple[{', '.join(types)}]"


def _calls(found: Reflection) -> Iterator[_Call]:
    """The forms of a call: with ``out``; with all buffers; without those that are only written, and their shapes."""
    written = [one for one in found.buffers if one.writable]
    outputs = [one for one in written if _is_output(one)]
    inputs = [one for one in found.buffers if one not in outputs]
    shapes = "out_shapes: OutShapes | None = None" if outputs else "out_shapes: None = None"
    some = {one.name: f"{_given(one)} | Buffer" for one in inputs}
    into = "out: Out" if len(written) == 1 else "out: tuple[NDArray[Any] | Buffer | None, ...]"
    yield _Call(some, into, shapes, "Out" if len(written) == 1 else "tuple[Any, ...]")

    arrays, buffers = _one_or_tuple([*map(_returned, written)]), _one_or_tuple(["Buffer"] * len(written))
    yield _Call({one.name: "Buffer" for one in found.buffers}, "out: None = None", "out_shapes: None = None", buffers)
    every = {one.name: f"{_given(one)} | Buffer" for one in found.buffers}
    yield _Call(every, "out: None = None", "out_shapes: None = None", arrays)
    if outputs:
        needed = shapes if all(one.count for one in outputs) else "out_shapes: OutShapes"
        if inputs:
            yield _Call({one.name: "Buffer" for one in inputs}, "out: None = None", needed, buffers)
        yield _Call(some, "out: None = None", needed, arrays)


def _kernel(found: Reflection) -> Iterator[str]:
    yield "class Kernel(Protocol):"
    for call in _calls(found):
        yield from _overloads(found, "__call__", call, (call.out, call.shapes, *_OPTIONS))
    bound = _Call({one.name: "Buffer" for one in found.buffers}, "", "", "BoundKernel")
    yield from _overloads(found, "bind", bound, (_LABEL,))
    yield "    def disassemble(self) -> str: ..."
    for name, type_text in _PROPERTIES.items():
        yield "    @property"
        yield f"    def {name}(self) -> {type_text}: ..."


def _overloads(found: Reflection, method: str, call: _Call, options: Sequence[str]) -> Iterator[str]:
    """A method with push constants by keyword, where all names can be keywords, and with ``push_constants``."""
    pushed = found.push_constants
    named = [f"{one.name}: {_push_type(one.type)}" for one in pushed]
    arrays = list(_parameters(call.arrays))
    forms = [(named, "push_constants: None = None")]
    if pushed:
        forms.append(([], "push_constants: PushConstants"))
        taken = _TAKEN.union(one.name for one in found.buffers)
        if not all(_is_free(one.name, taken) for one in pushed):
            del forms[0]
    for keywords, given in forms:
        if method == "__call__" or len(forms) > 1:
            yield "    @overload"
        overlaps = method == "__call__" and set(call.arrays.values()) == {
            "Buffer"
        }  # with the next: buffers are taken there too
        yield f"    def {method}({'  # type: ignore[overload-overlap]' if overlaps else ''}"
        for one in ("self", *arrays, "*", *keywords, *_GRID, given, *options):
            yield f"        {one},"
        yield f"    ) -> {call.returned}: ..."


def _parameters(arrays: dict[str, str]) -> Iterator[str]:
    """The parameters of buffers: up to the last whose name Python does not allow by position only."""
    taken = set(_TAKEN)
    names = [_identifier(name, taken) for name in arrays]
    last = max((at for at, (name, own) in enumerate(zip(names, arrays, strict=True)) if name != own), default=-1)
    for at, (name, type_text) in enumerate(zip(names, arrays.values(), strict=True)):
        yield f"{name}: {type_text}"
        if at == last:
            yield "/"


def _is_free(name: str, taken: frozenset[str]) -> bool:
    """Whether Python allows a name, and nothing else has it."""
    is_allowed = re.fullmatch(r"[A-Za-z_][0-9A-Za-z_]*", name) is not None and not keyword.iskeyword(name)
    return is_allowed and not name.startswith("__") and name not in taken


def _identifier(name: str, taken: set[str]) -> str:
    """Return a name that Python allows and no other parameter has, and take it."""
    result = re.sub(r"[^0-9A-Za-z_]", "_", name)
    if not _is_free(result, frozenset()):
        result = f"b_{result}"
    found, number = result, 1
    while found in taken:
        found, number = f"{result}_{number}", number + 1
    taken.add(found)
    return found
