"""The cooperative matrices of a module and their products: what a device has to name before they may run on it.

Sizes and scopes may be specialization constants, so each is a formula that is worked out with the values of a compile. Modules
without the capability are not walked.

Source: SPV_KHR_cooperative_matrix (OpTypeCooperativeMatrixKHR, OpCooperativeMatrixMulAddKHR, "Cooperative Matrix Operands").
"""

from __future__ import annotations

import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.spirv.declarations import HEADER_WORDS, Declarations, invalid, places
from vyre_driver.spirv.opcodes import Capability, Op
from vyre_driver.vulkan.matrices import CooperativeMatrixShape, scope_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.spirv.layout import Scalar
    from vyre_driver.spirv.types import Formula, TypeTable

_TYPE_MATRIX, _MUL_ADD = 4456, 4459
_TYPE_OPERANDS, _MUL_ADD_OPERANDS = 6, 5
_FLOATS = {"f": "float{}", "bf": "bfloat{}", "e4m3": "float{}_e4m3", "e5m2": "float{}_e5m2"}
MATRIX_A, MATRIX_B, ACCUMULATOR = 0, 1, 2
_A_SIGNED, _B_SIGNED, _C_SIGNED, _RESULT_SIGNED, _SATURATING = 1, 2, 4, 8, 16


@dataclass(frozen=True, slots=True)
class CooperativeMatrix:
    """A type of matrices: the scope is SPIR-V's number, ``use`` 0 for a factor A, 1 for B, 2 for what sums are kept in."""

    component: Scalar
    scope: Formula
    rows: Formula
    columns: Formula
    use: Formula

    @property
    def is_specialized(self) -> bool:
        """Whether specialization constants have a part in it."""
        return any(one.is_specialized for one in (self.scope, self.rows, self.columns, self.use))

    def size(self, words: Sequence[int]) -> tuple[int, int]:
        """Return rows and columns, given the constants' bits by SpecId."""
        return self.rows.value(words), self.columns.value(words)

    def scope_name(self, words: Sequence[int]) -> str:
        """Return the scope as a device's shapes name it."""
        return scope_name(self.scope.value(words))

    def component_names(self) -> tuple[str, ...]:
        """Return what a device's shapes may call its components: of integers with a sign and without."""
        return tuple(dict.fromkeys(_component(self.component, is_signed=one) for one in (False, True)))


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """A product ``a`` times ``b`` plus ``c``; ``operands`` are the bits of "Cooperative Matrix Operands"."""

    a: CooperativeMatrix
    b: CooperativeMatrix
    c: CooperativeMatrix
    result: CooperativeMatrix
    operands: int

    @property
    def is_specialized(self) -> bool:
        """Whether specialization constants have a part in it."""
        return any(one.is_specialized for one in (self.a, self.b, self.c, self.result))

    def shape(self, words: Sequence[int]) -> CooperativeMatrixShape | None:
        """Return the shape that a device has to name, given the constants' bits by SpecId.

        It is None where the four do not fit together. Whether integers have a sign is what the operands say: they
        decide how sums are computed.
        """
        parts = (self.a, self.b, self.c, self.result)
        (m, k), (b_rows, n), *sums = (one.size(words) for one in parts)
        uses = [one.use.value(words) for one in parts]
        scopes = {one.scope_name(words) for one in parts}
        if b_rows != k or sums != [(m, n)] * 2 or uses != [MATRIX_A, MATRIX_B, ACCUMULATOR, ACCUMULATOR] or len(scopes) > 1:
            return None
        signs = (self.operands & one != 0 for one in (_A_SIGNED, _B_SIGNED, _C_SIGNED, _RESULT_SIGNED))
        a, b, c, result = (_component(one.component, is_signed=sign) for one, sign in zip(parts, signs, strict=True))
        return CooperativeMatrixShape(m, n, k, a, b, c, result, bool(self.operands & _SATURATING), scopes.pop())


@dataclass(frozen=True, slots=True)
class FunctionMatrices:
    """The types of matrices that a function names, and its products, each once."""

    function_id: int
    matrices: tuple[CooperativeMatrix, ...]
    products: tuple[MatrixProduct, ...]


def read_matrices(code: bytes, declarations: Declarations, types: TypeTable, source: str) -> tuple[FunctionMatrices, ...]:
    """Return what each function of a framed module does with matrices, but for those that do nothing with any.

    Raises
    ------
    InvalidModule
        If a matrix has no scalars, or sizes that do not follow from integers.
    """
    if Capability.CooperativeMatrixKHR not in declarations.capabilities:
        return ()
    reader = _Reader(types, source)
    words = array.array("I", code)
    for at in places(words, HEADER_WORDS):
        reader.see(words[at] & 0xFFFF, words[at + 1 : at + (words[at] >> 16)])
    return reader.found()


class _Reader:
    """Follows which ids are matrices of which type, function by function; what is too short is left to the structural check."""

    def __init__(self, types: TypeTable, source: str) -> None:
        self._types = types
        self._source = source
        self._matrices: dict[int, CooperativeMatrix] = {}
        self._type_of: dict[int, int] = {}
        self._named: dict[int, dict[int, None]] = {}
        self._products: dict[int, dict[MatrixProduct, None]] = {}
        self._function = 0

    def see(self, op: int, operands: Sequence[int]) -> None:
        if op == _TYPE_MATRIX and len(operands) >= _TYPE_OPERANDS:
            self._matrices[operands[0]] = self._matrix(*operands[:_TYPE_OPERANDS])
        elif op == Op.Function and len(operands) > 1:
            self._function = operands[1]
        elif len(operands) > 1 and operands[0] in self._matrices:  # a value: what names types otherwise stands before them
            self._type_of[operands[1]] = operands[0]
            self._name(operands[0])
            if op == _MUL_ADD and len(operands) >= _MUL_ADD_OPERANDS:
                self._multiply(operands)

    def _name(self, type_id: int) -> None:
        if self._function:
            self._named.setdefault(self._function, {})[type_id] = None

    def _multiply(self, operands: Sequence[int]) -> None:
        types = [self._type(one) for one in operands[2:5]]
        for one in types:
            self._name(one)
        a, b, c, result = (self._matrices[one] for one in (*types, operands[0]))
        product = MatrixProduct(a, b, c, result, operands[5] if len(operands) > _MUL_ADD_OPERANDS else 0)
        self._products.setdefault(self._function, {})[product] = None

    def _type(self, value_id: int) -> int:
        found = self._type_of.get(value_id)
        if found is None:
            raise invalid(self._source, f"%{value_id} is multiplied as a cooperative matrix and is none")
        return found

    def _matrix(self, type_id: int, component: int, *constants: int) -> CooperativeMatrix:
        scalar = self._types.scalar(component)
        if scalar is None:
            raise invalid(self._source, f"%{component} is the type of a matrix's components and is not a scalar")
        places = [self._types.constants.place(one) for one in constants]
        known = [self._types.constants.builder.formula(place) for place in places if place is not None]
        if len(known) < len(places):
            raise invalid(self._source, f"a size of matrix type %{type_id} does not follow from integers")
        return CooperativeMatrix(scalar, *known)

    def found(self) -> tuple[FunctionMatrices, ...]:
        return tuple(
            FunctionMatrices(
                function,
                tuple(dict.fromkeys(self._matrices[one] for one in types)),
                tuple(self._products.get(function, ())),
            )
            for function, types in self._named.items()
        )


def _component(scalar: Scalar, *, is_signed: bool) -> str:
    """Return what VkComponentTypeKHR calls a component; it has no name for a bool."""
    if scalar.kind in _FLOATS:
        return _FLOATS[scalar.kind].format(scalar.bits)
    return str(scalar) if scalar.kind == "b" else f"{'sint' if is_signed else 'uint'}{scalar.bits}"
