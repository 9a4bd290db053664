"""Plain twin of the walk in ``vyre_driver.ir.wire._scan``: the same terms and the same faults, readable as their specification.

It recurses, and reads the plans of :mod:`vyre_driver.ir.wire.reader` themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from vyre_driver.ir import dtypes
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.layout import Step
from vyre_driver.ir.quantization import ScaleKind, ZeroPointKind
from vyre_driver.ir.wire import reader
from vyre_driver.ir.wire.reader import Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DATA_TYPE = Step.DTYPE
WIDTHS = {Step.U8: 1, Step.U32: 4, Step.U64: 8, Step.I32: 4}  # in bytes
WITHOUT_PARAMETER = {ScaleKind.PER_TENSOR, ZeroPointKind.ABSENT, ZeroPointKind.PER_TENSOR}
CLASSES = {(issubclass(cls, nd.Node), cls.wire_tag): [kind.step for kind in plan] for cls, plan in reader.PLANS.items()}


class FaultFoundError(Exception):
    """What a walk over bytes that are not a node ends with."""


@dataclass
class TwinWalk:
    """A walk over the nodes of one program; ``limits`` in the order of ``vyre_wire_limits``."""

    data: bytes
    limits: Sequence[int]
    at: int = 0
    end: int = 0
    nodes: int = 0
    count: int = 0
    found: list[tuple[int, int, int]] = field(default_factory=list)

    def check(self, at: int, end: int) -> tuple[int, int, int, int, int]:
        """Return fault, place, step wanted, number and limit; for a whole node only fault and place mean anything."""
        self.at, self.end, self.found = at, end, []
        try:
            self.term(is_node=True, nesting=1, depth=0)
        except FaultFoundError as fault:
            return fault.args  # type: ignore[return-value]
        return Fault.WHOLE, self.at, 0, 0, 0

    def fail(self, fault: int, wanted: int, number: int, limit: int, at: int | None = None) -> NoReturn:
        raise FaultFoundError(fault, self.at if at is None else at, wanted, number, limit)

    def take(self, wanted: int, byte_len: int) -> bytes:
        if byte_len > self.end - self.at:
            self.fail(Fault.CUT, wanted, byte_len, self.end - self.at)
        self.at += byte_len
        return self.data[self.at - byte_len : self.at]

    def number(self, wanted: int) -> int:
        return int.from_bytes(self.take(wanted, 4), "little")

    def flag(self, wanted: int) -> bool:
        (value,) = self.take(wanted, 1)
        if value > 1:
            self.fail(Fault.NO_FLAG, wanted, value, 1, self.at - 1)
        return bool(value)

    def term(self, *, is_node: bool, nesting: int, depth: int) -> None:
        """Walk over a term that is in ``nesting`` nodes and ``depth`` expressions, itself counted."""
        max_nodes, max_terms, max_nesting, max_depth = self.limits[:4]
        wanted = Step.NODE if is_node else Step.EXPRESSION
        start = self.at
        if is_node:
            self.nodes += 1
            if self.nodes > max_nodes:
                self.fail(Fault.TOO_MANY, wanted, self.nodes, max_nodes)
            if nesting > max_nesting:
                self.fail(Fault.TOO_DEEP, wanted, nesting, max_nesting)
        elif depth > max_depth:
            self.fail(Fault.TOO_DEEP, wanted, depth, max_depth)
        self.count += 1
        if self.count > max_terms:
            self.fail(Fault.TOO_MANY, 0, self.count, max_terms)
        (tag,) = self.take(wanted, 1)
        if (is_node, tag) not in CLASSES:
            self.fail(Fault.UNKNOWN_TAG, wanted, tag, 0, start)
        inside = sum(self.step(step, nesting, depth) for step in CLASSES[is_node, tag])
        self.found.append((start, self.at, tag + 256 * is_node + 512 * inside))

    def step(self, step: int, nesting: int, depth: int) -> int:
        """Walk over a field; returns how many terms stand directly in it."""
        if step in {Step.BODY, Step.ARGUMENTS}:
            is_body = step == Step.BODY
            count = self.sequence(step, self.limits[0] if is_body else self.limits[5])
            for _ in range(count):
                self.term(is_node=is_body, nesting=nesting + is_body, depth=0 if is_body else depth + 1)
            return count
        if step == Step.EXPRESSION or (step == Step.OPTIONAL and self.flag(step)):
            self.term(is_node=False, nesting=nesting, depth=depth + 1)
            return 1
        if step != Step.OPTIONAL:
            self.plain(step)
        return 0

    def sequence(self, wanted: int, limit: int) -> int:
        start = self.at
        count = self.number(wanted)
        if count > limit:
            self.fail(Fault.TOO_MANY, wanted, count, limit, start)
        if count > self.end - self.at:
            self.fail(Fault.TOO_FEW_LEFT, wanted, count, self.end - self.at, start)
        return count

    def plain(self, code: int) -> None:
        """Walk over a field in which no term stands."""
        if code >= Step.MEMBER:
            self.member(code)
        elif code == DATA_TYPE:
            self.data_type()
        elif code == Step.FLAG:
            self.flag(code)
        elif code in WIDTHS:
            self.take(code, WIDTHS[code])
        elif code != Step.SOURCE or self.flag(code):
            self.text_or_payload(code)

    def member(self, wanted: int) -> int:
        (tag,) = self.take(wanted, 1)
        if wanted >= Step.OPERATOR and tag == 0x80:
            self.take(wanted, 4)
        elif tag not in reader.TABLES[wanted % 32]:
            self.fail(Fault.UNKNOWN_TAG, wanted, tag, 0, self.at - 1)
        return tag

    def text_or_payload(self, wanted: int) -> None:
        start = self.at
        length = self.number(wanted)
        limit = self.limits[7] if wanted == 7 else self.limits[6]
        if length > limit:
            self.fail(Fault.TOO_LONG, wanted, length, limit, start)
        read = self.take(wanted, length)
        try:
            _ = wanted == 7 or read.decode()
        except UnicodeDecodeError:
            self.fail(Fault.NO_UTF8, wanted, length, 0, start + 4)

    def data_type(self) -> None:
        tags: list[int] = []
        while not tags or dtypes.has_element(tags[-1]):
            if len(tags) >= self.limits[4]:
                self.fail(Fault.TOO_DEEP, DATA_TYPE, len(tags), self.limits[4])
            (tag,) = self.take(DATA_TYPE, 1)
            if dtypes.parameter_count(tag) is None:
                self.fail(Fault.UNKNOWN_TAG, DATA_TYPE, tag, 0, self.at - 1)
            tags.append(tag)
        for tag in reversed(tags):
            self.parameters(tag)

    def parameters(self, tag: int) -> None:
        if tag == dtypes.QUANTIZED:
            self.quantization(ScaleKind)
            self.quantization(ZeroPointKind)
        elif tag in {dtypes.TENSOR_SHAPED, dtypes.DEVICE_MESH}:
            start = self.at
            count = self.number(DATA_TYPE)
            if count > self.limits[8]:
                self.fail(Fault.TOO_MANY, DATA_TYPE, count, self.limits[8], start)
            if 4 * count > self.end - self.at:
                self.fail(Fault.TOO_FEW_LEFT, DATA_TYPE, count, self.end - self.at, start)
            self.take(DATA_TYPE, 4 * count)
        else:
            self.take(DATA_TYPE, 1 if tag == dtypes.VEC else 4 * (dtypes.parameter_count(tag) or 0))

    def quantization(self, kinds: Iterable[ScaleKind | ZeroPointKind]) -> None:
        members = {kind.value: kind for kind in kinds}
        wanted = Step.MEMBER + reader.TABLES.index(members)
        kind = members[self.member(wanted)]
        parameter = self.number(DATA_TYPE)
        if parameter and kind in WITHOUT_PARAMETER:
            self.fail(Fault.NO_ZERO, wanted, parameter, 0, self.at - 4)
