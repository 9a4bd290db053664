"""Predicates on the number of elements of a buffer.

Source: spec item 1.3 (ShapePredicate).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, ClassVar

from vyre_driver.checks import I64_MAX, U32_MAX
from vyre_driver.ir.fields import instance, refuse, whole

MAX_PREDICATES = 4096
"""Of how many parts a predicate is made at most."""
MAX_PREDICATE_DEPTH = 64
"""How deep they nest at most; upstream's wire format stops at 32."""


@dataclass(frozen=True, slots=True)
class ShapePredicate:
    """A condition on an element count (u32); made of the classes below.

    Each says what it is of its fields, which are all numbers or all predicates: its tag, the layout of the numbers (struct's;
    "" for predicates), the comparison, and whether it holds.
    """

    __match_args__: ClassVar[tuple[str, ...]]  # the names of the fields
    _tag: ClassVar[int]
    _numbers: ClassVar[str] = ""
    _text: ClassVar[str]

    size: int = field(init=False, default=1, repr=False, compare=False)
    depth: int = field(init=False, default=1, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse numbers without encoding, what is not a predicate, and what is too large or nests too deeply."""
        if type(self) is ShapePredicate:
            refuse("ShapePredicate is the base of the shape predicates, and compares nothing", "use AtLeast or another of them")
        lowest, highest = (-I64_MAX - 1, I64_MAX) if "q" in self._numbers else (0, U32_MAX)
        size = depth = 1
        for name, value in self._values().items():
            if self._numbers:
                whole(value, highest, f"{name} of {type(self).__name__}", lowest=lowest)
            else:
                instance(value, ShapePredicate, "a part of a shape predicate")
                size += value.size
                depth = max(depth, value.depth + 1)
        if size > MAX_PREDICATES:
            refuse(f"a shape predicate is made of {size} parts, over the limit of {MAX_PREDICATES}", "use fewer")
        if depth > MAX_PREDICATE_DEPTH:
            refuse(f"a shape predicate nests {depth} deep, over the limit of {MAX_PREDICATE_DEPTH}", "use fewer levels")
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "depth", depth)

    def _values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__match_args__}

    def holds(self, count: int) -> bool:
        """Return whether ``count`` elements fulfil it."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return the comparison, for example ``count >= 64``."""
        values = self._values()
        return self._text.format(**(values if self._numbers else {name: one.describe() for name, one in values.items()}))

    @property
    def encoded(self) -> bytes:
        """What the strong digest sees: a tag (u8) and the numbers or predicates inside (docs/keys.md)."""
        values = self._values().values()
        if self._numbers:
            return struct.pack(f"<B{self._numbers}", self._tag, *values)
        return bytes((self._tag,)) + b"".join(one.encoded for one in values)


@dataclass(frozen=True, slots=True)
class AtLeast(ShapePredicate):
    """``count >= n``."""

    _tag, _numbers, _text = 1, "I", "count >= {n}"
    n: int

    def holds(self, count: int) -> bool:
        """Return whether there are n or more."""
        return count >= self.n


@dataclass(frozen=True, slots=True)
class AtMost(ShapePredicate):
    """``count <= n``."""

    _tag, _numbers, _text = 2, "I", "count <= {n}"
    n: int

    def holds(self, count: int) -> bool:
        """Return whether there are n or fewer."""
        return count <= self.n


@dataclass(frozen=True, slots=True)
class Exactly(ShapePredicate):
    """``count == n``."""

    _tag, _numbers, _text = 3, "I", "count == {n}"
    n: int

    def holds(self, count: int) -> bool:
        """Return whether there are exactly n."""
        return count == self.n


@dataclass(frozen=True, slots=True)
class MultipleOf(ShapePredicate):
    """``count % n == 0``; never with n = 0."""

    _tag, _numbers, _text = 4, "I", "count % {n} == 0"
    n: int

    def holds(self, count: int) -> bool:
        """Return whether n divides it."""
        return self.n != 0 and count % self.n == 0


@dataclass(frozen=True, slots=True)
class ModEquals(ShapePredicate):
    """``count % modulus == remainder``; never unless remainder < modulus."""

    _tag, _numbers, _text = 5, "II", "count % {modulus} == {remainder}"
    modulus: int
    remainder: int

    def holds(self, count: int) -> bool:
        """Return whether division by the modulus leaves the remainder."""
        return self.remainder < self.modulus and count % self.modulus == self.remainder


@dataclass(frozen=True, slots=True)
class AffineRange(ShapePredicate):
    """``min <= count * scale + offset <= max`` without wrapping; the numbers are i64."""

    _tag, _numbers, _text = 6, "qqqq", "{min} <= count * {scale} + {offset} <= {max}"
    scale: int
    offset: int
    min: int
    max: int

    def holds(self, count: int) -> bool:
        """Return whether the scaled count is in range."""
        return self.min <= count * self.scale + self.offset <= self.max


@dataclass(frozen=True, slots=True)
class And(ShapePredicate):
    """Both hold."""

    _tag, _text = 7, "({left} and {right})"
    left: ShapePredicate
    right: ShapePredicate

    def holds(self, count: int) -> bool:
        """Return whether both do."""
        return self.left.holds(count) and self.right.holds(count)


@dataclass(frozen=True, slots=True)
class Or(ShapePredicate):
    """One of them holds."""

    _tag, _text = 8, "({left} or {right})"
    left: ShapePredicate
    right: ShapePredicate

    def holds(self, count: int) -> bool:
        """Return whether one does."""
        return self.left.holds(count) or self.right.holds(count)


@dataclass(frozen=True, slots=True)
class Not(ShapePredicate):
    """It does not hold."""

    _tag, _text = 9, "not {inner}"
    inner: ShapePredicate

    def holds(self, count: int) -> bool:
        """Return whether it does not."""
        return not self.inner.holds(count)


_CLASSES: tuple[type[ShapePredicate], ...] = (AtLeast, AtMost, Exactly, MultipleOf, ModEquals, AffineRange, And, Or, Not)
TAGS = {cls: cls._tag for cls in _CLASSES}
"""The tags of the classes of predicates."""
LAYOUTS = {cls: cls._numbers for cls in _CLASSES}
"""The layouts of their numbers, as struct has them; "" where they are made of predicates."""
