"""Generate a Python stub for a module's kernel, for type checkers and editors.

The stub holds a protocol, so that nothing of it is needed when a program runs: ``typing.cast`` gives the kernel of
``Driver.compile`` its type. Names are the shader's where Python allows them.
"""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.spirv.layout import Scalar, Struct, Vector, numbers_of, shown
from vyre_driver.spirv.signature import default_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vyre_driver.spirv.interface import SpecConstant
    from vyre_driver.spirv.layout import Member, MemoryType
    from vyre_driver.spirv.module import SpirvModule
    from vyre_driver.spirv.reflection import BufferInterface, Reflection

_NUMPY = {"u": "uint", "i": "int", "f": "float"}
_PYTHON = {"u": "int", "i": "int", "f": "float", "b": "bool"}
_TAKEN = frozenset({"self", "groups", "push", "out_counts", "split", "timeout", "strict", "label"})
_HEAD = """\
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypedDict, overload

import numpy as np
from numpy.typing import NDArray

from vyre_driver import BoundKernel, Buffer, Trace
from vyre_driver.binding import BindingPlan
"""


def stub_of(module: SpirvModule) -> str:
    """Return the text of a ``.pyi`` for the entry point that the module runs.

    ``Kernel`` in it is called with one array a buffer, or without the arrays of write-only buffers where ``out_counts`` gives
    their elements; ``Specs`` is what ``Driver.compile`` takes.

    Raises
    ------
    UnsupportedFeature
        If the module needs what kompute cannot bind, or has several entry points and none is chosen.
    InvalidInput
        If it has no entry point of the chosen name.
    """
    found = module.reflection
    title = f"{shown(module.name)}: {module.signature}".replace("\\", "\\\\").replace('"', '\\"')
    outputs = [one for one in found.buffers if not one.readable and one.writable]
    parts = [
        f'"""{title}"""\n',
        _HEAD,
        *_dictionary("Specs", [_spec_field(one) for one in found.spec_constants], total=False),
        *_dictionary("Push", [_push_field(one) for one in found.push_constants], total=True),
        *_dictionary("OutCounts", [_Field(one.name, "int", "elements") for one in outputs], total=False),
        "\n".join(_kernel(found, outputs)),
    ]
    return "\n".join(parts) + "\n"


class _Field(NamedTuple):
    name: str
    type_text: str
    comment: str


def _dictionary(name: str, fields: Sequence[_Field], *, total: bool) -> list[str]:
    """A dictionary type in the form that takes any key; none without fields."""
    lines = [f"    {field.name!r}: {field.type_text},  # {field.comment}" for field in fields]
    return ["\n".join([f"{name} = TypedDict({name!r}, {{", *lines, f"}}, total={total})"]) + "\n"] if fields else []


def _spec_field(constant: SpecConstant) -> _Field:
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


def _array(buffer: BufferInterface) -> str:
    scalar = buffer.element.scalar
    if scalar is None or scalar.dtype is None or buffer.header_bytes:
        return "NDArray[Any]"
    return f"NDArray[np.{_NUMPY[scalar.kind]}{scalar.bits}]"


def _kernel(found: Reflection, outputs: Sequence[BufferInterface]) -> Iterator[str]:
    written = [_array(one) for one in found.buffers if one.writable]
    returned = written[0] if len(written) == 1 else f"tuple[{', '.join(written)}]"
    has_counts = all(one.count for one in outputs)
    counts = "out_counts: OutCounts | None = None" if outputs else "out_counts: None = None"
    yield "class Kernel(Protocol):"
    if outputs:
        given = [one for one in found.buffers if one not in outputs]
        yield "    @overload"
        yield from _call(found, given, counts if has_counts else "out_counts: OutCounts", returned)
        yield "    @overload"
    yield from _call(found, found.buffers, counts, returned)
    yield "    def bind("
    yield from _parameters([(one.name, "Buffer") for one in found.buffers])
    yield from _options(found)
    yield "    ) -> BoundKernel: ..."
    yield "    @property"
    yield "    def trace(self) -> Trace: ..."
    yield "    @property"
    yield "    def constants(self) -> dict[str, int | float | bool]: ..."
    yield "    @property"
    yield "    def workgroup(self) -> tuple[int, int, int]: ..."
    yield "    @property"
    yield "    def plan(self) -> BindingPlan: ..."


def _call(found: Reflection, buffers: Sequence[BufferInterface], counts: str, returned: str) -> Iterator[str]:
    yield "    def __call__("
    yield from _parameters([(one.name, _array(one)) for one in buffers])
    yield from _options(found)
    yield f"        {counts},"
    yield "        split: bool = False,"
    yield "        timeout: float | None = None,"
    yield "        strict: bool | None = None,"
    yield "        label: str | None = None,"
    yield f"    ) -> {returned}: ..."


def _parameters(named: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield "        self,"
    names = set(_TAKEN)
    for name, type_text in named:
        yield f"        {_identifier(name, names)}: {type_text},"
    yield "        /,"
    yield "        *,"


def _options(found: Reflection) -> Iterator[str]:
    yield "        groups: Sequence[int] | None = None,"
    yield "        push: Push," if found.push_constants else "        push: Mapping[str, object] | None = None,"


def _identifier(name: str, taken: set[str]) -> str:
    """Return a name that Python allows and no other parameter has, and take it."""
    result = re.sub(r"[^0-9A-Za-z_]", "_", name)
    if not result.isidentifier() or keyword.iskeyword(result) or result.startswith("__"):
        result = f"b_{result}"
    found, number = result, 1
    while found in taken:
        found, number = f"{result}_{number}", number + 1
    taken.add(found)
    return found
