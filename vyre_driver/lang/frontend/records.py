"""Named tuples and frozen dataclasses: what is as with the tuple of their fields, and what their classes say otherwise."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from vyre_driver.lang.frontend.values import Tuple

if TYPE_CHECKING:
    import ast

    from vyre_driver.lang.frontend.translation import Translation


def check_as_tuple(t: Translation, value: object, method: str, what: str, node: ast.AST) -> None:
    """Check that an operation on a tuple is that of tuples: a class may have another, or none; raises KernelTypeError."""
    kind = value.made_by if isinstance(value, Tuple) else None
    if isinstance(kind, type) and getattr(kind, method, None) is not getattr(tuple, method, None):
        raise t.mistyped(node, f"{what} of a {kind.__name__}, which is not that of a tuple", "use its fields and methods")


def check_makes_fields(t: Translation, kind: Any, node: ast.AST) -> None:  # noqa: ANN401 -- a class
    """Check that a call of a class gives its fields what it is given, and does nothing else; raises KernelTypeError."""
    params = getattr(kind, "__dataclass_params__", None)
    if params is None:
        maker = next((one for one in kind.__mro__ if "__new__" in vars(one)), tuple)
        own = None if "_fields" in vars(maker) and kind.__init__ is object.__init__ else "__new__"
    else:
        own = "__post_init__" if hasattr(kind, "__post_init__") else None if params.init else "__init__"
        for field in dataclasses.fields(kind):
            if own is None and (not field.init or field.default_factory is not dataclasses.MISSING):
                own = f"field({field.name})"
        if not params.frozen:
            raise t.mistyped(
                node, f"{kind.__name__} may change, and values of kernels do not", "declare it @dataclass(frozen=True)"
            )
    if own is not None:
        raise t.mistyped(
            node,
            f"a {kind.__name__} is made with {own} of its own, which kernels do not run",
            "make it outside of the kernel, or leave that out",
        )
