"""The arrays that ``vyre-driver run`` gives a shader: from files, from standard input, or made here."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.cli.files import MAX_BYTES, STANDARD, read_array, read_stdin_array
from vyre_driver.errors import InvalidCommand

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.binding.plan import Binding

MADE = ("random", "zeros", "ones", "arange")
_NUMBERS = "fiu"  # kinds of numpy
_MAX_DIGITS = 10


def input_array(text: str, binding: Binding) -> NDArray[Any]:
    """Return the array that ``--in NAME=TEXT`` names: ``KIND:SHAPE[:TYPE]`` of MADE, ``-`` or a file.

    Raises
    ------
    InvalidCommand
        If the shape or the type of what is to be made cannot be understood, or it is too large.
    FileUnusable
        If a file cannot be read.
    InvalidInput
        If raw bytes do not fit the binding.
    """
    kind, colon, rest = text.partition(":")
    if colon and kind in MADE:
        return _made(kind, rest, binding)
    return read_stdin_array() if text == STANDARD else read_array(Path(text), binding)


def _made(kind: str, rest: str, binding: Binding) -> NDArray[Any]:
    shape_text, _, type_text = rest.partition(":")
    given = f"--in {binding.name}={kind}:{rest}"
    shape, dtype = _shape(shape_text, given), _dtype(type_text, binding, given)
    byte_len = math.prod(shape) * dtype.itemsize
    if byte_len > MAX_BYTES:
        raise InvalidCommand(f"{given} has {byte_len} bytes, and a buffer at most {MAX_BYTES}", fix="give a smaller shape")
    try:
        return _filled(kind, shape, dtype, seed=binding.binding)
    except MemoryError as error:
        raise InvalidCommand(f"the host has no memory for {given} ({byte_len} bytes)", fix="give a smaller shape") from error


def _shape(text: str, given: str) -> tuple[int, ...]:
    parts = text.split("x")
    if not all(one.isdecimal() and one.isascii() and len(one) <= _MAX_DIGITS and int(one) for one in parts):
        raise InvalidCommand(f"{given} has no shape from 1 element up", fix="write it as random:1000 or random:64x32")
    return tuple(int(one) for one in parts)


def _dtype(text: str, binding: Binding, given: str) -> np.dtype[Any]:
    if not text:
        layout = binding.layout
        if binding.dtype is None and layout is not None and not (layout.header_bytes or layout.elements.is_structure):
            return layout.elements.dtype  # of vectors with gaps, or of matrices
        if binding.dtype is None:
            fix = f"add one, as in random:1000:uint8, or give a file: the elements of {binding.name!r} are no plain numbers"
            raise InvalidCommand(f"{given} has no type, and the shader's buffer tells none", fix=fix)
        return np.dtype(binding.dtype)
    try:
        dtype = np.dtype(text)
    except (TypeError, ValueError, SyntaxError):
        dtype = np.dtype(object)
    if dtype.kind not in _NUMBERS:
        raise InvalidCommand(f"{text!r} in {given} is no numeric type of numpy", fix="write float32, uint8 or their like")
    return dtype


def _filled(kind: str, shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> NDArray[Any]:
    """Return the array; random numbers are from 0 to 1, integers all that there are, and the same each time."""
    match kind:
        case "zeros":
            return np.zeros(shape, dtype)
        case "ones":
            return np.ones(shape, dtype)
        case "arange":
            with np.errstate(over="ignore"):
                return np.arange(math.prod(shape)).astype(dtype).reshape(shape)
    rng = np.random.default_rng(seed)
    if dtype.kind == "f":
        return rng.random(shape, np.float64 if dtype.itemsize > 4 else np.float32).astype(dtype, copy=False)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
