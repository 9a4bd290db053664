"""Have a module say at run time whether a driver has cut one of its loops, as llvmpipe does (docs/lowering.md, "Drivers").

Each loop has a weight. Where an invocation enters the loop it adds the weight to a word of memory, and where it leaves by a
branch or a return it subtracts it. The driver leaves a loop that it cuts without a branch of the module, so that the word is 0
after a dispatch only if no loop was cut. The additions are atomic: no compiler can tell what they amount to.

Source: SPIR-V 1.6, 2.11 (structured control flow), 3.42.17 (merge instructions and terminators), 3.42.18 (atomics).
"""

from __future__ import annotations

import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vyre_driver.checks import U32_MAX
from vyre_driver.errors import InvalidModule
from vyre_driver.spirv.builder import instruction
from vyre_driver.spirv.declarations import HEADER_WORDS, places, read_string
from vyre_driver.spirv.opcodes import GL_COMPUTE, SELECTION_CONTROL_NONE, Decoration, Ins, Op, Scope, Semantics, StorageClass
from vyre_driver.spirv.rewrite import ANNOTATIONS, STORAGE_CLASS_EXTENSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_VERSION_1_3, _VERSION_1_4 = 0x0001_0300, 0x0001_0400
_VULKAN_MEMORY = 3
_GOLDEN = 0x9E37_79B1  # odd: its powers are the weights, which sums of entries and exits do not make zero by chance
_RETURNS = frozenset({Ins.Return, Ins.ReturnValue})
_ENDS = (
    frozenset({Ins.Branch, Ins.BranchConditional, Ins.Switch, Ins.Kill, Ins.Unreachable, Ins.TerminateInvocation}) | _RETURNS
)
_MERGES = frozenset({Ins.LoopMerge, Ins.SelectionMerge})
_REUSED = frozenset({Op.TypeInt, Op.TypePointer})


def has_loops(code: bytes) -> bool:
    """Return whether a function of a module in host byte order has a loop."""
    words = array.array("I", code)
    return any(words[at] & 0xFFFF == Ins.LoopMerge for at in places(words, HEADER_WORDS))


def with_balance(code: bytes, binding: int, source: str) -> bytes:
    """Return the module with a buffer of one word at this binding of set 0, which is not 0 after a run that was cut.

    ``code`` is a module in host byte order with structured control flow and nothing at that binding. Raises InvalidModule if
    its functions do not consist of blocks; ``source`` names it.
    """
    words = array.array("I", code)
    first = next(at for at in places(words, HEADER_WORDS) if words[at] & 0xFFFF == Op.Function)
    added = _Declarations(words, first, binding)
    functions: list[int] = []
    weight = 1
    try:
        for function in _functions(words, first):
            loops = _loops(function, weight)
            weight = weight * pow(_GOLDEN, len(loops), 1 << 32) & U32_MAX
            functions += _Balanced(function, loops, added).words()
    except LookupError as error:
        raise InvalidModule(
            f"{source} has a loop in a function that does not consist of blocks, and cannot be watched for loops that the "
            "driver ends",
            fix="see what spirv-val says of it, or leave strict out",
            source=source,
        ) from error
    return added.module(words, first, functions)


@dataclass(slots=True)
class _Block:
    """A block: what stands before its label, its instructions, and, apart, its merge instruction and its terminator."""

    lead: list[int]
    label: int = 0
    body: list[list[int]] = field(default_factory=list)
    merge: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    targets: tuple[int, ...] = ()

    @property
    def is_header(self) -> bool:
        """Whether a loop begins here."""
        return bool(self.merge) and self.merge[0] & 0xFFFF == Ins.LoopMerge


@dataclass(slots=True)
class _Function:
    blocks: list[_Block]
    tail: list[int]  # what stands behind the last block


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop: its header, the labels of its blocks, and its weight."""

    header: int
    inside: frozenset[int]
    weight: int


def _functions(words: array.array[int], first: int) -> Iterator[_Function]:
    """Take the functions of a module apart."""
    blocks: list[_Block] = []
    block = _Block([])
    for at in places(words, first):
        one = words[at : at + (words[at] >> 16)].tolist()
        op = one[0] & 0xFFFF
        if op == Ins.Label:
            block.label = one[1]
        elif not block.label:
            block.lead += one
            if op == Ins.FunctionEnd:
                _find_targets(blocks)
                yield _Function(blocks, block.lead)
                blocks, block = [], _Block([])
        elif op in _MERGES:
            block.merge = one
        elif op in _ENDS:
            block.end = one
            blocks.append(block)
            block = _Block([])
        else:
            block.body.append(one)
    if block.lead:  # lines behind the last function
        yield _Function([], block.lead)


def _find_targets(blocks: Sequence[_Block]) -> None:
    labels = {block.label for block in blocks}
    for block in blocks:
        op = block.end[0] & 0xFFFF
        if op == Ins.Branch:
            block.targets = (block.end[1],)
        elif op == Ins.BranchConditional:
            block.targets = block.end[2], block.end[3]
        elif op == Ins.Switch:
            block.targets = tuple(block.end[at] for at in _switch_targets(block.end, labels))


def _switch_targets(end: Sequence[int], labels: set[int]) -> list[int]:
    """Return where the targets stand in a switch, of which only the selector's type says how long its literals are."""
    for stride in (2, 3):
        places = list(range(2 + stride, len(end), stride))
        if (len(end) - 3) % stride == 0 and all(end[at] in labels for at in places):
            return [2, *places]
    return [2]


def _loops(function: _Function, weight: int) -> list[_Loop]:
    """Return the loops of a function, the first with this weight."""
    targets = {block.label: block.targets for block in function.blocks}
    found = []
    for block in function.blocks:
        if block.is_header:
            found.append(_Loop(block.label, _reached(targets, block.label, block.merge[1]), weight))
            weight = weight * _GOLDEN & U32_MAX
    return found


def _reached(targets: dict[int, tuple[int, ...]], header: int, merge: int) -> frozenset[int]:
    """Return the blocks that a loop reaches without its merge block: those inside."""
    inside, waiting = {header}, [header]
    while waiting:
        for target in targets[waiting.pop()]:
            if target not in inside and target != merge:
                inside.add(target)
                waiting.append(target)
    return frozenset(inside)


class _Declarations:
    """What the additions need declared: types, which a module has once, constants, and the buffer."""

    def __init__(self, words: array.array[int], first: int, binding: int) -> None:
        self.bound = words[3]
        self._types: dict[tuple[int, ...], int] = {}
        self._constants: dict[int, int] = {}
        self._globals: list[int] = []
        extensions, memory = set(), 0
        for at in places(words[:first], HEADER_WORDS):
            op, operands = words[at] & 0xFFFF, words[at + 1 : at + (words[at] >> 16)]
            if op in _REUSED:
                self._types.setdefault((op, *operands[1:]), operands[0])
            elif op == Op.Extension:
                extensions.add(read_string(words, at + 1, ""))
            elif op == Op.MemoryModel:
                memory = operands[1]
        has_class = words[1] >= _VERSION_1_3 or STORAGE_CLASS_EXTENSION in extensions
        storage = StorageClass.STORAGE_BUFFER if has_class else StorageClass.UNIFORM
        self.u32 = self._type(Op.TypeInt, 32, 0)
        self._scope = self.constant(Scope.QUEUE_FAMILY if memory == _VULKAN_MEMORY else Scope.DEVICE)
        self._pointer = self._type(Op.TypePointer, storage, self.u32)
        run, struct = self._type(Op.TypeRuntimeArray, self.u32), self.new_id()
        self._globals += instruction(Op.TypeStruct, struct, run)
        pointer, self.buffer = self._type(Op.TypePointer, storage, struct), self.new_id()
        self._globals += instruction(Op.Variable, pointer, self.buffer, storage)
        self._decorations = [
            *instruction(Op.Decorate, run, Decoration.ARRAY_STRIDE, 4),
            *instruction(Op.Decorate, struct, Decoration.BLOCK if has_class else Decoration.BUFFER_BLOCK),
            *instruction(Op.MemberDecorate, struct, 0, Decoration.OFFSET, 0),
            *instruction(Op.Decorate, self.buffer, Decoration.DESCRIPTOR_SET, 0),
            *instruction(Op.Decorate, self.buffer, Decoration.BINDING, binding),
        ]

    def new_id(self) -> int:
        """Return an id that nothing has."""
        self.bound += 1
        return self.bound - 1

    def _type(self, op: int, *operands: int) -> int:
        key = (int(op), *map(int, operands))
        if key not in self._types:
            self._types[key] = self.new_id()
            self._globals += instruction(op, self._types[key], *operands)
        return self._types[key]

    def constant(self, value: int) -> int:
        """Return the id of a constant of u32."""
        if value not in self._constants:
            self._constants[value] = self.new_id()
            self._globals += instruction(Op.Constant, self.u32, self._constants[value], value)
        return self._constants[value]

    def addition(self, amount: int) -> list[int]:
        """Return the instructions that add the u32 of this id to the word."""
        place, zero = self.new_id(), self.constant(0)
        return [
            *instruction(Ins.AccessChain, self._pointer, place, self.buffer, zero, zero),
            *instruction(Ins.AtomicIAdd, self.u32, self.new_id(), place, self._scope, self.constant(Semantics.RELAXED), amount),
        ]

    def module(self, words: array.array[int], first: int, functions: Iterable[int]) -> bytes:
        """Return the module with all of it declared, and these functions."""
        out = words[:HEADER_WORDS]
        out[3] = self.bound
        end_of_annotations = HEADER_WORDS
        for at in places(words[:first], HEADER_WORDS):
            one = words[at : at + (words[at] >> 16)]
            op = one[0] & 0xFFFF
            if op == Op.EntryPoint and one[1] == GL_COMPUTE and words[1] >= _VERSION_1_4:
                one = array.array("I", instruction(op, *one[1:], self.buffer))
            out.extend(one)
            if op in ANNOTATIONS:
                end_of_annotations = len(out)
        out[end_of_annotations:end_of_annotations] = array.array("I", self._decorations)
        out.extend(self._globals)
        out.extend(functions)
        return out.tobytes()


class _Balanced:
    """One function with the additions."""

    def __init__(self, function: _Function, loops: Sequence[_Loop], added: _Declarations) -> None:
        self._function, self._loops, self._added = function, loops, added
        self._moved: dict[tuple[int, int], int] = {}  # the block from which a branch of a block to another comes now

    def words(self) -> list[int]:
        """Return its instructions."""
        ends = [self._end(block) for block in self._function.blocks]
        out: list[int] = []
        for block, end in zip(self._function.blocks, ends, strict=True):
            out += [*block.lead, *instruction(Ins.Label, block.label)]
            for one in block.body:
                out += self._phi(one, block.label) if one[0] & 0xFFFF == Ins.Phi else one
            out += end
        return out + self._function.tail

    def _phi(self, one: list[int], label: int) -> list[int]:
        parents = [self._moved.get((parent, label), parent) for parent in one[4::2]]
        return [*one[:3], *(word for pair in zip(one[3::2], parents, strict=True) for word in pair)]

    def _amount(self, label: int, target: int) -> int:
        """Return what a branch between two blocks adds: the loops that it enters, less those that it leaves."""
        entered = sum(one.weight for one in self._loops if target == one.header and label not in one.inside)
        left = sum(one.weight for one in self._loops if label in one.inside and target not in one.inside)
        return (entered - left) & U32_MAX

    def _end(self, block: _Block) -> list[int]:
        """Return the merge instruction and terminator of a block, with the additions of its branches."""
        plain = block.merge + block.end
        if block.end[0] & 0xFFFF in _RETURNS:
            left = sum(one.weight for one in self._loops if block.label in one.inside)
            return self._adding(-left & U32_MAX) + plain
        amounts = [self._amount(block.label, target) for target in block.targets]
        if len(set(amounts)) <= 1:
            return (self._adding(amounts[0]) if amounts else []) + plain
        if block.end[0] & 0xFFFF == Ins.Switch:
            return self._switched(block, amounts)
        moves_with_merge = not block.is_header or block.merge[1] in block.targets
        return self._branched(block, *amounts) if 0 in amounts and moves_with_merge else self._selected(block, *amounts)

    def _adding(self, amount: int) -> list[int]:
        return self._added.addition(self._added.constant(amount)) if amount else []

    def _selected(self, block: _Block, yes: int, no: int) -> list[int]:
        """Add what the branch that is taken wants, in the block itself: in each turn, where it stands in a loop."""
        added = self._added
        amount = added.new_id()
        select = instruction(Ins.Select, added.u32, amount, block.end[1], added.constant(yes), added.constant(no))
        return select + added.addition(amount) + block.merge + block.end

    def _branched(self, block: _Block, yes: int, no: int) -> list[int]:
        """Add in a branch of its own before the block's, which moves to a new block.

        An addition on the loop's way out itself would keep the compiler from unrolling the loop, and the driver would count it.
        """
        added = self._added
        adding, after = added.new_id(), added.new_id()
        begin, merge, end = [], block.merge, []
        if block.is_header:
            test = added.new_id()
            is_one_block = block.merge[2] == block.label
            if is_one_block:  # its terminator becomes its continue construct
                last, merge = added.new_id(), [*merge[:2], 0, *merge[3:]]
                merge[2] = last
                end = [*instruction(Ins.Branch, last), *instruction(Ins.Label, last)]
            begin = [*merge, *instruction(Ins.Branch, test), *instruction(Ins.Label, test)]
            merge = []
        for target in block.targets:
            self._moved[block.label, target] = end[-1] if end else after
        ways = (adding, after) if yes else (after, adding)
        return [
            *begin,
            *instruction(Ins.SelectionMerge, after, SELECTION_CONTROL_NONE),
            *instruction(Ins.BranchConditional, block.end[1], *ways),
            *instruction(Ins.Label, adding),
            *self._adding(yes or no),
            *instruction(Ins.Branch, after),
            *instruction(Ins.Label, after),
            *end,
            *merge,
            *block.end,
        ]

    def _switched(self, block: _Block, amounts: Sequence[int]) -> list[int]:
        """Give each target of a switch that enters or leaves a loop a block before it."""
        end, cases = list(block.end), []
        labels = {one.label for one in self._function.blocks}
        places = _switch_targets(end, labels)
        for target, amount in dict(zip(block.targets, amounts, strict=True)).items():
            if amount:
                case = self._moved[block.label, target] = self._added.new_id()
                for place in places:
                    if end[place] == target:
                        end[place] = case
                cases += [*instruction(Ins.Label, case), *self._adding(amount), *instruction(Ins.Branch, target)]
        return [*block.merge, *end, *cases]
