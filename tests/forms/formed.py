"""Lowering with other instructions of the same meaning: rules in the place of the emitter's, for as long as they are applied.

A program lowered under :func:`applied` goes the whole way of the emitter. Its ``Code`` makes an instruction by the rule that a
form has for it, and as the emitter would where the rule declines (None). A rule is not asked about what it makes itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar
from unittest.mock import patch

from vyre_driver.spirv.emit import entry, folding, target
from vyre_driver.spirv.emit.buffers import Buffers
from vyre_driver.spirv.emit.code import Code
from vyre_driver.spirv.instructions import Ins

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

    from vyre_driver.spirv.builder import ModuleBuilder

Rule = Callable[..., "int | None"]
Key = int | tuple[int, int]  # an opcode, or that of an extended instruction with its number
ARRAY_LENGTH = 68


@dataclass(frozen=True)
class Form:
    """Another way to lower something.

    ``rules`` make a result (of the code, the result's type and the operands), ``operands`` give an instruction others (of the
    code and the operands), ``functions`` take the place of a module's.
    """

    name: str
    rules: Mapping[Key, Rule] = field(default_factory=dict)
    operands: Mapping[int, Callable[..., Sequence[int]]] = field(default_factory=dict)
    functions: Mapping[tuple[ModuleType, str], Callable[..., Any]] = field(default_factory=dict)


class FormedCode(Code):
    """Code that asks rules first; ``types`` has those of results."""

    forms: ClassVar[Sequence[Form]] = ()
    buffer: int

    def __init__(self, module: ModuleBuilder, device: target.Target) -> None:
        super().__init__(module, device)
        self.types: dict[int, int] = {}
        self._asked: set[Key] = set()

    def op(self, opcode: int, type_id: int, *operands: int) -> int:
        is_extended = opcode == Ins.ExtInst
        key = (opcode, operands[1]) if is_extended else opcode
        rules = [one.rules[key] for one in self.forms if key in one.rules]
        if not rules or key in self._asked:
            return super().op(opcode, type_id, *operands)
        known = self.recall(("formed", opcode, type_id, *operands))
        if known is not None:
            return known
        self._asked.add(key)
        found = (rule(self, type_id, *operands[2 if is_extended else 0 :]) for rule in rules)
        made = next((one for one in found if one is not None), None)
        self._asked.discard(key)
        return self.remember(
            ("formed", opcode, type_id, *operands), super().op(opcode, type_id, *operands) if made is None else made
        )

    def result(self, opcode: int, type_id: int, *operands: int) -> int:
        for one in self.forms:
            if opcode in one.operands:
                operands = tuple(one.operands[opcode](self, *operands))
        made = super().result(opcode, type_id, *operands)
        self.types[made] = type_id
        return made

    def hidden_zero(self) -> int:
        """A u32 that is 0 wherever the program runs, and that no compiler can know: no buffer is empty."""
        length = self.early("length of a buffer", ARRAY_LENGTH, self.u32, self.buffer, 0)
        is_empty = self.op(Ins.IEqual, self.bool, length, self.const(0))
        return self.op(Ins.Select, self.u32, is_empty, self.const(0xFFFFFFFF), self.const(0))


class _FormedBuffers(Buffers):
    def __init__(self, code: Any, *others: Any) -> None:  # noqa: ANN401 -- a FormedCode
        super().__init__(code, *others)
        storage = [one for one in self.by_name.values() if not one.is_shared]
        # A byte of what nobody reads may be declared as words, of which it has none.
        whole = [one for one in storage if one.kind is not None and one.kind.bits >= 32]
        code.buffer = (whole or storage)[0].variable


@contextmanager
def applied(*forms: Form, folds: bool) -> Iterator[None]:
    """Lower by these forms, with f32 constants folded or left to the device; what was compiled before is not taken for it."""
    made = type("FormedCode", (FormedCode,), {"forms": forms})
    version = 1000 + zlib.crc32(repr(([one.name for one in forms], folds)).encode()) % 2**20
    with ExitStack() as stack:
        stack.enter_context(patch.object(entry, "Code", made))
        stack.enter_context(patch.object(entry, "Buffers", _FormedBuffers))
        stack.enter_context(patch.object(target, "EMITTER_VERSION", version))
        if not folds:
            for name in ("binary", "unary", "fma", "of_integer"):
                stack.enter_context(patch.object(folding, name, lambda *_: None))
        for one in forms:
            for (module, name), function in one.functions.items():
                stack.enter_context(patch.object(module, name, function))
        yield
