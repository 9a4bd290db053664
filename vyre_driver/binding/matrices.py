"""Check cooperative matrices against the shapes that the device names: any other is undefined, and may run without an end.

Source: Vulkan 1.4, appendix "Vulkan Environment for SPIR-V", VUID-RuntimeSpirv-OpTypeCooperativeMatrixKHR-10163,
-OpCooperativeMatrixMulAddKHR-10060, -cooperativeMatrixWorkgroupScope-10164, -cooperativeMatrixFlexibleDimensions-10165 and
-10166, -cooperativeMatrixFlexibleDimensionsMaxDimension-10167, -maxComputeSharedMemorySize-10168.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vyre_driver.errors import LimitExceeded, UnsupportedFeature
from vyre_driver.spirv.matrices import ACCUMULATOR, MATRIX_A, MATRIX_B
from vyre_driver.vulkan.matrices import CooperativeMatrixShape, FlexibleMatrixShape

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import TypeAlias

    from vyre_driver.spirv.matrices import CooperativeMatrix, MatrixProduct
    from vyre_driver.spirv.reflection import Reflection
    from vyre_driver.vulkan.devices import PhysicalDevice

    _Shape: TypeAlias = CooperativeMatrixShape | FlexibleMatrixShape

_FLEXIBLE, _WORKGROUP = "cooperativeMatrixFlexibleDimensions", "cooperativeMatrixWorkgroupScope"


def check_matrices(
    reflection: Reflection,
    words: Sequence[int],
    workgroup: tuple[int, int, int],
    device: PhysicalDevice,
    features: Collection[str],
) -> None:
    """Check that a device, open with these features, names the matrices of a module and their products.

    ``words`` are the constants' bits by SpecId, ``workgroup`` its invocations per axis with them.

    Raises
    ------
    UnsupportedFeature
        If it does not, or matrices of a workgroup are not switched on.
    LimitExceeded
        If matrices of a workgroup are in one of more invocations than the device allows.
    """
    if not reflection.matrices:
        return
    checker = _Checker(words, math.prod(workgroup), device, features)
    if uses_workgroup_scope(reflection, words):
        checker.check_workgroup()
    for product in reflection.products:
        checker.check_product(product)
    for matrix in reflection.matrices:
        checker.check_matrix(matrix)


def uses_workgroup_scope(reflection: Reflection, words: Sequence[int]) -> bool:
    """Return whether matrices of a module are of a whole workgroup, given the constants' bits by SpecId."""
    return any(matrix.scope_name(words) == "workgroup" for matrix in reflection.matrices)


def reserved_shared_bytes(reflection: Reflection, words: Sequence[int], device: PhysicalDevice) -> int:
    """Return the bytes of shared memory that a device keeps for itself where matrices are of a whole workgroup."""
    limits = device.cooperative_matrix2
    is_kept = limits is not None and uses_workgroup_scope(reflection, words)
    return limits.workgroup_scope_reserved_shared_memory if limits is not None and is_kept else 0


class _Checker:
    """The shapes that a device names, and a workgroup of so many invocations."""

    def __init__(self, words: Sequence[int], invocations: int, device: PhysicalDevice, features: Collection[str]) -> None:
        self._words = words
        self._invocations = invocations
        self._device = device
        self._features = features
        self._shapes = device.matrix_shapes(flexible=_FLEXIBLE in features)
        limits = device.cooperative_matrix2
        self._most = 0 if limits is None else limits.flexible_dimensions_max_dimension

    def check_workgroup(self) -> None:
        if _WORKGROUP not in self._features:
            has = _WORKGROUP in self._device.features
            why = f"{_WORKGROUP} is not switched on" if has else f"{self._device.name!r} does not have {_WORKGROUP}"
            raise UnsupportedFeature(
                f"the shader has matrices of a whole workgroup, and {why}",
                fix="make them matrices of a subgroup, or choose another device",
                feature=_WORKGROUP,
            )
        limits = self._device.cooperative_matrix2
        if limits is not None and self._invocations > limits.workgroup_scope_max_workgroup_size:
            raise LimitExceeded(
                f"the shader has matrices of a whole workgroup of {self._invocations} invocations, and the device allows "
                f"{limits.workgroup_scope_max_workgroup_size} with such",
                fix=f"choose a workgroup of at most {limits.workgroup_scope_max_workgroup_size} invocations",
                value=self._invocations,
                limit=limits.workgroup_scope_max_workgroup_size,
            )

    def check_product(self, product: MatrixProduct) -> None:
        asked = product.shape(self._words)
        if asked is None:
            parts = zip("ABC", (product.a, product.b, product.c), strict=False)
            shown = [f"{name} {self._shown(one)}" for name, one in (*parts, ("result", product.result))]
            raise UnsupportedFeature(
                f"the shader multiplies matrices that do not fit together: {', '.join(shown)}",
                fix="make A m x k, B k x n, C and the result m x n, and all of one scope",
            )
        if not any(self._takes(shape, asked) for shape in self._shapes):
            nearest = min(self._shapes, key=lambda shape: self._distance(shape, asked), default=None)
            self._refuse(f"multiplies {asked}", nearest, is_specialized=product.is_specialized)

    def check_matrix(self, matrix: CooperativeMatrix) -> None:
        if not any(self._holds(shape, matrix) for shape in self._shapes):
            nearest = min(self._shapes, key=lambda shape: self._apart(shape, matrix), default=None)
            self._refuse(f"has a matrix {self._shown(matrix)}", nearest, is_specialized=matrix.is_specialized)

    def _refuse(self, what: str, nearest: _Shape | None, *, is_specialized: bool) -> None:
        asked = f"the shader {what} in a workgroup of {self._invocations} invocations"
        message = f"{asked}, and {self._device.name!r} names no such shape"
        if nearest is None:
            raise UnsupportedFeature(f"{message}, nor any other", fix="choose another device", feature="cooperativeMatrix")
        most = f", of at most {self._most} rows and columns" if isinstance(nearest, FlexibleMatrixShape) else ""
        how = "give specialization constants" if is_specialized else "write the shader"
        raise UnsupportedFeature(
            f"{message}; of the {len(self._shapes)} that it names the nearest is {nearest}{most}",
            fix=f"{how} for a shape that `vyre-driver devices --json` lists, or choose another device",
            feature="cooperativeMatrix",
            nearest=str(nearest),
        )

    def _takes(self, shape: _Shape, asked: CooperativeMatrixShape) -> bool:
        if isinstance(shape, CooperativeMatrixShape):
            return shape == asked
        is_alike = (shape.types, shape.saturating, shape.scope) == (asked.types, asked.saturating, asked.scope)
        return is_alike and self._has_workgroup(shape) and self._are_multiples(asked.sizes, shape.sizes)

    def _holds(self, shape: _Shape, matrix: CooperativeMatrix) -> bool:
        if shape.scope != matrix.scope_name(self._words) or _types_of(shape, matrix, self._words).isdisjoint(
            matrix.component_names()
        ):
            return False
        size, allowed = matrix.size(self._words), _size_of(shape, matrix, self._words)
        if isinstance(shape, CooperativeMatrixShape):
            return size == allowed
        return self._has_workgroup(shape) and self._are_multiples(size, allowed)

    def _has_workgroup(self, shape: FlexibleMatrixShape) -> bool:
        return shape.scope != "workgroup" or shape.workgroup_invocations == self._invocations

    def _are_multiples(self, sizes: tuple[int, ...], steps: tuple[int, ...]) -> bool:
        return all(step and 0 < size <= self._most and size % step == 0 for size, step in zip(sizes, steps, strict=True))

    def _distance(self, shape: _Shape, asked: CooperativeMatrixShape) -> tuple[float, ...]:
        """Return how far a shape is from one that is asked for: by types first, by sizes last."""
        types = sum(one != other for one, other in zip(shape.types, asked.types, strict=True))
        others = shape.scope != asked.scope, shape.saturating != asked.saturating
        return types, *others, self._apart_in_size(shape, asked.sizes, shape.sizes)

    def _apart(self, shape: _Shape, matrix: CooperativeMatrix) -> tuple[float, ...]:
        types = _types_of(shape, matrix, self._words)
        size, allowed = matrix.size(self._words), _size_of(shape, matrix, self._words)
        return (
            types.isdisjoint(matrix.component_names()),
            shape.scope != matrix.scope_name(self._words),
            self._apart_in_size(shape, size, allowed),
        )

    def _apart_in_size(self, shape: _Shape, sizes: tuple[int, ...], named: tuple[int, ...]) -> float:
        """Return how far sizes are from the nearest that a shape has, and the workgroup from the one that it takes."""
        if isinstance(shape, CooperativeMatrixShape):
            return _ratio(sizes, named)
        multiples = (min(-(-size // max(step, 1)), self._most // max(step, 1)) for size, step in zip(sizes, named, strict=True))
        nearest = tuple(step * max(many, 1) for step, many in zip(named, multiples, strict=True))
        others = () if self._has_workgroup(shape) else (shape.workgroup_invocations,)
        return _ratio(sizes, nearest) + _ratio((self._invocations,) * len(others), others)

    def _shown(self, matrix: CooperativeMatrix) -> str:
        rows, columns = matrix.size(self._words)
        use = {MATRIX_A: "A", MATRIX_B: "B", ACCUMULATOR: "accumulator"}.get(matrix.use.value(self._words), "unknown")
        names = " or ".join(matrix.component_names())
        return f"{rows}x{columns} of {names} (use {use}, {matrix.scope_name(self._words)})"


def _types_of(shape: _Shape, matrix: CooperativeMatrix, words: Sequence[int]) -> frozenset[str]:
    """Return the component types that a shape has for matrices of this use."""
    use = matrix.use.value(words)
    return frozenset({MATRIX_A: (shape.a,), MATRIX_B: (shape.b,), ACCUMULATOR: (shape.c, shape.result)}.get(use, ()))


def _size_of(shape: _Shape, matrix: CooperativeMatrix, words: Sequence[int]) -> tuple[int, int]:
    """Return rows and columns, or what these are multiples of, that a shape has for matrices of this use."""
    sizes = {MATRIX_A: (shape.m, shape.k), MATRIX_B: (shape.k, shape.n)}
    return sizes.get(matrix.use.value(words), (shape.m, shape.n))


def _ratio(sizes: tuple[int, ...], others: tuple[int, ...]) -> float:
    return sum(abs(math.log2(max(one, 1) / max(other, 1))) for one, other in zip(sizes, others, strict=True))
