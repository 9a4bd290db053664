"""The matrix shapes that a device multiplies in one cooperative matrix instruction.

Source: Vulkan 1.4, extensions ``VK_KHR_cooperative_matrix`` and ``VK_NV_cooperative_matrix2``; component types also of
``VK_KHR_shader_bfloat16`` and ``VK_EXT_shader_float8``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMPONENTS = {
    0: "float16",
    1: "float32",
    2: "float64",
    3: "sint8",
    4: "sint16",
    5: "sint32",
    6: "sint64",
    7: "uint8",
    8: "uint16",
    9: "uint32",
    10: "uint64",
    1_000_141_000: "bfloat16",
    1_000_491_002: "float8_e4m3",
    1_000_491_003: "float8_e5m2",
}
_SCOPES = {1: "device", 2: "workgroup", 3: "subgroup", 5: "queue family"}


@dataclass(frozen=True, slots=True)
class _MatrixShape:
    """Sizes and types of matrices that are multiplied."""

    m: int
    n: int
    k: int
    a: str
    b: str
    c: str
    result: str
    saturating: bool
    scope: str

    @property
    def sizes(self) -> tuple[int, int, int]:
        """``m``, ``n`` and ``k``."""
        return self.m, self.n, self.k

    @property
    def types(self) -> tuple[str, str, str, str]:
        """The component types of ``a``, ``b``, ``c`` and ``result``."""
        return self.a, self.b, self.c, self.result


@dataclass(frozen=True, slots=True)
class CooperativeMatrixShape(_MatrixShape):
    """``result`` (m x n) = ``a`` (m x k) times ``b`` (k x n) plus ``c`` (m x n), computed together by all of ``scope``.

    ``a`` to ``result`` name component types (``float16``, ``sint8``, ...), ``scope`` is ``subgroup``, ``workgroup``, ``device``
    or ``queue family``; a number that this package does not know is named by itself.
    """

    def __str__(self) -> str:
        """Return for example ``16x16x16 float16 x float16 + float32 -> float32 (subgroup)``."""
        return _shown(self, "")

    @classmethod
    def from_vulkan(cls, members: tuple[int, ...]) -> CooperativeMatrixShape:
        """Name the numbers of a ``VkCooperativeMatrixPropertiesKHR``, given in the order of its members from ``MSize`` on."""
        m, n, k, *others = members
        return cls(m, n, k, *_named(others))


@dataclass(frozen=True, slots=True)
class FlexibleMatrixShape(_MatrixShape):
    """Matrices of every size that is a multiple of ``m``, ``n`` and ``k``, as :class:`CooperativeMatrixShape` has them.

    ``workgroup_invocations`` is how many invocations a workgroup has where the scope is ``workgroup``.
    """

    workgroup_invocations: int

    def __str__(self) -> str:
        """Return for example ``multiples of 16x16x16 float16 x float16 + float32 -> float32 (workgroup of 128)``."""
        return f"multiples of {_shown(self, f' of {self.workgroup_invocations}' if self.scope == 'workgroup' else '')}"

    @classmethod
    def from_vulkan(cls, members: tuple[int, ...]) -> FlexibleMatrixShape:
        """Name the numbers of a ``VkCooperativeMatrixFlexibleDimensionsPropertiesNV``, in the order of its members."""
        m, n, k, *others, invocations = members
        return cls(m, n, k, *_named(others), invocations)


@dataclass(frozen=True, slots=True)
class CooperativeMatrix2Limits:
    """``VkPhysicalDeviceCooperativeMatrix2PropertiesNV``.

    ``workgroup_scope_max_workgroup_size`` are invocations, ``flexible_dimensions_max_dimension`` rows or columns,
    ``workgroup_scope_reserved_shared_memory`` bytes that such a shader may not use itself.
    """

    workgroup_scope_max_workgroup_size: int
    flexible_dimensions_max_dimension: int
    workgroup_scope_reserved_shared_memory: int


def scope_name(number: int) -> str:
    """Return a ``VkScopeKHR``, which SPIR-V's scopes agree with, in words."""
    return _SCOPES.get(number, f"scope {number}")


def _shown(shape: _MatrixShape, invocations: str) -> str:
    sizes, saturating = "x".join(map(str, shape.sizes)), ", saturating" if shape.saturating else ""
    return f"{sizes} {shape.a} x {shape.b} + {shape.c} -> {shape.result} ({shape.scope}{invocations}{saturating})"


def _named(members: Sequence[int]) -> tuple[str, str, str, str, bool, str]:
    """Name four component types, whether sums saturate, and a scope."""
    *types, saturating, scope = members
    a, b, c, result = (_COMPONENTS.get(number, f"component type {number}") for number in types)
    return a, b, c, result, bool(saturating), scope_name(scope)
