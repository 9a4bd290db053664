"""What is wrong with a declaration or a length, as errors: also of the status codes of the compiled planner (``_fast.pxd``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.binding.rules import NO_LAYOUT
from vyre_driver.checks import U64_MAX
from vyre_driver.errors import InvalidInput, InvalidProgram, LimitExceeded

if TYPE_CHECKING:
    from vyre_driver.binding.plan import Binding, BindingPlan
    from vyre_driver.errors import VyreError
    from vyre_driver.ir.buffers import BufferDecl

_RUNTIME_SIZED, _LENGTH_OVERFLOW, _ALIGNMENT = 2, 3, 4
_WRONG_COUNT, _SHORT, _MISALIGNED = 1, 2, 3


def plan_error(buffer: BufferDecl, status: int, *, is_packed: bool = False) -> InvalidProgram:
    """Return the error of a declaration that has no place in a plan, or in one whose elements are packed."""
    what = f"buffer {buffer.name!r}"
    size = buffer.element.min_bytes
    packed_error = _packed_error(buffer) if is_packed and status in (_LENGTH_OVERFLOW, NO_LAYOUT) else None
    if packed_error is not None:
        return packed_error
    if status == _RUNTIME_SIZED:
        return InvalidProgram(
            f"{what} declares {buffer.count} elements of {buffer.element}, a type that fixes 0 bytes an element",
            fix="leave the count at 0, or use an element type of a fixed size",
            binding=buffer.name,
            count=buffer.count,
            element_size=0,
        )
    if status == _LENGTH_OVERFLOW:
        return InvalidProgram(
            f"{what} declares {buffer.count} elements of {size} bytes, {buffer.count * size} bytes in all, over the limit of "
            f"{U64_MAX} bytes",
            fix="use fewer or smaller elements",
            binding=buffer.name,
            value=buffer.count * size,
            limit=U64_MAX,
        )
    if status == _ALIGNMENT:
        hint = buffer.hints.preferred_alignment
        return InvalidProgram(
            f"{what} asks for preferred_alignment={hint} bytes, which is not a power of two",
            fix=f"use 0, or a power of two such as {1 << hint.bit_length() - 1}",
            binding=buffer.name,
            preferred_alignment=hint,
        )
    return InvalidProgram(
        f"{what} has the access {buffer.access!r}, which has no role", fix="use a BufferAccess", binding=buffer.name
    )


def _packed_error(buffer: BufferDecl) -> InvalidProgram | None:
    """Return why a declaration has no packed size, None where that is not what is wrong with it."""
    try:
        buffer.element.validate_layout()
        buffer.static_byte_len()
    except InvalidProgram as error:
        return InvalidProgram(f"buffer {buffer.name!r}: {error.problem}", fix=error.fix, binding=buffer.name)
    return None


def same_number_error(first: Binding, second: Binding) -> InvalidProgram:
    """Return the error of two buffers of one binding number that each need a descriptor."""
    return InvalidProgram(
        f"buffers {first.name!r} and {second.name!r} both have binding {second.binding}",
        fix="give each a number of its own",
        binding=second.name,
        number=second.binding,
    )


def padding_error(binding: Binding, size: int, padded: int) -> LimitExceeded:
    """Return the error of a buffer whose ``size`` bytes take more than 2**64 - 1 bytes with their padding."""
    return LimitExceeded(
        f"{binding.described} takes {size} bytes, padded {padded} bytes, and there are {U64_MAX} bytes at most",
        fix="use fewer elements, or a smaller alignment",
        binding=binding.name,
        value=padded,
        limit=U64_MAX,
    )


def readback_error(binding: Binding, start: int, end: int, size: int) -> InvalidProgram:
    """Return the error of an ``output_byte_range`` that does not lie in the ``size`` bytes of its buffer."""
    return InvalidProgram(
        f"the output_byte_range of buffer {binding.name!r} goes from byte {start} to byte {end}, and it has {size} bytes",
        fix=f"give a range that goes forward and ends at byte {size} or before",
        binding=binding.name,
        start=start,
        end=end,
        byte_len=size,
    )


def no_length_error(binding: Binding) -> InvalidProgram:
    """Return the error of a buffer whose length is asked for and left to run time."""
    return InvalidProgram(
        f"{binding.described} has no static length: its {binding.element_size}-byte elements are counted at run time",
        fix="give its length in bytes",
        binding=binding.name,
    )


def lengths_error(plan: BindingPlan, status: int, place: int, expected: int, received: int) -> VyreError:
    """Return the error of inputs that do not fit: of a program InvalidProgram, of a shader InvalidInput."""
    kind = InvalidInput if plan.subject == "shader" else InvalidProgram
    if status == _WRONG_COUNT:
        by_place = {binding.input_index: binding.name for binding in plan.bindings}
        takers = ", ".join(f"{by_place[place]!r}" for place in range(expected))
        order = "declarations" if plan.rules.in_declaration_order else "binding numbers"
        return kind(
            f"the {plan.subject} takes {expected} input(s){': ' * bool(takers)}{takers}; and got {received}",
            fix=f"pass one for each, in the order of their {order}",
            expected=expected,
            received=received,
        )
    binding = plan.bindings[place]
    refused = misfit(binding, received) if plan.subject == "shader" else None
    if refused is not None:
        return refused
    if status == _MISALIGNED:
        return InvalidProgram(
            f"{binding.described} has {received} bytes, which is not a whole number of {expected}-byte elements",
            fix="pass whole elements",
            binding=binding.name,
            element_size=expected,
            received_bytes=received,
        )
    or_more = " or more" if status == _SHORT else ""
    of_bytes = f" of {binding.element_size} bytes" if expected == binding.element_count * binding.element_size else ", packed"
    return InvalidProgram(
        f"{binding.described} has {received} bytes, and the program fixes it at {expected} bytes{or_more} "
        f"({binding.element_count} elements{of_bytes})",
        fix=f"pass {expected} bytes{or_more}",
        binding=binding.name,
        expected_bytes=expected,
        received_bytes=received,
    )


def check_byte_len(binding: Binding, size: int, *, allow_empty: bool = False) -> None:
    """Check that so many bytes are whole elements, at least one, and as many as fixed; raise InvalidInput otherwise.

    ``allow_empty`` lets a shader's buffer have no elements after its header, where run time decides their number.
    """
    if allow_empty and binding.subject == "shader" and binding.static_byte_len is None and size == binding.header_bytes:
        return
    found = misfit(binding, size)
    if found is not None:
        raise found


def misfit(binding: Binding, size: int) -> InvalidInput | None:
    """Return why so many bytes are not the contents of a buffer in a dispatch, or None."""
    what, stride, header = binding.described, binding.stride, binding.header_bytes
    fixed = binding.static_byte_len
    if fixed is not None and size != fixed:
        return InvalidInput(
            f"{what} has {size} bytes, and the {binding.subject} fixes it at {fixed} bytes ({binding.element_count} elements "
            f"of {stride} bytes)",
            fix=f"pass {fixed} bytes",
            binding=binding.name,
            expected_bytes=fixed,
            received_bytes=size,
        )
    least = binding.least_byte_len
    if size < least:
        of_what = "of one element" if least == header + stride else "that the largest of the shader's views of it takes"
        return InvalidInput(
            f"{what} has {size} bytes, less than the {least} bytes {of_what}",
            fix="pass at least one element" if least == header + stride else f"pass {least} bytes or more",
            binding=binding.name,
            expected_bytes=least,
            received_bytes=size,
        )
    if (size - header) % stride:
        after = f" after a header of {header} bytes" if header else ""
        return InvalidInput(
            f"{what} has {size} bytes, which is not a whole number of {stride}-byte elements{after}",
            fix="pass whole elements",
            binding=binding.name,
            element_size=stride,
            received_bytes=size,
        )
    return None
