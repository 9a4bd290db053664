"""A program as the Python function that gives it: the way back from :func:`vyre_driver.lang.frontend.translate.translate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from printing.distinct import distinct
from printing.expressions import HELD, Spelling
from printing.grids import Grid, along_axes, group_of, guarded, index_names
from printing.layouts import without_layout_tests
from printing.parameters import Names, annotation, element, given, is_number, loaded_numbers
from printing.spelled import Spelled
from printing.variables import Variables
from vyre_driver.errors import UnsupportedFeature
from vyre_driver.ir import expressions as ex
from vyre_driver.ir.buffers import MemoryKind
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.extensions import application
from vyre_driver.ir.loop_ends import ending_if, is_uncounted
from vyre_driver.ir.nodes import Assign, Barrier, If, Let, Loop, Return, Store
from vyre_driver.ir.operators import AtomicOp, MemoryOrdering
from vyre_driver.ir.terms import terms_within

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from printing.grids import Guarded
    from printing.parameters import Given
    from vyre_driver.ir.buffers import BufferDecl
    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.program import Program

_ATOM = 13
_F32, _U32, _I32 = DataType.F32, DataType.U32, DataType.I32
_ATOMICS = {
    **{AtomicOp[name.upper()]: f"atomic_{name}" for name in ("add", "or", "and", "xor", "min", "max", "exchange")},
    AtomicOp.COMPARE_EXCHANGE: "atomic_cas",
}
_KEPT = (ex.Atomic, ex.SubgroupReduce, ex.SubgroupShuffle, ex.SubgroupBallot)  # become variables at once
_BITS = "bitcast(u32, "  # of an f32 that an atomic gives
_OF_BITS = (AtomicOp.OR, AtomicOp.AND, AtomicOp.XOR)
_OWN = (MemoryKind.SHARED, MemoryKind.LOCAL)
_INDENT = "    "


def as_source(program: Program, name: str = "program") -> str:
    """Return a kernel in Python that gives a program; what the language has in one way only is written that way.

    Of a program that was made from a kernel the text gives that program again, with its digest, but for what ranges of numbers
    proved that the text does not say. Of another one it gives a program with the same results. The text uses the names of
    ``vyre_driver.lang``, and ``math`` and ``np``.

    Raises
    ------
    UnsupportedFeature
        If the program has what the language has no word for.
    """
    body = distinct(program.entry)
    terms = list(terms_within(*body))
    numbers = {one.name: one for one in program.buffers if is_number(one, terms)}
    held = loaded_numbers(body, numbers, terms)
    body = without_layout_tests(body, _lengths(held, numbers))
    found = guarded(program, body, list(terms_within(*body)), held)
    if found is not None:
        text = _Source(program, body, found).text(name)
        if text is not None:
            return text
    made = _Source(program, body, None).text(name)
    assert made is not None
    return made


def _lengths(held: Mapping[str, str], numbers: Mapping[str, BufferDecl]) -> set[str]:
    """Return the variables that hold how far the axes of arrays go."""
    return {name for name, buffer in held.items() if (what := given(numbers[buffer])) is not None and what.what == "shape"}


def _shapes(given: Mapping[str, Given], held: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the variables that hold how far the axes of arrays go, for those arrays of which a call gives that."""
    names = {buffer: name for name, buffer in held.items()}
    found: dict[str, list[tuple[int, str]]] = {}
    for buffer, what in given.items():
        if what.what == "shape":
            found.setdefault(what.owner, []).append((what.axis, names[buffer]))
    return {array: tuple(name for _, name in sorted(axes)) for array, axes in found.items()}


class _Source:
    """One program that is being written as a kernel."""

    def __init__(self, program: Program, body: tuple[Node, ...], found: Guarded | None) -> None:
        """Name what it takes."""
        self._program = program
        self._found = found
        self._whole = body
        terms = list(terms_within(*body))
        self._numbers = {one.name: one for one in program.buffers if is_number(one, terms)}
        self._held = loaded_numbers(body, self._numbers, terms)
        named = {name: given(self._numbers[name]) for name in self._held.values()}
        self._given = {name: what for name, what in named.items() if what is not None}
        self._names = Names()
        self._grid = self._leading(program, terms)
        self._called: dict[str, str] = {}  # buffers
        for one in program.buffers:
            if one.name not in self._given:
                self._called[one.name] = self._names.named(one.name)
        self._shapes = _shapes(self._given, self._held)
        self._lengths = {name for shape in self._shapes.values() if len(shape) > 1 for name in shape}
        self._elements = {one.name: one.element for one in program.buffers}
        self._python: dict[str, str] = {}  # variables
        self._types: dict[str, DataType] = {}
        self._spelling = Spelling(self._leaf)
        self._lines: list[str] = []
        self._changing: set[str] = set()
        rest = found.body if found is not None else body
        self._body = tuple(one for one in rest if not (isinstance(one, Let) and one.name in self._held))

    def _leading(self, program: Program, terms: Sequence[object]) -> Grid:
        owners = [one.owner for one in self._given.values() if one.what == "groups"]
        if self._found is None:
            return group_of(program, terms, self._names.named(owners[0] if owners else "g"))  # type: ignore[arg-type] # terms
        names = index_names(list(self._given.values()), len(self._found.limits))
        return Grid(indexes=tuple(self._names.named(one) for one in names))

    def text(self, name: str) -> str | None:
        """Return the text; None where the guard is another one than a kernel of this text would have."""
        self._find_types(self._body)
        self._grid.uses.clear()
        variables = self._variables = Variables(self._body, self._types)
        for group in variables.groups().values():
            called = self._names.named(min(group, key=len))
            self._python.update(dict.fromkeys(group, called))
        for one in self._program.buffers:
            if one.kind in _OWN:
                make = "local" if one.is_local else f"{self._grid.group}.shared"
                self._put(1, f"{self._called[one.name]} = {make}({element(one)}, {one.count})")
        self._statements(self._body, 1)
        if self._found is not None and not self._is_as_guarded():
            return None
        head = ", ".join(self._parameters())
        return "\n".join(["@kernel", f"def {name}({head}):", *(self._lines or [f"{_INDENT}pass"]), ""])

    def _is_as_guarded(self) -> bool:
        """Whether the front end would hold the indices against what the guard holds them against."""
        assert self._found is not None
        return all(self._are_alike(limits, self._limits(axis)) for axis, limits in self._found.limits.items())

    def _are_alike(self, one: Sequence[Expr], other: Sequence[Expr]) -> bool:
        """Whether limits are the same; of matrices that an index goes over each call checks that they are as long."""
        held, given = (
            {None if isinstance(limit, ex.Var) and limit.name in self._lengths else limit for limit in side}
            for side in (one, other)
        )
        return held == given

    def _limits(self, axis: int) -> list[Expr]:
        by_what = {(what.owner, what.what): name for name, what in self._given.items()}
        held = {buffer: name for name, buffer in self._held.items()}
        extent = by_what.get((self._grid.indexes[self._grid.axes - 1 - axis], "extent"))
        if extent is not None:
            return [ex.Var(held[extent])]
        found: list[Expr] = []
        for array, along in self._grid.uses.get(axis, []):
            shape = self._shapes.get(array)
            if shape is None:
                found.append(ex.BufLen(array))
            elif not found or len(shape) > 1:
                found.append(ex.Var(shape[along]))
        return found

    def _parameters(self) -> list[str]:
        grid = self._grid
        found = [f"{one}: Index" for one in grid.indexes] or [f"{grid.group}: Group[{', '.join(map(str, grid.sizes))}]"]
        arrays = [one for one in self._program.buffers if one.kind not in _OWN and one.name not in self._numbers]
        found += [f"{self._called[one.name]}: {annotation(one, len(self._shapes.get(one.name, ())))}" for one in arrays]
        asked = [one for name, one in self._numbers.items() if name not in self._given]
        return [*found, *(f"{self._called[one.name]}: {element(one)}" for one in asked)]

    def _find_types(self, body: Sequence[Node]) -> None:
        for node in body:
            match node:
                case Let(name, value):
                    self._types[name] = self._spelling.spelled(value).type
                case If(_, then, otherwise):
                    self._find_types(then)
                    self._find_types(otherwise)
                case Loop(name, start, _, inner):
                    self._types[name] = self._spelling.spelled(start).type
                    self._find_types(inner)

    def _put(self, level: int, text: str) -> None:
        self._lines.append(_INDENT * level + text)

    def _statements(self, body: Sequence[Node], level: int) -> None:
        before = len(self._lines)
        taken = False
        for place, node in enumerate(body):
            if taken:
                taken = False
            elif isinstance(node, Let):
                taken = self._let(node, body[place + 1 :], level)
            else:
                self._statement(node, level)
        if len(self._lines) == before and level > 1:
            self._put(level, "pass")

    def _let(self, node: Let, following: Sequence[Node], level: int) -> bool:
        """Write a declaration; returns whether it takes the next statement along, which is a copy of the variable."""
        name, value = node.name, node.value
        variables = self._variables
        if name in variables.left_out:
            return False
        if isinstance(value, _KEPT):
            copy = following[0] if following else None
            if name not in variables.readers:
                self._put(level, self._float_atomic(value) or self._spelling.spelled(value).text)
                return False
            if isinstance(copy, Let) and _is_float_of(copy.value, name) and variables.readers[name] == 1:
                found = self._float_atomic(value)
                if found:
                    self._put(level, f"{self._python[copy.name]} = {found}")
                    return True
            if isinstance(copy, Let) and copy.value == ex.Var(name) and variables.readers[name] == 1:
                self._put(level, f"{self._python[copy.name]} = {self._spelling.spelled(value).text}")
                return True
        if name not in variables.assigned:
            self._spelling.note(name, value)
        self._assigned(name, value, level)
        return False

    def _assigned(self, name: str, value: Expr, level: int) -> None:
        if not (isinstance(value, ex.Var) and value.name in self._python and self._python[value.name] == self._python[name]):
            self._put(level, f"{self._python[name]} = {self._spelling.spelled(value).text}")

    def _statement(self, node: Node, level: int) -> None:
        match node:
            case Assign(name, value):
                self._assigned(name, value, level)
            case Store(buffer, index, value):
                text = self._spelling.stored(self._elements[buffer], value)
                self._put(level, f"{self._element(buffer, index)} = {text}")
            case If():
                self._if(node, level, "if")
            case Loop():
                self._loop(node, level)
            case Return():
                self._put(level, "return")
            case Barrier(ordering) if ordering is not MemoryOrdering.GRID_SYNC:
                self._put(level, f"{self._grid.group}.barrier()")
            case _:
                raise UnsupportedFeature(
                    f"kernels written as Python have no statement for {node.op_id}",
                    fix="look at the program itself: print(program)",
                    feature=node.op_id,
                )

    def _if(self, node: If, level: int, word: str) -> None:
        self._put(level, f"{word} {self._spelling.condition(node.cond)}:")
        self._statements(node.then, level + 1)
        if len(node.otherwise) == 1 and isinstance(node.otherwise[0], If):
            self._if(node.otherwise[0], level, "elif")
        elif node.otherwise:
            self._put(level, "else:")
            self._statements(node.otherwise, level + 1)

    def _loop(self, node: Loop, level: int) -> None:
        sole = ending_if(node, self._numbers) if is_uncounted(node) else None
        if sole is not None:
            self._put(level, f"while {self._spelling.condition(sole.cond)}:")
            self._statements(sole.then, level + 1)
            return
        start, stop = self._spelling.spelled(node.start), self._spelling.spelled(node.stop)
        self._spelling.note(node.var, node.start)
        over = stop.text if start.bare == "0" else f"{start.beside(stop, 0)}, {stop.text}"
        self._put(level, f"for {self._python[node.var]} in range({over}):")
        self._statements(node.body, level + 1)

    def _element(self, buffer: str, index: Expr) -> str:
        return f"{self._called[buffer]}[{self._place(buffer, index)}]"

    def _place(self, buffer: str, index: Expr) -> str:
        """Return the indices of an element, one for each axis of its array."""
        indices = self._along_axes(buffer, index)
        if indices is None:
            raise UnsupportedFeature(
                f"an element of {buffer!r} is not at a row and a column of it",
                fix="look at the program itself: print(program)",
                buffer=buffer,
            )
        return ", ".join(map(self._spelling.place, indices))

    def _along_axes(self, array: str, index: Expr) -> tuple[Expr, ...] | None:
        """Return the indices that a place was made of; the axes that an index goes over may have the length of one of them."""
        shape = self._shapes.get(array, ())
        found = along_axes(index, [self._lengths if self._found else {name} for name in shape])
        for axis, one in enumerate(found or ()):
            self._grid.note(array, axis, one)
        return found

    def _leaf(self, expr: Expr) -> Spelled | None:
        match expr:
            case ex.Var(name) if name in self._held:
                return self._number(self._held[name], is_bits=True)
            case ex.Var(name):
                return Spelled(self._python.get(name, name), _ATOM, self._types[name])
            case ex.Load(buffer, _) if buffer in self._numbers:
                return self._number(buffer, is_bits=False)
            case ex.Load(buffer, index):
                return Spelled(self._element(buffer, index), _ATOM, self._held_as(buffer))
            case ex.BufLen(buffer):
                return Spelled(f"u32(len({self._called[buffer]}))", _ATOM, _U32)
            case ex.InvocationId() | ex.LocalId() | ex.WorkgroupId():
                return Spelled(f"u32({self._grid.place(expr)})", _ATOM, _U32)
            case ex.Atomic():
                return self._atomic(expr)
        return None

    def _held_as(self, buffer: str) -> DataType:
        found = self._elements[buffer]
        return HELD.get(found, found)

    def _number(self, buffer: str, *, is_bits: bool) -> Spelled:
        """Return a number that each call gives; ``is_bits``: it stands for a u32 of an i32's bits."""
        what = self._given.get(buffer)
        if what is not None and what.what == "groups":
            return Spelled(f"u32({self._grid.each('groups', what.axis)})", _ATOM, _U32)
        if what is not None:
            array = self._called[what.owner]
            return Spelled(f"u32({array}.shape[{what.axis}])" if what.axis else f"u32(len({array}))", _ATOM, _U32)
        kind = self._held_as(buffer)
        if is_bits and kind == _I32:
            return Spelled(f"u32({self._called[buffer]})", _ATOM, _U32)
        return Spelled(self._called[buffer], _ATOM, kind)

    def _float_atomic(self, value: Expr) -> str:
        """Return an atomic on an f32 as that is written, nothing for something else."""
        if not isinstance(value, ex.Atomic) or self._elements[value.buffer] != _F32:
            return ""
        return self._spelling.spelled(value).text.removeprefix(_BITS)[:-1]

    def _atomic(self, expr: ex.Atomic) -> Spelled:
        word = _ATOMICS.get(expr.op)  # type: ignore[arg-type] # an operator of an extension is not in it
        element = self._elements[expr.buffer]
        if word is None or element not in {_U32, _I32, _F32} or (element == _F32 and expr.op in _OF_BITS):
            raise UnsupportedFeature(
                f"kernels written as Python have no atomic {expr.op} on {element}",
                fix="look at the program itself: print(program)",
                feature="atomics",
            )
        place = self._place(expr.buffer, expr.index)
        place = f"({place})" if len(self._shapes.get(expr.buffer, ())) > 1 else place
        values = [self._element_of(one, element) for one in (expr.expected, expr.value) if one is not None]
        if element == _F32 and expr.expected == expr.value == ex.LitU32(0):  # nothing put in the place of nothing
            word, values = "atomic_load", []
        call = f"{word}({', '.join([self._called[expr.buffer], place, *values])})"
        return Spelled({_I32: f"u32({call})", _F32: f"{_BITS}{call})"}.get(element, call), _ATOM, _U32)

    def _element_of(self, bits: Expr, element: DataType) -> str:
        """Return the text of what an atomic is given as the bits of an element."""
        found = application(bits) if element == _F32 and isinstance(bits, ex.Cast) else None
        if found is not None and found.operator.name == "bitcast<u32>" and found.operands[0].dtype == _F32:
            return self._spelling.spelled(found.operands[0]).text
        given = self._spelling.spelled(bits)
        return {_I32: f"i32({given.text})", _F32: f"bitcast(f32, {given.text})"}.get(element, given.untyped)


def _is_float_of(value: Expr, name: str) -> bool:
    """Whether an expression is the bits in a variable as an f32."""
    found = application(value) if isinstance(value, ex.Cast) else None
    return found is not None and found.operator.name == "bitcast<f32>" and found.operands[0] == ex.Var(name)
