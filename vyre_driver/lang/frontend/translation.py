"""The state of one translation: the functions at hand, the program so far, and how a mistake is reported."""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from vyre_driver.errors import KernelNameError, KernelSourceError, KernelSyntaxError, KernelTypeError
from vyre_driver.ir.arithmetic import Binary, LitU32
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, MemoryKind
from vyre_driver.ir.builders import operation
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import BufLen, Cast, Load
from vyre_driver.ir.extensions import extension
from vyre_driver.ir.nodes import Let
from vyre_driver.ir.operators import BinOp
from vyre_driver.lang.frontend.draft import Draft, Place, Plain
from vyre_driver.lang.frontend.values import Constant, Merged, Number, Tuple, variable
from vyre_driver.lang.source.captured import Captured
from vyre_driver.lang.types import Kind, bool_, i32, i64

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Mapping, Sequence

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.terms import Term
    from vyre_driver.lang.frontend.checking import Check
    from vyre_driver.lang.frontend.draft import Body, Flow, Frame
    from vyre_driver.lang.frontend.values import Array, Value
    from vyre_driver.lang.source.parameters import Specialization
    from vyre_driver.lang.types import ScalarType
    from vyre_driver.target.config import SourceLines

Error = TypeVar("Error", bound=KernelSourceError)

MAX_NODES = 8192
"""The most statements of a kernel's program; rule V019 allows more."""

MAX_TRANSLATED = 4 * MAX_NODES
"""The most statements that are translated for one program, those that leave nothing in it counted too."""

MAX_EXTENT = (1 << 30) - 64
"""The most elements along an axis: so that the sum of two indices, or twice one, is an i32, and some elements further too."""


def pushed_type(scalar: ScalarType, low: int) -> DataType:
    """Return the type that a number is pushed as: one that is never negative as the word that it is computed with."""
    return DataType.U32 if scalar is i32 and low >= 0 else scalar.element


class CountApart(Exception):
    """Raised where an array whose length was taken from its buffer is used by atomics, beside which no buffer has a length."""

    def __init__(self, array: str) -> None:
        """Keep its name."""
        super().__init__(array)
        self.array = array


class Shared(NamedTuple):
    """What a kernel calls memory that a workgroup shares, and its shape."""

    name: str
    shape: tuple[int, ...]


class Variable(NamedTuple):
    """A variable that holds a number: its function's name, its own, its type, and the line that first gives it a value."""

    function: str
    name: str
    type: ScalarType
    line: int


class ArrayUse(NamedTuple):
    """A load, a store or an atomic of the program, and where it is written."""

    term: Term
    place: Place
    array: Array


class Language(NamedTuple):
    """The functions that translate an expression, statements, an assignment and a call of a function."""

    evaluate: Callable[[Translation, ast.expr], Value]
    run: Callable[[Translation, Sequence[ast.stmt]], Flow]
    bind: Callable[[Translation, ast.expr, Value, ast.AST], None]
    inline: Callable[[Translation, types.FunctionType, list[Value], dict[str, Value], ast.expr], Value]


class Translation:
    """A kernel that is being translated."""

    def __init__(self, specialization: Specialization, counted: frozenset[str], language: Language) -> None:
        """Begin with an empty program; ``counted`` are arrays whose length comes as a number beside them."""
        self.specialization = specialization
        self.counted = counted
        self.ranks: dict[str, int] = {}
        self.indexes: dict[str, Expr] = {}  # the indices that the kernel has as parameters
        self.extents: dict[int, list[tuple[str, int]]] = {}  # by the grid's axis: the arrays' axes that it goes along
        self.covered: dict[int, list[tuple[str, int]]] = {}  # the same of what a workgroup's index is used on
        self.same_axes: dict[tuple[str, int], tuple[str, int]] = {}  # axes as long as another one, which each call checks
        self.fixed_axes: dict[tuple[str, int], int] = {}  # axes whose length is said, which each call checks
        self.last_places: dict[tuple[str, int], int] = {}  # of axes that are indexed: the largest index, as far as is known
        self.laid_out: dict[str, list[Array]] = {}  # arrays of several axes, each as often as its elements are used
        self.scalars: dict[str, Number] = {}  # what is pushed, by name
        self.stored = StoredNumbers(self)
        self.measured: set[str] = set()  # arrays whose length was taken from the buffer
        self.draft = Draft()
        self.prologue: Body = []
        self.captured = Captured()
        self.outside: dict[tuple[types.FunctionType, str], Value] = {}  # what names that are no variables stand for
        self.typings = Typings()
        self.translated = 0  # statements so far
        self.unrolled: list[Place] = []  # the loops around the place at hand that are unrolled
        self.checks: list[Check] = []  # those that the program makes itself
        self.faults = ""  # the buffer in which the program keeps what its checks found, where there is one
        self.uses: list[ArrayUse] = []
        self.open_axes: dict[ast.expr, set[int]] = {}  # by index: where the program compares it with the array's elements
        self.variables: list[Variable] = []  # of the functions that have been translated
        self.shared: dict[str, Shared] = {}  # by the program's buffer
        self.is_plain = specialization.mode == "plain"
        self.is_checked = specialization.mode in {"trap", "record"}
        self.frames: list[Frame] = []
        self.evaluate = partial(language.evaluate, self)
        self.run = partial(language.run, self)
        self.bind = partial(language.bind, self)
        self.inline = partial(language.inline, self)

    @property
    def frame(self) -> Frame:
        """The function at hand."""
        return self.frames[-1]

    def joined(self, spot: Spot, name: str, value: Value) -> None:
        """Note a value whose type was decided at a place, for plain Python."""
        self.typings.note([frame.call for frame in self.frames[1:]], spot, name, value)

    def place(self, node: ast.AST) -> Place:
        """Return where a node of the function at hand stands."""
        return Place(tuple(self.frames), node)

    def rank(self, array: Array, node: ast.AST, used: int | None = None) -> int:
        """Return how many axes an array has: as it is annotated, else as it is used first."""
        if not array.is_parameter:
            return len(array.shape)
        if array.name not in self.ranks:
            if used is None:
                raise self.mistyped(
                    node,
                    f"nothing says how many dimensions {array.name!r} has",
                    f"declare it, for example {array.access.value}[{array.element}, 2]",
                )
            self.ranks[array.name] = used
        return self.ranks[array.name]

    def axis(self, array: Array, axis: int) -> Number | Constant:
        """Return the elements along an axis of an array: of one with a single axis the length of its buffer."""
        if not array.is_parameter:
            return array.shape[axis]
        if self.ranks.get(array.name) == 1 and array.name not in self.counted:
            self.measured.add(array.name)
            return Number(i32, BufLen(array.buffer), 0, MAX_EXTENT)
        name, axis = self._first_alike(array.name, axis)
        if (name, axis) in self.fixed_axes:
            return Constant(self.fixed_axes[name, axis])
        least = 0 if name in self.specialization.counted else 1
        return self.scalar(f"{name}.shape[{axis}]", i32, (least, MAX_EXTENT))

    def share_extent(self, array: str, axis: int, uses: list[tuple[str, int]]) -> None:
        """Take an axis for as long as the first one that the same index of the kernel is used on, if both come as numbers."""
        empty = self.specialization.counted
        if self.extents and not self.specialization.is_over and self.ranks[array] > 1 and array not in empty:
            first = next((one for one in uses if self.ranks[one[0]] > 1 and one[0] not in empty), None)
            one, other = self._first_alike(array, axis), self._first_alike(*(first or (array, axis)))
            if one in self.fixed_axes:
                one, other = other, one
            if one != other and one not in self.fixed_axes:
                self.same_axes[one] = other

    def name_axes(self, axes: Mapping[str, Sequence[str]]) -> None:
        """Take axes of one name for as long as the first of them, and those whose name is a number for as long as that says."""
        firsts: dict[str, tuple[str, int]] = {}
        for array, names in axes.items():
            for axis, name in enumerate(names if len(names) > 1 else ()):
                first = firsts.setdefault(name, (array, axis))
                if first != (array, axis):
                    self.same_axes[array, axis] = first
                elif name.isdigit() and int(name):
                    self.fixed_axes[array, axis] = int(name)

    def _first_alike(self, array: str, axis: int) -> tuple[str, int]:
        """Return the axis whose length stands for those of all that are as long."""
        found = array, axis
        while found in self.same_axes:
            found = self.same_axes[found]
        return found

    def scalar(self, name: str, scalar: ScalarType, bounds: tuple[int, int]) -> Number:
        """Return a number that each call gives; one of at least 1 is that for certain, whatever is given."""
        found = self.scalars.get(name)
        if found is None:
            loaded: Expr = Load(name, LitU32(0), pushed_type(scalar, bounds[0]))
            if scalar is i32 and bounds[0] < 0:
                loaded = Cast(DataType.U32, loaded)
            if scalar is i32 and bounds[0] == 1:
                loaded = Binary(BinOp.MAX, loaded, LitU32(1))
            found = self.scalars[name] = variable(self.draft.fresh(name.replace(".", "_")), scalar, bounds)
            self.prologue.append(Plain(Let(found.name, loaded), None))
        return found

    def leave_frame(self) -> None:
        """End the translation of the function at hand."""
        frame = self.frames.pop()
        name = frame.source.name
        self.variables += [Variable(name, one, scalar, line) for one, (scalar, line) in frame.types.items()]

    def accessed(self, term: Term, array: Array, node: ast.AST) -> None:
        """Note an access to an array."""
        self.uses.append(ArrayUse(term, self.place(node), array))

    def count_apart(self, array: Array) -> None:
        """Check that the length of an array that is used by atomics comes as a number beside it, or begin again."""
        if array.is_parameter and array.name in self.measured:
            raise CountApart(array.name)
        if array.is_parameter:
            self.counted |= {array.name}

    def count(self, node: ast.AST) -> None:
        """Check that neither the program nor the work of translating it grows beyond what a program may have.

        A statement of the function counts as often as it is translated: in each turn that is unrolled, and in each call.
        """
        self.translated += 1
        if self.translated <= MAX_TRANSLATED and (self.unrolled or self.draft.size <= MAX_NODES):
            return
        place, problem, fix = self.place(node), "the kernel and what it calls make", "split it into several kernels"
        if self.unrolled:
            place = self.unrolled[-1]
            problem = f"unrolling the loop in line {getattr(place.node, 'lineno', 0)} makes"
            fix = "use range, or unroll fewer turns"
        limit = f"over {MAX_NODES:,} statements, the most of a program"
        if self.draft.size <= MAX_NODES:
            limit = f"over {MAX_TRANSLATED:,} statements to translate"
        raise KernelSyntaxError(f"{problem} {limit}", fix=fix, frames=shown_frames(place))

    def check_unrolled(self, node: ast.AST, before: int, statements: int) -> None:
        """Check that a loop that is unrolled leaves the program in its limit; it will make as many as its turns so far did.

        ``before`` are the statements of the program that stand before the loop.
        """
        if self.draft.size > MAX_NODES:
            others = f" behind {before:,} others" if statements <= MAX_NODES else ""
            raise self.unknown(
                node,
                f"unrolling the loop in line {getattr(node, 'lineno', 0)} makes {statements:,} statements{others}, and a "
                f"program has {MAX_NODES:,} at most",
                "use range, or unroll fewer turns",
            )

    def mistyped(self, node: ast.AST, problem: str, fix: str) -> KernelTypeError:
        """Return the error of types that do not fit, at a node."""
        return self._error(KernelTypeError, node, problem, fix)

    def misspelt(self, node: ast.AST, problem: str, fix: str) -> KernelNameError:
        """Return the error of a name that cannot be used, at a node."""
        return self._error(KernelNameError, node, problem, fix)

    def unknown(self, node: ast.AST, problem: str, fix: str) -> KernelSyntaxError:
        """Return the error of what is not part of the language, at a node."""
        return self._error(KernelSyntaxError, node, problem, fix)

    def _error(self, kind: type[Error], node: ast.AST, problem: str, fix: str) -> Error:
        return kind(problem, fix=fix, frames=shown_frames(self.place(node)))


def shown_frames(place: Place) -> list[tuple[str, str, int, str, int, int]]:
    """Return the places from the kernel down to a node, as a KernelSourceError shows them."""
    nodes = [frame.call for frame in place.frames[1:]] + [place.node]
    return [_shown(frame, node) for frame, node in zip(place.frames, nodes, strict=True) if node is not None]


def source_lines(places: Mapping[str, Place]) -> SourceLines:
    """Return where statements of a program come from: by path the file, the line and the column, from 1 on."""
    return tuple(
        (path, (place.frames[-1].source.filename, place.node.lineno, place.node.col_offset + 1))
        for path, place in places.items()
        if isinstance(place.node, (ast.stmt, ast.expr))
    )


def _shown(frame: Frame, node: ast.AST) -> tuple[str, str, int, str, int, int]:
    source = frame.source
    line, column = getattr(node, "lineno", source.first_line), getattr(node, "col_offset", 0)
    end_line, end = getattr(node, "end_lineno", line), getattr(node, "end_col_offset", column)
    text = source.line(line)
    octets = text.encode()
    start = len(octets[:column].decode(errors="replace"))
    stop = len(octets[:end].decode(errors="replace")) if end_line == line else len(text)
    return source.name, source.filename, line, text, start, stop


class StoredNumbers:
    """The buffer of one program's numbers: words one after the other, two of what is wide, the lower one first."""

    def __init__(self, t: Translation) -> None:
        """Hold nothing yet."""
        self._t = t
        self._name = ""
        self._words = 0

    def add(self, name: str, scalar: ScalarType) -> Number:
        """Return a parameter that is a number, which is behind those before it."""
        draft = self._t.draft
        self._name = self._name or draft.fresh("numbers")
        held = variable(draft.fresh(name), scalar, scalar.bounds if scalar.is_whole else (0, 0))
        self._t.prologue.append(Plain(Let(held.name, self._loaded(scalar)), None))
        return held

    def _loaded(self, scalar: ScalarType) -> Expr:
        bits = self._word()
        if scalar.is_wide:
            upper = operation(BinOp.SHL, DataType.U64, Cast(DataType.U64, self._word()), LitU32(32))
            bits = operation(BinOp.BIT_OR, DataType.U64, Cast(DataType.U64, bits), upper)
        if scalar is bool_:
            return Binary(BinOp.NE, bits, LitU32(0))
        if scalar.kind is Kind.FLOAT:
            return extension(f"bitcast<{scalar}>", bits)
        return Cast(DataType.I64, bits) if scalar is i64 else bits

    def _word(self) -> Expr:
        self._words += 1
        return Load(self._name, LitU32(self._words - 1), DataType.U32)

    def buffers(self, place: int) -> list[BufferDecl]:
        """Return the buffer at a place among the program's, or nothing."""
        found = BufferDecl(self._name, place, BufferAccess.READ_ONLY, MemoryKind.GLOBAL, DataType.U32, self._words)
        return [found] if self._words else []


Spot: TypeAlias = "tuple[int, ...]"
Path: TypeAlias = "tuple[Spot, ...]"
Shape: TypeAlias = "ScalarType | tuple[Shape, ...] | None"
"""The type of a number, those of a tuple's items, or None of what stays what it is."""


def spot_of(node: ast.AST) -> Spot:
    """Return where an expression stands in its file."""
    return (
        getattr(node, "lineno", 0),
        getattr(node, "col_offset", 0),
        getattr(node, "end_lineno", 0),
        getattr(node, "end_col_offset", 0),
    )


class Typings:
    """The types of what was joined, by the calls from the kernel down, the place there, and the name."""

    def __init__(self) -> None:
        """Know nothing."""
        self._found: dict[tuple[Path, Spot, str], list[Value]] = {}

    def note(self, calls: Sequence[ast.AST | None], spot: Spot, name: str, value: Value) -> None:
        """Keep what was joined at a place; its type is looked at when the translation is done."""
        path = tuple(spot_of(one) for one in calls if one is not None)
        self._found.setdefault((path, spot, name), []).append(value)

    def within(self, path: Path) -> dict[tuple[Spot, str], Shape]:
        """Return what is known of the places of a function that was called by this way."""
        found: dict[tuple[Spot, str], Shape] = {}
        for (calls, spot, name), values in self._found.items():
            if calls == path:
                shapes = [_shape(value) for value in values]
                found[spot, name] = shapes[0] if all(shape == shapes[0] for shape in shapes) else None
        return found

    def returned(self) -> list[Shape]:
        """Return what is known of what the functions return that the kernel itself calls."""
        return [_shape(values[0]) for (calls, _, name), values in self._found.items() if len(calls) == 1 and name == "returned"]


def _shape(value: Value) -> Shape:
    if isinstance(value, Merged):
        return None if value.number is None else value.number.type
    if isinstance(value, Number):
        return value.type
    return tuple(map(_shape, value.items)) if isinstance(value, Tuple) else None
