"""Random programs, printed as Python and translated back."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from both_ways import function_of
from kernel_texts import NAMES
from printing.source import as_source

from vyre_driver.backends.reference.dispatch import interpret
from vyre_driver.conformance.generate import generate
from vyre_driver.conformance.options import Options
from vyre_driver.conformance.patterns import NUMPY
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferAccess, MemoryKind
from vyre_driver.ir.canonical import rewrite
from vyre_driver.ir.expressions import Binary, BufLen, Cast, Load, Unary
from vyre_driver.ir.extensions import application
from vyre_driver.ir.operators import BinOp, UnOp
from vyre_driver.ir.terms import Traits
from vyre_driver.lang.frontend.translate import translate
from vyre_driver.lang.source.parameters import Specialization, signature_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.conformance.case import Case
    from vyre_driver.ir.dtypes import DataType
    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.program import Program
    from vyre_driver.ir.terms import Term
    from vyre_driver.lang.frontend.translate import TranslatedKernel

OPTIONS = Options(narrow=False)
_NAMES = {**NAMES, "kernel": lambda function: function}
STEP_BUDGET = 1 << 18
_OWN = (MemoryKind.SHARED, MemoryKind.LOCAL)
_NEVER = Traits.SWAPPED << 1
_OTHERS = {
    BinOp.MUL_HIGH: BinOp.WRAPPING_ADD,
    BinOp.SATURATING_MUL: BinOp.MUL,
    UnOp.REVERSE_BITS: UnOp.BIT_NOT,
    UnOp.ROUND: UnOp.FLOOR,
    UnOp.SIGN: UnOp.NEGATE,
}
"""What stands here for the operators that the language has no word for."""
_UNSAID = {"pack_f16", "pack_bf16", "unpack_f16", "unpack_bf16", "exp10"}


def program_of_seed(seed: int) -> Case:
    """Return the random program of a seed, in which others stand for the operators that the language has no word for.

    A pushed buffer holds one number.
    """
    made = generate(seed, OPTIONS)
    program = made.program
    pushed = {one.name for one in program.buffers if one.kind is MemoryKind.PUSH}
    entry = [rewrite(node, functools.partial(_sayable, pushed), _NEVER) for node in program.entry]
    buffers = [one.with_count(1) if one.name in pushed else one for one in program.buffers]
    names = [one.name for one in program.buffers if one.kind not in _OWN and not one.is_output]
    inputs = [given[:1] if name in pushed else given for name, given in zip(names, made.inputs, strict=True)]
    changed = program.with_rewritten_buffers(buffers).with_rewritten_entry(entry)
    return replace(made, program=changed, inputs=tuple(inputs))


def _sayable(pushed: set[str], term: Term) -> Term:
    """Return a part of a program as the language can say it, of the same type."""
    match term:
        case Load(buffer) if buffer in pushed:
            return Load(buffer, ir.u32(0), term.dtype)
        case BufLen(buffer) if buffer in pushed:
            return ir.u32(1)
        case Binary(op, left, right) if op in _OTHERS:
            return Binary(_OTHERS[op], left, right)
        case Unary(op, operand) if op in _OTHERS:
            return Unary(_OTHERS[op], operand)
        case Cast():
            found = application(term)
            if found is not None and found.operator.name.partition("<")[0] in _UNSAID:
                return _simpler(found.operator.result, found.operands[0])
    return term


def _simpler(target: DataType, value: Expr) -> Term:
    return value if value.dtype == target else Cast(target, value)


def translated(text: str, *, is_over: bool = False) -> TranslatedKernel:
    """Return what the front end makes of a kernel's text."""
    function = function_of(text, "program", _NAMES)
    return translate(function, signature_of(function), Specialization(is_over=is_over))


def again(program: Program) -> Program:
    """Return the program that the front end makes of a program that is printed."""
    extents = any(one.kind is MemoryKind.PUSH and one.name.endswith(".extent") for one in program.buffers)
    return translated(as_source(program), is_over=extents).program


def rounds(program: Program, most: int = 3) -> int:
    """Return how often a program is printed and translated until its digest stays the same; ``most`` if it does not before."""
    for count in range(most):
        following = again(program)
        if following.digest() == program.digest():
            return count
        program = following
    return most


def inputs_of(case: Case) -> dict[str, NDArray[Any]]:
    """Return what the arrays and numbers of a random program hold before, by name."""
    buffers = [one for one in case.program.buffers if one.kind not in _OWN]
    given = iter(case.inputs)
    return {one.name: np.zeros(one.count, NUMPY[one.element]) if one.is_output else next(given) for one in buffers}


def run(program: Program, given: Mapping[str, NDArray[Any]], grid: Sequence[int]) -> dict[str, NDArray[Any]]:
    """Return what a program that was translated gives for arrays and numbers by name."""
    inputs, counts = [], {}
    for one in program.buffers:
        owner, _, axis = one.name.partition(".shape[")
        if one.access is BufferAccess.WRITE_ONLY:
            counts[one.name] = given[one.name].size
        elif axis and one.name not in given:
            inputs.append(np.array([given[owner].shape[int(axis[:-1])]], np.uint32))
        elif one.kind not in _OWN:
            inputs.append(given[one.name])
    found = interpret(program, inputs, grid=grid, element_counts=counts, step_budget=STEP_BUDGET)
    return _by_name(program, found.outputs)


def run_original(case: Case) -> dict[str, NDArray[Any]]:
    """Return what a random program gives, by the names of its outputs."""
    return _by_name(case.program, interpret(case.program, case.inputs, grid=case.grid, step_budget=STEP_BUDGET).outputs)


def _by_name(program: Program, outputs: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {program.buffers[at].name: one.reshape(-1) for at, one in zip(program.output_buffer_indices(), outputs, strict=True)}


def differing(one: Mapping[str, NDArray[Any]], other: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return the names of arrays that are not the same, bit for bit, but for the bits of a NaN."""
    return [name for name in one if not _same(one[name], other[name])]


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    if one.dtype != np.float32:
        return one.tobytes() == other.tobytes()
    return bool(((one.view(np.uint32) == other.view(np.uint32)) | (np.isnan(one) & np.isnan(other))).all())
