"""The operators of expressions and nodes, with their tags.

Upstream has two tag tables. ``wire_tag`` (the value of a member) is what the program encoder writes and so what every digest
sees; ``spec_tag`` is the frozen table of its specification crate. They differ for five binary operators.

Source: spec item 1.2.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import ClassVar

from vyre_driver.checks import U32_MAX
from vyre_driver.ir.fields import whole

WORLD = 0  # the communication group (u32) of every device

_OPAQUE = 0x80
_KEYED = 0x80  # beside an operator in a key where an expression may stand: no expression has such a tag


class Operator(enum.Enum):
    """Base of the operator tables; the value of a member is its wire tag (u8)."""

    def __init__(self, wire_tag: int) -> None:
        """Keep the tag as the encoders want it."""
        self.wire_tag = wire_tag
        self.encoded = bytes((wire_tag,))


class BinOp(Operator):
    """Operators of two operands."""

    ADD = 0x01
    SUB = 0x02
    MUL = 0x03
    DIV = 0x04
    MOD = 0x05
    BIT_AND = 0x06
    BIT_OR = 0x07
    BIT_XOR = 0x08
    SHL = 0x09
    SHR = 0x0A
    EQ = 0x0B
    NE = 0x0C
    LT = 0x0D
    GT = 0x0E
    LE = 0x0F
    GE = 0x10
    AND = 0x11
    OR = 0x12
    ABS_DIFF = 0x13
    MIN = 0x14
    MAX = 0x15
    SATURATING_ADD = 0x16
    SATURATING_SUB = 0x17
    SATURATING_MUL = 0x18
    SHUFFLE = 0x19
    BALLOT = 0x1A
    WAVE_REDUCE = 0x1B
    WAVE_BROADCAST = 0x1C
    ROTATE_LEFT = 0x1D
    ROTATE_RIGHT = 0x1E
    WRAPPING_ADD = 0x1F
    WRAPPING_SUB = 0x20
    MUL_HIGH = 0x21

    boolean: bool  # the result is a bool
    commutative: bool
    fully_sorted: bool

    @property
    def spec_tag(self) -> int:
        """The tag in the frozen table."""
        return _SPEC_TAGS.get(self, self.wire_tag)


_SPEC_TAGS = {BinOp.LE: 0x10, BinOp.GE: 0x11, BinOp.AND: 0x12, BinOp.OR: 0x13, BinOp.ABS_DIFF: 0x0F}

COMPARISONS = frozenset({BinOp.EQ, BinOp.NE, BinOp.LT, BinOp.GT, BinOp.LE, BinOp.GE})
LOGICAL = frozenset({BinOp.AND, BinOp.OR})

# Spec 3.4: canonical order sorts both operands of these, and of the others only moves or sorts literals.
FULLY_SORTED = frozenset(
    {
        BinOp.WRAPPING_ADD,
        BinOp.SATURATING_ADD,
        BinOp.SATURATING_MUL,
        BinOp.BIT_AND,
        BinOp.BIT_OR,
        BinOp.BIT_XOR,
        BinOp.EQ,
        BinOp.NE,
        BinOp.AND,
        BinOp.OR,
        BinOp.ABS_DIFF,
    }
)
COMMUTATIVE = FULLY_SORTED | {BinOp.ADD, BinOp.MUL, BinOp.MIN, BinOp.MAX}

for _op in BinOp:
    _op.boolean = _op in COMPARISONS or _op in LOGICAL
    _op.commutative = _op in COMMUTATIVE
    _op.fully_sorted = _op in FULLY_SORTED


class UnOp(Operator):
    """Operators of one operand; both tables agree."""

    NEGATE = 0x01
    BIT_NOT = 0x02
    LOGICAL_NOT = 0x03
    POPCOUNT = 0x04
    CLZ = 0x05
    CTZ = 0x06
    REVERSE_BITS = 0x07
    COS = 0x08
    SIN = 0x09
    ABS = 0x0A
    SQRT = 0x0B
    FLOOR = 0x0C
    CEIL = 0x0D
    ROUND = 0x0E
    TRUNC = 0x0F
    SIGN = 0x10
    IS_NAN = 0x11
    IS_INF = 0x12
    IS_FINITE = 0x13
    EXP = 0x14
    LOG = 0x15
    LOG2 = 0x16
    EXP2 = 0x17
    TAN = 0x18
    ACOS = 0x19
    ASIN = 0x1A
    ATAN = 0x1B
    TANH = 0x1C
    SINH = 0x1D
    COSH = 0x1E
    INVERSE_SQRT = 0x1F
    UNPACK4_LOW = 0x20
    UNPACK4_HIGH = 0x21
    UNPACK8_LOW = 0x22
    UNPACK8_HIGH = 0x23
    RECIPROCAL = 0x24

    @property
    def spec_tag(self) -> int:
        """The tag in the frozen table."""
        return self.wire_tag


PREDICATES = frozenset({UnOp.LOGICAL_NOT, UnOp.IS_NAN, UnOp.IS_INF, UnOp.IS_FINITE})
UNPACKED_BITS = {
    UnOp.UNPACK4_LOW: (0, 0xF),
    UnOp.UNPACK4_HIGH: (4, 0xF),
    UnOp.UNPACK8_LOW: (0, 0xFF),
    UnOp.UNPACK8_HIGH: (24, 0xFF),
}
"""By how much each operator shifts a word down, and the mask of what it keeps then."""

UNPACKING = frozenset(UNPACKED_BITS)


class AtomicOp(Operator):
    """Read-modify-write operations on one element of a buffer."""

    ADD = 0x01
    OR = 0x02
    AND = 0x03
    XOR = 0x04
    MIN = 0x05
    MAX = 0x06
    EXCHANGE = 0x07
    COMPARE_EXCHANGE = 0x08
    COMPARE_EXCHANGE_WEAK = 0x09
    FETCH_NAND = 0x0A
    LRU_UPDATE = 0x0B


class TernaryOp(Operator):
    """The operators that Fma and Select stand for in upstream's tables."""

    FMA = 1
    SELECT = 2


class CollectiveOp(Operator):
    """How a collective combines the values of its devices."""

    SUM = 1
    MIN = 2
    MAX = 3
    BIT_AND = 4
    BIT_OR = 5
    BIT_XOR = 6


class SubgroupOp(Operator):
    """How a reduction combines the values of the lanes of a subgroup."""

    ADD = 1
    MUL = 2
    MIN = 3
    MAX = 4
    AND = 5
    OR = 6
    XOR = 7

    def __init__(self, wire_tag: int) -> None:
        """Keep what keys have for it: nothing for a sum, which had no operator before wire format 6."""
        super().__init__(wire_tag)
        self.encoded = b"" if wire_tag == 1 else bytes((_KEYED | wire_tag,))


BITWISE_REDUCTIONS = frozenset({SubgroupOp.AND, SubgroupOp.OR, SubgroupOp.XOR})


class MemoryOrdering(Operator):
    """The memory that a barrier or an atomic makes visible; GRID_SYNC is for barriers only, RELAXED for atomics only."""

    RELAXED = 0
    ACQUIRE = 1
    RELEASE = 2
    ACQ_REL = 3
    SEQ_CST = 4
    GRID_SYNC = 5


@dataclass(frozen=True, slots=True)
class OpaqueOp:
    """An operator that an extension defines, in place of a BinOp, UnOp or AtomicOp (``extension_id`` is u32)."""

    extension_id: int

    boolean: ClassVar[bool] = False
    commutative: ClassVar[bool] = False
    fully_sorted: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse an id outside u32."""
        whole(self.extension_id, U32_MAX, "the id of an opaque operator")

    @property
    def wire_tag(self) -> int:
        """The tag that says that an id follows."""
        return _OPAQUE

    @property
    def spec_tag(self) -> int:
        """The same in both tables."""
        return _OPAQUE

    @property
    def encoded(self) -> bytes:
        """Tag and u32 little-endian id."""
        return struct.pack("<BI", _OPAQUE, self.extension_id)
