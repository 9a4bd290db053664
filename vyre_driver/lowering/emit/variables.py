"""The variables of a program: those never assigned become values, the others variables of the function."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.lowering.emit.code import Code, Value, cannot
from vyre_driver.lowering.emit.floats import hidden_float, with_its_sign
from vyre_driver.lowering.emit.kinds import Form, Kind
from vyre_driver.spirv.instructions import Ins

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class _Slot:
    """A variable of the function; ``version`` changes with its contents."""

    variable: int
    kind: Kind
    is_canonical: bool
    version: int = 0


class Variables:
    """The variables in sight, by name."""

    def __init__(self, code: Code) -> None:
        """Begin without any."""
        self._code = code
        self._in_sight: dict[str, Value | _Slot] = {}
        self._outside: list[dict[str, Value | _Slot | None]] = []
        self._versions = 0
        self._hides = False

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Take the variables that are declared inside out of sight at the end."""
        self._outside.append({})
        yield
        for name, before in self._outside.pop().items():
            if before is None:
                del self._in_sight[name]
            else:
                self._in_sight[name] = before

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide from the device's compiler what is read inside of variables that are assigned."""
        self._hides = True
        yield
        self._hides = False

    def declare(self, name: str, value: Value) -> None:
        """Declare a variable."""
        self._outside[-1].setdefault(name, self._in_sight.get(name))
        code = self._code
        if name not in code.uses.assigned:
            self._in_sight[name] = value
            return
        variable = code.module.name(code.variable(code.type_of(value.kind.form)), name)
        is_canonical = value.kind.form is Form.F32 and name not in code.uses.uncomputed and code.target.flushes_by_bits
        slot = self._in_sight[name] = _Slot(variable, value.kind, is_canonical=is_canonical)
        self._put(slot, value)

    def assign(self, name: str, value: Value) -> None:
        """Give a declared variable another value."""
        slot = self._in_sight[name]
        if not isinstance(slot, _Slot) or slot.kind != value.kind:
            cannot(None, f"an assignment of {value.kind.name} to {name!r}", f"a value of {slot.kind.name}")
        self._put(slot, value)

    def _put(self, slot: _Slot, value: Value) -> None:
        code, stored = self._code, value.id
        if value.kind.form is Form.F32 and code.target.strict:
            stored = hidden_float(code, with_its_sign(code, stored))  # or a compiler finds a constant when it unrolls a loop
        code.effect(Ins.Store, slot.variable, stored)
        self._renew(slot)
        code.remember((slot.variable, slot.version), stored)

    def read(self, name: str) -> Value:
        """Return the value of a variable."""
        slot = self._in_sight[name]
        if isinstance(slot, Value):
            return slot
        code, key = self._code, (slot.variable, slot.version)
        found = code.recall(key)
        if found is None:
            found = code.remember(key, code.result(Ins.Load, code.type_of(slot.kind.form), slot.variable))
            if slot.is_canonical:
                code.normal(found)
            if self._hides and code.loop_cuts is not None:
                found = code.remember(key, code.loop_cuts.hidden_value(slot.kind.form, found))
            if slot.kind.form is Form.F32 and code.target.strict:
                code.unfoldable.add(found)
        return Value(found, slot.kind)

    def forget(self) -> None:
        """Take every variable for changed, as at the head of a loop."""
        for slot in self._in_sight.values():
            if isinstance(slot, _Slot):
                self._renew(slot)

    def _renew(self, slot: _Slot) -> None:
        self._versions += 1
        slot.version = self._versions
