"""A function of kernels rewritten so that Python runs it with their semantics: the same file and lines, other operators.

Names of what is called instead of operators begin with an underscore and ``vyre``; they are variables of a function around.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import types
from typing import TYPE_CHECKING, Any

from vyre_driver.lang.frontend.arithmetic import COMPARED, SIGNS
from vyre_driver.lang.frontend.branches import links_of, shortened
from vyre_driver.lang.frontend.translation import spot_of
from vyre_driver.lang.plain import numbers
from vyre_driver.lang.source.scan import parameter_names, stored_names
from vyre_driver.lang.types import ScalarType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from vyre_driver.lang.frontend.translation import Shape, Spot
    from vyre_driver.lang.source.text import FunctionSource

_COMPARED: dict[type[ast.cmpop], str] = {
    **{op: sign for op, (sign, _, _) in COMPARED.items()},
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: numbers.negation,
    ast.USub: numbers.negative,
    ast.UAdd: numbers.positive,
    ast.Invert: lambda value: ~value,
}
JOINED, ASSIGNED, RETURNED, LOOP, CHOSEN, GIVEN, MADE = ("if", "assigned", "returned", "loop", "chosen", "given", "made")


def rewritten(
    function: types.FunctionType,
    source: FunctionSource,
    known: dict[tuple[Spot, str], Shape],
    given: Mapping[str, Callable[..., Any]],
    *,
    waits: bool,
) -> types.FunctionType:
    """Return a function that does what ``function`` does in a kernel.

    ``known`` are the types of what it joins. ``given`` has ``_vyre_call``, which returns what a function is called by from a
    place, and ``_vyre_attribute``, which returns an attribute of something. The rewritten function makes the call itself, so
    that breakpoint() stops in what it calls. One that ``waits`` for others of a workgroup is a generator, which yields at
    barriers, as is all that it calls.
    """
    rewriter = _Rewriter(known, dict(given), waits=waits)
    body = rewriter.casts((), GIVEN, parameter_names(function), source.node)  # as they are annotated
    for statement in source.body:
        body.extend(rewriter.statements(_copied(statement)))
    if waits:
        never = ast.If(ast.Constant(False), [ast.Expr(ast.Yield(None))], [])
        body.append(ast.copy_location(never, source.node))
    arguments = copy.deepcopy(source.arguments)
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if one is not None:
            one.annotation = None
    arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
    inner: Any = ast.copy_location(ast.parse("def _vyre_function(): ...").body[0], source.node)
    inner.args, inner.body = arguments, body
    return _made(function, inner, rewriter.given)


def _made(function: types.FunctionType, inner: Any, given: dict[str, Any]) -> types.FunctionType:  # noqa: ANN401 -- a def
    """Compile a definition in a function around it, whose variables are what it takes from outside."""
    free = function.__code__.co_freevars
    cells = dict(zip(free, function.__closure__ or (), strict=True))
    outer = ast.parse(f"def outer({', '.join([*free, *given])}):\n return {inner.name}\n").body[0]
    assert isinstance(outer, ast.FunctionDef)  # noqa: S101 -- it was written so
    outer.body.insert(0, inner)
    module = compile(
        ast.fix_missing_locations(ast.Module([outer], [])), function.__code__.co_filename, "exec", dont_inherit=True
    )
    code = next(one for one in module.co_consts if isinstance(one, types.CodeType))
    values = [cells[name].cell_contents for name in free]
    made: types.FunctionType = types.FunctionType(code, function.__globals__)(*values, *given.values())
    # Under its own name it would hide what the function calls by that name: a method may call a function of its name.
    made.__code__ = made.__code__.replace(co_name=function.__code__.co_name)
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return made


class _Rewriter(ast.NodeTransformer):
    """Rewrites expressions by the visitor's methods, and statements to lists of them."""

    def __init__(self, known: dict[tuple[Spot, str], Shape], given: dict[str, Any], *, waits: bool) -> None:
        """Know the types of what is joined, and what the rewritten function is given from outside, by name."""
        self._known = known
        self._waits = waits
        self.given = given
        self._temporaries = 0

    def _named(self, name: str, value: object, node: ast.AST) -> ast.Name:
        """Return the name that stands for something in the rewritten function."""
        self.given[name] = value
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def _called(self, name: str, value: object, node: ast.AST, *given: ast.expr) -> ast.expr:
        return ast.copy_location(ast.Call(self._named(name, value, node), list(given), []), node)

    def _operated(self, sign: str, node: ast.AST, *given: ast.expr) -> ast.expr:
        at = list(numbers.OPERATORS).index(sign)
        return self._called(f"_vyre_operator_{at}", numbers.OPERATORS[sign], node, *given)

    def _cast(self, shape: Shape, value: ast.expr, node: ast.AST) -> ast.expr:
        """Return an expression as the types of a shape."""
        if shape is None:
            return value
        if isinstance(shape, ScalarType):
            return self._called(f"_vyre_{shape.name}", numbers.TO[shape.name], node, value)
        return self._called("_vyre_shaped", shaped, node, value, self._named(f"_vyre_shape_{len(self.given)}", shape, node))

    def casts(self, spot: Spot, kind: str, names: Iterable[str], node: ast.AST) -> list[ast.stmt]:
        """Return the assignments that give names the types that they have from a place on."""
        found: list[ast.stmt] = []
        for name in sorted(names):
            shape = self._known.get((spot, f"{kind} {name}"))
            if shape is not None:
                value = self._cast(shape, ast.copy_location(ast.Name(name, ast.Load()), node), node)
                target = ast.copy_location(ast.Name(name, ast.Store()), node)
                found.append(ast.copy_location(ast.Assign([target], value), node))
        return found

    def statements(self, node: ast.stmt) -> list[ast.stmt]:
        """Return the statements that take the place of one."""
        found = self.visit(node)
        return found if isinstance(found, list) else [found]

    def _block(self, block: list[ast.stmt]) -> list[ast.stmt]:
        return [made for statement in block for made in self.statements(statement)]

    def _assigned(self, node: ast.stmt) -> list[ast.stmt]:
        return [node, *self.casts((), ASSIGNED, stored_names([node]), node)]

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        self.generic_visit(node)
        return self._assigned(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        spot = spot_of(node)
        assert node.value is not None  # noqa: S101 -- the translation refuses a declaration without a value
        value = self._invoked(spot, node.annotation, [self.visit(node.value)], [], node)
        return [ast.copy_location(ast.Assign([self.visit(node.target)], value), node)]

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        sign = SIGNS[type(node.op)]
        if isinstance(node.target, ast.Name):
            before: ast.expr = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
            assigned = ast.Assign([node.target], self._operated(sign, node, before, self.visit(node.value)))
            return self._assigned(ast.copy_location(assigned, node))
        assert isinstance(node.target, ast.Subscript)  # noqa: S101 -- the translation refuses others
        array, array_set = self._temporary(self.visit(node.target.value), node)
        at, at_set = self._temporary(self.visit(node.target.slice), node)
        before = ast.copy_location(ast.Subscript(array, at, ast.Load()), node)
        target = ast.copy_location(ast.Subscript(array, at, ast.Store()), node)
        value = self._operated(sign, node, before, self.visit(node.value))
        return [array_set, at_set, ast.copy_location(ast.Assign([target], value), node)]

    def _temporary(self, value: ast.expr, node: ast.AST) -> tuple[ast.Name, ast.stmt]:
        """Return a name of a value, and the statement that sets it."""
        self._temporaries += 1
        name = f"_vyre_value_{self._temporaries}"
        assigned = ast.Assign([ast.copy_location(ast.Name(name, ast.Store()), node)], value)
        return ast.copy_location(ast.Name(name, ast.Load()), node), ast.copy_location(assigned, node)

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        statements = shortened(node)
        if statements is not None:
            return self._block(statements)
        names = stored_names([*node.body, *node.orelse])
        test = self.visit(node.test)
        made = ast.copy_location(ast.If(test, self._block(node.body), self._block(node.orelse)), node)
        return [made, *self.casts((node.lineno,), JOINED, names, node)]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        """Rewrite a loop so that what a turn hands to the next has its type where the condition reads it."""
        names = stored_names(node.body)
        casts = self.casts((node.lineno,), LOOP, names, node)
        test = self.visit(node.test)
        if not casts:
            return [ast.copy_location(ast.While(test, self._block(node.body), []), node)]
        over = ast.copy_location(ast.UnaryOp(ast.Not(), test), node.test)
        leave = ast.copy_location(ast.If(over, [ast.copy_location(ast.Break(), node)], []), node)
        body = [*casts, leave, *self._block(node.body)]
        loop = ast.copy_location(ast.While(ast.copy_location(ast.Constant(True), node), body, []), node)
        return [loop, *self.casts((node.lineno,), LOOP, names, node)]

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        names = stored_names(node.body)
        before = self.casts((), ASSIGNED, stored_names([ast.Expr(node.target)]), node)
        begin = self.casts((node.lineno,), LOOP, names, node)
        body = [*before, *begin, *self._block(node.body)]
        loop = ast.copy_location(ast.For(node.target, self.visit(node.iter), body, []), node)
        return [loop, *self.casts((node.lineno,), LOOP, names, node)]

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        if node.value is not None:
            node.value = self._cast(self._known.get(((), RETURNED)), self.visit(node.value), node)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        return self._operated(SIGNS[type(node.op)], node, self.visit(node.left), self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        kind = type(node.op)
        return self._called(f"_vyre_{kind.__name__}", _UNARY[kind], node, self.visit(node.operand))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        node.values = [self.visit(one) for one in node.values]  # bools, and constants, of which one may decide
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Rewrite a chain so that each of its middle operands is evaluated once."""
        left = self.visit(node.left)
        tests: list[ast.expr] = []
        for at, (op, comparator) in enumerate(zip(node.ops, node.comparators, strict=True)):
            right = self.visit(comparator)
            if at < len(node.ops) - 1:
                self._temporaries += 1
                name = f"_vyre_value_{self._temporaries}"
                right = ast.copy_location(ast.NamedExpr(ast.Name(name, ast.Store()), right), node)
                following: ast.expr = ast.copy_location(ast.Name(name, ast.Load()), node)
            else:
                following = right
            tests.append(self._operated(_COMPARED[type(op)], node, left, right))
            left = following
        return tests[0] if len(tests) == 1 else ast.copy_location(ast.BoolOp(ast.And(), tests), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        shape = self._known.get((spot_of(node), CHOSEN))
        yes, no = (self._cast(shape, self.visit(one), one) for one in (node.body, node.orelse))
        return ast.copy_location(ast.IfExp(self.visit(node.test), yes, no), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Rewrite the lookup of an attribute, which may be a property: a function that is to run as kernels do."""
        place = self._place(spot_of(node), node)
        name = ast.copy_location(ast.Constant(node.attr), node)
        callee = ast.copy_location(ast.Name("_vyre_attribute", ast.Load()), node)
        return self._waited(ast.copy_location(ast.Call(callee, [place, self.visit(node.value), name], []), node), node)

    @staticmethod
    def _place(spot: Spot, node: ast.AST) -> ast.expr:
        return ast.copy_location(ast.Tuple([ast.Constant(one) for one in spot], ast.Load()), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        spot = spot_of(node)
        keywords = [ast.copy_location(ast.keyword(one.arg, self.visit(one.value)), one) for one in node.keywords]
        made = self._invoked(spot, self.visit(node.func), [self.visit(argument) for argument in node.args], keywords, node)
        return self._cast(self._known.get((spot, MADE)), made, node)  # a record, whose fields are as they are annotated

    def _invoked(
        self, spot: Spot, function: ast.expr, given: list[ast.expr], named: list[ast.keyword], node: ast.AST
    ) -> ast.expr:
        callee = ast.copy_location(ast.Name("_vyre_call", ast.Load()), node)
        found = ast.copy_location(ast.Call(callee, [self._place(spot, node), function], []), node)
        return self._waited(ast.copy_location(ast.Call(found, given, named), node), node)

    def _waited(self, made: ast.expr, node: ast.AST) -> ast.expr:
        """Return the value of an expression, of a generator what it returns.

        This is ``yield from v if isinstance(v := made, GeneratorType) else v``, in which a debugger that steps has no frame of
        ours to stop in.
        """
        if not self._waits:
            return made
        held = ast.copy_location(ast.NamedExpr(ast.Name("_vyre_made", ast.Store()), made), node)
        value = ast.copy_location(ast.Name("_vyre_made", ast.Load()), node)
        generator = self._named("_vyre_generator", types.GeneratorType, node)
        test = self._called("_vyre_isinstance", isinstance, node, held, generator)
        return ast.copy_location(ast.IfExp(test, ast.copy_location(ast.YieldFrom(value), node), value), node)


def _copied(value: Any) -> Any:  # noqa: ANN401 -- a node, or what is in one
    """Return a copy of a node, as ``copy.deepcopy`` does, which goes deeper for each ``elif`` than Python follows."""
    if isinstance(value, list):
        return [_copied(one) for one in value]
    if not isinstance(value, ast.AST):
        return value
    if isinstance(value, ast.If):
        links = links_of(value)
        rest = _copied(links[-1].orelse)
        for link in reversed(links):
            rest = [ast.copy_location(ast.If(_copied(link.test), _copied(link.body), rest), link)]
        return rest[0]
    held = {name: _copied(getattr(value, name)) for name in value._fields if hasattr(value, name)}
    return ast.copy_location(type(value)(**held), value)


def shaped(value: Any, shape: Shape) -> Any:  # noqa: ANN401 -- a number, a tuple or a record
    """Return a value with the types of a shape: of a tuple, a record or a dict one of its class, whose items have them."""
    if shape is None:
        return value
    if isinstance(shape, ScalarType):
        return numbers.TO[shape.name](value)
    if isinstance(value, dict):
        return {name: shaped(one, of) for (name, one), of in zip(value.items(), shape, strict=True)}
    is_tuple = isinstance(value, tuple)
    names = () if is_tuple else tuple(one.name for one in dataclasses.fields(value))
    held = tuple.__iter__(value) if is_tuple else (getattr(value, name) for name in names)
    items = tuple(shaped(one, of) for one, of in zip(held, shape, strict=True))
    if is_tuple:
        return tuple.__new__(type(value), items)
    made = object.__new__(type(value))  # its class may make one with other values than it is given
    for name, item in zip(names, items, strict=True):
        object.__setattr__(made, name, item)
    return made
