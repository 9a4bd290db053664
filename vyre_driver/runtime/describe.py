"""Kernels as people and tools look at them: names and types of what a call takes."""

from __future__ import annotations

import inspect
import keyword
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.spirv.layout import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.binding.plan import Binding
    from vyre_driver.lowering.source import KernelSource
    from vyre_driver.runtime.kernel import Kernel
    from vyre_driver.spirv.layout import Member


class SignatureProperty(property):
    """The ``__signature__`` of objects that are called; their class has its own, that of its ``__init__``."""

    def __get__(self, instance: Any, owner: type | None = None, /) -> Any:  # noqa: ANN401 -- property's
        """Return an object's; raises AttributeError for the class."""
        if instance is None:
            raise AttributeError("__signature__")
        return super().__get__(instance, owner)


class DescribedByKernel:
    """The attributes of a ``Kernel``, for what stands for equal kernels on several devices."""

    _described_by: Kernel

    @property
    def name(self) -> str:
        """The module's or the program's name."""
        return self._described_by.name

    @property
    def signature(self) -> str:
        """What a call takes, as ``Kernel.signature``."""
        return self._described_by.signature

    @SignatureProperty
    def __signature__(self) -> inspect.Signature:
        """What ``inspect.signature`` shows, as of a ``Kernel``."""
        found: inspect.Signature = self._described_by.__signature__
        return found

    @property
    def buffers(self) -> tuple[Binding, ...]:
        """The buffers that a call takes, in binding order: name, role, type and size of each."""
        return self._described_by.buffers

    @property
    def push_constants(self) -> tuple[Member, ...]:
        """The push constants: name, offset in bytes and type of each."""
        return self._described_by.push_constants

    @property
    def constants(self) -> dict[str, int | float | bool]:
        """The value of each specialization constant by name, as ``Kernel.constants``."""
        return self._described_by.constants

    @property
    def workgroup_size(self) -> tuple[int, int, int]:
        """Invocations of a workgroup along x, y, z; what ``workgroups`` counts."""
        return self._described_by.workgroup_size

    def disassemble(self) -> str:
        """Return the SPIR-V that runs as text, by spirv-dis; raises as ``Kernel.disassemble``."""
        return self._described_by.disassemble()

    def _repr_html_(self) -> str:
        return self._described_by._repr_html_()


def described_binding(binding: Binding) -> str:
    """Return name, contents and access of a buffer: ``y: f32[n] inout``, of a shader's as ``SpirvModule.signature`` has it."""
    access = _ACCESS[binding.role.consumes_input, binding.role.produces_output]
    return f"{binding.views or f'{shown(binding.name)}: {_contents(binding)}'} {access}"


def _contents(binding: Binding) -> str:
    if binding.block is not None:
        return binding.block.text
    element = binding.element
    kind = str(binding.data_type or (element.scalar if element is not None and element.scalar is not None else "bytes"))
    if binding.dtype is not None and binding.stride > binding.dtype.itemsize:
        kind = f"vec{binding.stride // binding.dtype.itemsize}<{kind}>"
    return f"{kind}[{binding.element_count or 'n'}]"


_ACCESS = {(True, False): "in", (True, True): "inout", (False, True): "out", (False, False): "resident"}


def signature_text(source: KernelSource) -> str:
    """Return a kernel as a line: ``saxpy(x: f32[n] in, y: f32[n] inout; alpha: f32)``."""
    buffers = ", ".join(map(described_binding, source.plan.descriptors))
    pushed = ", ".join(f"{one.name}: {one.type}" for one in source.push_constants)
    return f"{source.name}({'; '.join(part for part in (buffers, pushed) if part)})"


def call_signature(
    descriptors: Sequence[Binding], push_constants: Sequence[Member], call: inspect.Signature
) -> inspect.Signature:
    """Return the signature of a kernel's calls: its buffers, its push constants, and the options that every call has.

    A name that Python has no argument of, or that an option has, is left out: it is passed by position or ``push_constants``.
    """
    options = [one for one in call.parameters.values() if one.kind is one.KEYWORD_ONLY]
    taken = {one.name for one in options}
    found: list[inspect.Parameter] = []
    for binding in descriptors:
        is_optional = binding.role.produces_output and not binding.role.consumes_input
        default: Any = None if is_optional or any(one.default is None for one in found) else inspect.Parameter.empty
        found += _parameter(binding.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default, np.ndarray, taken)
    for member in push_constants:
        empty = inspect.Parameter.empty
        found += _parameter(member.name, inspect.Parameter.KEYWORD_ONLY, empty, str(member.type), taken)
    return call.replace(parameters=[*found, *options])


def tuned_signature(inputs: Sequence[str], parameters: Sequence[inspect.Parameter]) -> inspect.Signature:
    """Return the signature of calls that take arrays by position, parameters by keyword, and ``out``."""
    found: list[inspect.Parameter] = []
    taken: set[str] = set()
    for name in inputs:
        found += _parameter(name, inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.empty, np.ndarray, taken)
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=object)
    return inspect.Signature([*found, *parameters, out])


def _parameter(name: str, kind: Any, default: Any, annotation: Any, taken: set[str]) -> list[inspect.Parameter]:  # noqa: ANN401 -- inspect's
    if not name.isidentifier() or keyword.iskeyword(name) or name in taken:
        return []
    taken.add(name)
    return [inspect.Parameter(name, kind, default=default, annotation=annotation)]
