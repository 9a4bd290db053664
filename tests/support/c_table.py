"""The C table for embedders as ctypes sees it: what a C extension would call, without one."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

import twins

from vyre_driver import _fast

if TYPE_CHECKING:
    from collections.abc import Sequence

CAPSULE = b"vyre_driver._fast._C_API"


class SpecEntry(ctypes.Structure):
    """vyre_spec_entry."""

    _fields_ = (("name", c_char_p), ("name_len", c_size_t), ("value_hash", c_uint64))


class SpecCacheKey(ctypes.Structure):
    """vyre_spec_cache_key."""

    _fields_ = (
        ("shader_hash", c_uint64),
        ("binding_sig", c_uint64),
        ("spec_hash", c_uint64),
        ("workgroup_size", c_uint32 * 3),
    )


class BufferDecl(ctypes.Structure):
    """vyre_buffer_decl."""

    _fields_ = (
        ("element_size", c_uint64),
        ("binding", c_uint32),
        ("count", c_uint32),
        ("preferred_alignment", c_uint32),
        ("access", c_uint8),
        ("kind", c_uint8),
        ("is_output", c_uint8),
        ("pipeline_live_out", c_uint8),
    )


class Binding(ctypes.Structure):
    """vyre_binding."""

    _fields_ = (
        ("element_size", c_uint64),
        ("preferred_alignment", c_uint64),
        ("static_byte_len", c_uint64),
        ("header_bytes", c_uint64),
        ("least_byte_len", c_uint64),
        ("buffer_index", c_uint64),
        ("input_index", c_int64),
        ("output_index", c_int64),
        ("binding", c_uint32),
        ("element_count", c_uint32),
        ("role", c_uint8),
        ("has_static_byte_len", c_uint8),
    )


class LengthsFault(ctypes.Structure):
    """vyre_lengths_fault."""

    _fields_ = (("place", c_size_t), ("expected", c_uint64), ("received", c_uint64))


class CacheEntry(ctypes.Structure):
    """vyre_cache_entry."""

    _fields_ = (
        ("spirv", c_void_p),
        ("spirv_len", c_size_t),
        ("native", c_void_p),
        ("native_len", c_size_t),
        ("owner", c_void_p),
        ("reason", c_char * 256),
    )


_FUNCTIONS: tuple[tuple[str, Any, tuple[Any, ...]], ...] = (
    ("spec_map_hash", c_uint64, (POINTER(SpecEntry), c_size_t)),
    ("autotune_key", None, (POINTER(SpecCacheKey), c_void_p)),
    ("hex", None, (c_void_p, c_size_t, c_void_p)),
    ("shard_path", None, (c_void_p, c_void_p)),
    ("plan_build", c_int, (POINTER(BufferDecl), c_size_t, POINTER(c_uint64), c_size_t, POINTER(Binding), POINTER(c_size_t))),
    ("validate_lengths", c_int, (POINTER(Binding), c_size_t, POINTER(c_uint64), c_size_t, POINTER(LengthsFault))),
    ("pipeline_key", c_int, (c_void_p, c_size_t, c_void_p)),
    ("cache_open", c_void_p, (c_char_p, c_void_p)),
    ("cache_lookup", c_int, (c_void_p, c_void_p, c_size_t, POINTER(CacheEntry))),
    ("cache_release", None, (POINTER(CacheEntry),)),
    ("cache_close", None, (c_void_p,)),
    ("bound_take", c_void_p, (ctypes.py_object, c_void_p)),
    ("bound_drop", None, (c_void_p,)),
    ("bound_run", c_int, (c_void_p, c_uint64)),
    ("bound_submit", c_int, (c_void_p,)),
    ("bound_wait", c_int, (c_void_p, c_uint64)),
    ("bound_poll", c_int, (c_void_p,)),
    ("device_counts", c_size_t, (c_void_p, POINTER(c_uint64), c_size_t)),
)


class Table(ctypes.Structure):
    """vyre_driver_api; its functions are called without the interpreter's lock."""

    _fields_ = (
        ("abi_version", c_uint32),
        ("struct_size", c_uint32),
        *((name, ctypes.CFUNCTYPE(result, *arguments)) for name, result, arguments in _FUNCTIONS),
    )


def table() -> Table:
    """The table of the extension that is loaded."""
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    return Table.from_address(pointer_of(vars(_fast)["_C_API"], CAPSULE))


def entries(rows: list[tuple[bytes, int]]) -> Any:  # noqa: ANN401 -- an array of SpecEntry
    """Rows of name and value hash as an array."""
    return (SpecEntry * len(rows))(*[SpecEntry(name, len(name), number) for name, number in rows])


def numbers(values: tuple[int, ...]) -> Any:  # noqa: ANN401 -- an array of u64
    """Whole numbers as an array."""
    return (c_uint64 * len(values))(*values)


def plan(vyre: Table, declared: Sequence[twins.Declared], lengths: Sequence[int]) -> tuple[int, object]:
    """Plan declarations through the table; the answer of ``twins.build_plan``."""
    decls = (BufferDecl * len(declared))(
        *[BufferDecl(*(getattr(one, name) for name, _ in BufferDecl._fields_)) for one in declared]
    )
    made, fault = (Binding * len(declared))(), c_size_t()
    status = vyre.plan_build(decls, len(declared), numbers(tuple(lengths)), len(lengths), made, fault)
    return (status, fault.value) if status else (status, [_planned(one) for one in made])


def _planned(one: Binding) -> twins.Planned:
    return twins.Planned(
        element_size=one.element_size,
        preferred_alignment=one.preferred_alignment,
        static_byte_len=one.static_byte_len if one.has_static_byte_len else None,
        buffer_index=one.buffer_index,
        input_index=None if one.input_index < 0 else one.input_index,
        output_index=None if one.output_index < 0 else one.output_index,
        binding=one.binding,
        element_count=one.element_count,
        role=one.role,
    )


def verdict(vyre: Table, bindings: Sequence[twins.Measured], lengths: Sequence[int]) -> tuple[int, int, int, int] | None:
    """Check lengths through the table; the answer of ``twins.validate_lengths``."""
    measured = (Binding * len(bindings))()
    for place, one in enumerate(bindings):
        measured[place].element_size, measured[place].header_bytes = one.element_size, one.header_bytes
        measured[place].least_byte_len = one.least_byte_len
        measured[place].static_byte_len = one.static_byte_len or 0
        measured[place].has_static_byte_len = one.static_byte_len is not None
        measured[place].input_index = -1 if one.input_index is None else one.input_index
    fault = LengthsFault()
    status = vyre.validate_lengths(measured, len(bindings), numbers(tuple(lengths)), len(lengths), fault)
    return (status, fault.place, fault.expected, fault.received) if status else None
