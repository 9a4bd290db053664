"""Random programs, printed as Python and translated back."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from both_ways import function_of
from kernel_texts import NAMES

from vyre_driver.backends.reference.dispatch import interpret
from vyre_driver.conformance.generate import generate
from vyre_driver.conformance.options import Options
from vyre_driver.conformance.patterns import NUMPY
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import MemoryKind
from vyre_driver.ir.canonical import rewrite
from vyre_driver.ir.expressions import Binary, BufLen, Cast, Load, Unary
from vyre_driver.ir.extensions import application
from vyre_driver.ir.operators import BinOp, UnOp
from vyre_driver.ir.terms import Traits
from vyre_driver.lang.frontend.translate import translate
from vyre_driver.lang.printing.source import as_source
from vyre_driver.lang.source.parameters import Specialization, signature_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.conformance.case import Case
    from vyre_driver.ir.dtypes import DataType
    from vyre_driver.ir.program import Program
    from vyre_driver.ir.terms import Term
    from vyre_driver.lang.frontend.translate import TranslatedKernel

OPTIONS = Options(u64=False, narrow=False)
_NAMES = {**NAMES, "kernel": lambda function: function}
_STEP_BUDGET = 1 << 18
_NEVER = Traits.SWAPPED << 1
_OTHERS = {
    BinOp.MUL_HIGH: BinOp.BIT_XOR,
    BinOp.SATURATING_MUL: BinOp.MUL,
    UnOp.REVERSE_BITS: UnOp.BIT_NOT,
    UnOp.ROUND: UnOp.FLOOR,
    UnOp.SIGN: UnOp.NEGATE,
}
"""What stands here for the operators that the language has no word for."""
_SIMPLER = {"bitcast", "pack_f16", "pack_bf16", "unpack_f16", "unpack_bf16", "exp10"}


def program_of_seed(seed: int) -> Case:
    """Return the random program of a seed, in which other operators stand for what the language has no word for."""
    made = generate(seed, OPTIONS)
    program = made.program
    pushed = {one.name for one in program.buffers if one.kind is MemoryKind.PUSH}
    entry = [rewrite(node, functools.partial(_sayable, pushed), _NEVER) for node in program.entry]
    buffers = [one.with_count(1) if one.name in pushed else one for one in program.buffers]
    names = [one.name for one in program.buffers if one.kind is not MemoryKind.SHARED and not one.is_output]
    inputs = tuple(given[:1] if name in pushed else given for name, given in zip(names, made.inputs, strict=True))
    return replace(made, program=program.with_rewritten_buffers(buffers).with_rewritten_entry(entry), inputs=inputs)


def _sayable(pushed: set[str], term: Term) -> Term:
    if isinstance(term, Load) and term.buffer in pushed:
        return Load(term.buffer, ir.u32(0), term.dtype)
    if isinstance(term, BufLen) and term.buffer in pushed:
        return ir.u32(1)
    if isinstance(term, Binary) and term.op in _OTHERS:
        return Binary(_OTHERS[term.op], term.left, term.right)
    if isinstance(term, Unary) and term.op in _OTHERS:
        return Unary(_OTHERS[term.op], term.operand)
    found = application(term) if isinstance(term, Cast) else None
    if found is None or found.operator.name.partition("<")[0] not in _SIMPLER:
        return term
    return _simpler(found.operator.result, found.operands[0])


def _simpler(target: DataType, value: Any) -> Term:
    return value if value.dtype == target else Cast(target, value)


def translated(text: str, *, is_over: bool = False) -> TranslatedKernel:
    """Return what the front end makes of a kernel's text."""
    function = function_of(text, "program", _NAMES)
    return translate(function, signature_of(function), Specialization(is_over=is_over))


def again(program: Program) -> Program:
    """Return the program that the front end makes of a program that is printed."""
    extents = any(one.kind is MemoryKind.PUSH and one.name.endswith(".extent") for one in program.buffers)
    return translated(as_source(program), is_over=extents).program


def run_original(case: Case) -> dict[str, NDArray[Any]]:
    found = interpret(case.program, list(case.inputs), grid=case.grid, step_budget=_STEP_BUDGET)
    return dict(zip(_outputs(case.program), found.outputs, strict=True))


def run_kernel(case: Case, kernel: TranslatedKernel) -> dict[str, NDArray[Any]]:
    """Run what was made of a random program on the same inputs."""
    given: dict[str, NDArray[Any]] = {}
    waiting = list(case.inputs)
    for one in case.program.buffers:
        if one.kind is MemoryKind.SHARED:
            continue
        if one.is_output:
            given[one.name] = np.zeros(one.count, NUMPY[one.element])
        else:
            given[one.name] = waiting.pop(0)
    inputs, counts = [], {}
    for one in kernel.program.buffers:
        if one.kind is MemoryKind.SHARED:
            continue
        if one.access.name == "WRITE_ONLY":
            counts[one.name] = given[one.name].size
        else:
            owner, _, rest = one.name.partition(".shape[")
            inputs.append(np.array([given[owner].size], np.int32) if rest else given[one.name])
    found = interpret(kernel.program, inputs, grid=case.grid, element_counts=counts, step_budget=_STEP_BUDGET)
    return dict(zip(_outputs(kernel.program), found.outputs, strict=True))


def _outputs(program: Program) -> list[str]:
    return [program.buffers[at].name for at in program.output_buffer_indices()]
