"""Predicates on the number of elements of a buffer.

Source: spec item 1.3 (ShapePredicate).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from vyre_driver.checks import I64_MAX, U32_MAX
from vyre_driver.ir.fields import instance, refuse, whole

MAX_PREDICATES = 64


@dataclass(frozen=True, slots=True)
class ShapePredicate:
    """A condition on an element count (u32); made of the classes below."""

    size: int = field(init=False, default=1, repr=False, compare=False)

    def holds(self, count: int) -> bool:
        """Return whether ``count`` elements fulfil it."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return the comparison, for example ``count >= 64``."""
        raise NotImplementedError

    @property
    def encoded(self) -> bytes:
        """What the strong digest sees: a tag (u8) and the numbers or predicates inside (docs/keys.md)."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class AtLeast(ShapePredicate):
    """``count >= n``."""

    n: int

    def __post_init__(self) -> None:
        """Refuse a number outside u32."""
        whole(self.n, U32_MAX, "n of AtLeast")

    def holds(self, count: int) -> bool:
        """Return whether there are n or more."""
        return count >= self.n

    def describe(self) -> str:
        """Return the comparison."""
        return f"count >= {self.n}"

    @property
    def encoded(self) -> bytes:
        """Return tag and parts."""
        return struct.pack("<BI", 1, self.n)


@dataclass(frozen=True, slots=True)
class AtMost(ShapePredicate):
    """``count <= n``."""

    n: int

    def __post_init__(self) -> None:
        """Refuse a number outside u32."""
        whole(self.n, U32_MAX, "n of AtMost")

    def holds(self, count: int) -> bool:
        """Return whether there are n or fewer."""
        return count <= self.n

    def describe(self) -> str:
        """Return the comparison."""
        return f"count <= {self.n}"

    @property
    def encoded(self) -> bytes:
        """Return tag and parts."""
        return struct.pack("<BI", 2, self.n)


@dataclass(frozen=True, slots=True)
class Exactly(ShapePredicate):
    """``count == n``."""

    n: int

    def __post_init__(self) -> None:
        """Refuse a number outside u32."""
        whole(self.n, U32_MAX, "n of Exactly")

    def holds(self, count: int) -> bool:
        """Return whether there are exactly n."""
        return count == self.n

    def describe(self) -> str:
        """Return the comparison."""
        return f"count == {self.n}"

    @property
    def encoded(self) -> bytes:
        """Return tag and parts."""
        return struct.pack("<BI", 3, self.n)


@dataclass(frozen=True, slots=True)
class MultipleOf(ShapePredicate):
    """``count % n == 0``; never with n = 0."""

    n: int

    def __post_init__(self) -> None:
        """Refuse a number outside u32."""
        whole(self.n, U32_MAX, "n of MultipleOf")

    def holds(self, count: int) -> bool:
        """Return whether n divides it."""
        return self.n != 0 and count % self.n == 0

    def describe(self) -> str:
        """Return the comparison."""
        return f"count % {self.n} == 0"

    @property
    def encoded(self) -> bytes:
        """Return tag and parts."""
        return struct.pack("<BI", 4, self.n)


@dataclass(frozen=True, slots=True)
class ModEquals(ShapePredicate):
    """``count % modulus == remainder``; never unless remainder < modulus."""

    modulus: int
    remainder: int

    def __post_init__(self) -> None:
        """Refuse numbers outside u32."""
        whole(self.modulus, U32_MAX, "modulus of ModEquals")
        whole(self.remainder, U32_MAX, "remainder of ModEquals")

    def holds(self, count: int) -> bool:
        """Return whether division by the modulus leaves the remainder."""
        return self.remainder < self.modulus and count % self.modulus == self.remainder

    def describe(self) -> str:
        """Return the comparison."""
        return f"count % {self.modulus} == {self.remainder}"

    @property
    def encoded(self) -> bytes:
        """Return tag and parts."""
        return struct.pack("<BII", 5, self.modulus, self.remainder)


@dataclass(frozen=True, slots=True)
class AffineRange(ShapePredicate):
    """``min <= count * scale + offset <= max`` without wrapping; the numbers are i64."""

    scale: int
    offset: int
    min: int
    max: int

    def __post_init__(self) -> None:
        """Refuse numbers outside i64."""
        for name in ("scale", "offset", "min", "max"):
            whole(getattr(self, name), I64_MAX, f"{name} of AffineRange", lowest=-I64_MAX - 1)

    def holds(self, count: int) -> bool:
        """Return whether the scaled count is in range."""
        return self.min <= count * self.scale + self.offset <= self.max

    def describe(self) -> str:
        """Return the comparison."""
        return f"{self.min} <= count * {self.scale} + {self.offset} <= {self.max}"

    @property
    def encoded(self) -> bytes:
        """Return tag and parts."""
        return struct.pack("<Bqqqq", 6, self.scale, self.offset, self.min, self.max)


@dataclass(frozen=True, slots=True)
class And(ShapePredicate):
    """Both hold."""

    left: ShapePredicate
    right: ShapePredicate

    def __post_init__(self) -> None:
        """Refuse what is not a predicate, and more than MAX_PREDICATES of them."""
        _measure(self, self.left, self.right)

    def holds(self, count: int) -> bool:
        """Return whether both do."""
        return self.left.holds(count) and self.right.holds(count)

    def describe(self) -> str:
        """Return both comparisons."""
        return f"({self.left.describe()} and {self.right.describe()})"

    @property
    def encoded(self) -> bytes:
        """Return tag and parts."""
        return b"\7" + self.left.encoded + self.right.encoded


@dataclass(frozen=True, slots=True)
class Or(ShapePredicate):
    """One of them holds."""

    left: ShapePredicate
    right: ShapePredicate

    def __post_init__(self) -> None:
        """Refuse what is not a predicate, and more than MAX_PREDICATES of them."""
        _measure(self, self.left, self.right)

    def holds(self, count: int) -> bool:
        """Return whether one does."""
        return self.left.holds(count) or self.right.holds(count)

    def describe(self) -> str:
        """Return both comparisons."""
        return f"({self.left.describe()} or {self.right.describe()})"

    @property
    def encoded(self) -> bytes:
        """Return tag and parts."""
        return b"\x08" + self.left.encoded + self.right.encoded


@dataclass(frozen=True, slots=True)
class Not(ShapePredicate):
    """It does not hold."""

    inner: ShapePredicate

    def __post_init__(self) -> None:
        """Refuse what is not a predicate, and more than MAX_PREDICATES of them."""
        _measure(self, self.inner)

    def holds(self, count: int) -> bool:
        """Return whether it does not."""
        return not self.inner.holds(count)

    def describe(self) -> str:
        """Return the comparison, negated."""
        return f"not {self.inner.describe()}"

    @property
    def encoded(self) -> bytes:
        """Return tag and parts."""
        return b"\x09" + self.inner.encoded


def _measure(whole_one: ShapePredicate, *parts: ShapePredicate) -> None:
    for part in parts:
        instance(part, ShapePredicate, "a part of a shape predicate")
    size = 1 + sum(part.size for part in parts)
    if size > MAX_PREDICATES:
        refuse(f"a shape predicate is made of {size}, over the limit of {MAX_PREDICATES}", "use fewer")
    object.__setattr__(whole_one, "size", size)
