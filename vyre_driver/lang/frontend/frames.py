"""The functions that are being translated, from the kernel down to the one at hand, and what their names stand for."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.ir.arithmetic import LitBool
from vyre_driver.ir.nodes import Assign, Let
from vyre_driver.lang.frontend.draft import Plain
from vyre_driver.lang.frontend.values import variable
from vyre_driver.lang.types import bool_

if TYPE_CHECKING:
    import ast
    import types
    from collections.abc import Callable

    from vyre_driver.ir.arithmetic import Var
    from vyre_driver.ir.nodes import Node
    from vyre_driver.lang.frontend.draft import Body, Draft
    from vyre_driver.lang.frontend.values import Number, Value
    from vyre_driver.lang.source.text import FunctionSource
    from vyre_driver.lang.types import ScalarType


class Flow(NamedTuple):
    """How statements end: ``leaves`` says that nothing gets behind them, ``exits`` what some ways have left for already."""

    leaves: bool
    exits: frozenset[Exit]


FALLS = Flow(leaves=False, exits=frozenset())


class Exit:
    """A place that jumps leave for: the end of a loop, of a turn of it, or of a function.

    Most jumps need nothing: what follows them goes into the other side of their ``if``. Where that does not do, a variable says
    whether an invocation is still going.
    """

    _made = itertools.count()

    def __init__(self, name: str, put: Callable[[Node], None]) -> None:
        """Know no jump; ``put`` declares the variable, where one is needed."""
        self.number = next(Exit._made)  # their order, so that the same function always makes the same program
        self._name = name
        self._put = put
        self._jumps: list[Body] = []
        self._going: Number | None = None

    def jump(self, body: Body) -> None:
        """Note that a body ends with a jump to here."""
        self._jumps.append(body)
        if self._going is not None:
            body.append(self._stop())

    @property
    def is_taken(self) -> bool:
        """Whether anything jumps here."""
        return bool(self._jumps)

    def going(self, draft: Draft) -> Number:
        """Return the variable that says that an invocation has not jumped here."""
        if self._going is None:
            self._going = variable(draft.fresh(self._name), bool_)
            self._put(Let(self._going.expr.name, LitBool(True)))  # type: ignore[attr-defined]
            for body in self._jumps:
                body.append(self._stop())
        return self._going

    def _stop(self) -> Plain:
        held: Var = self._going.expr  # type: ignore[union-attr, assignment] # there is one
        return Plain(Assign(held.name, LitBool(False)), None)


@dataclass(slots=True, eq=False)
class LoopFrame:
    """A loop around the place at hand; ``carried`` are the variables of the program that a turn hands to the next one.

    ``lost`` are those among them that a turn leaves without a value, and that no turn reads.
    """

    node: ast.For | ast.While
    broken: Exit
    continued: Exit
    carried: dict[str, Value]
    lost: set[str] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Frame:
    """A function that is being translated.

    ``call`` is where its caller calls it, ``names`` what its variables are now, ``assigned`` all that it assigns anywhere, and
    ``types`` the type of each with the line that gave it. ``results`` are the bodies that end with a return, and its values.
    ``hosts`` are the functions and types that the call gives it.
    """

    function: types.FunctionType
    source: FunctionSource
    call: ast.expr | None
    names: dict[str, Value]
    assigned: frozenset[str]
    returned: Exit
    is_kernel: bool = False
    types: dict[str, tuple[ScalarType, int]] = field(default_factory=dict)
    loops: list[LoopFrame] = field(default_factory=list)
    results: list[tuple[Body, Value, ast.AST]] = field(default_factory=list)
    hosts: tuple[object, ...] = ()
