from collections.abc import Callable

from vyre_driver.ir.terms import Parts, Term

def seal_expression(
    term: Term, parts: Parts, dtype: object, traits: int, expression: type[Term], complete: Callable[..., None]
) -> int: ...
def seal_node(
    term: Term,
    parts: Parts,
    bodies: int,
    traits: int,
    expression: type[Term],
    node: type[Term],
    complete: Callable[..., None],
) -> int: ...
