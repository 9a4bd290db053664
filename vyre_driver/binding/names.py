"""Arguments by name: which keyword is an array, and which a push constant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vyre_driver.binding.arguments import starts_empty
from vyre_driver.errors import InvalidInput, InvalidPushConstant

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vyre_driver.binding.plan import BindingPlan


OPTIONS = frozenset({"workgroups", "invocations", "push_constants", "out", "out_shapes", "split", "timeout", "strict", "label"})
"""What a call's keywords mean whatever a shader declares: such a name is given by position, or in ``push_constants``."""
TUNING_OPTIONS = frozenset(
    {"space", "constants", "config", "tolerance", "seconds", "budget", "isolate", "replace", "on_progress"}
)
"""What ``Driver.tune`` takes besides a call's ``workgroups``, ``invocations``, ``push_constants`` and ``out_shapes``."""


def split_named(
    plan: BindingPlan,
    constants: Collection[str],
    named: Mapping[str, object],
    given: Mapping[str, object] | None,
    options: Collection[str] = OPTIONS,
) -> tuple[dict[str, object], dict[str, object]]:
    """Return the arrays and the push constants among keyword arguments, each by name.

    ``constants`` are the names of the push constants, ``given`` those that came as ``push_constants``. ``options`` are the
    other keywords of the call, one of which may have been misspelt.

    Raises
    ------
    InvalidInput
        If a keyword names neither, or both a buffer and a push constant, or a push constant that is given twice.
    InvalidPushConstant
        If ``given`` is no mapping.
    """
    if given is not None and not isinstance(given, Mapping):
        raise InvalidPushConstant(
            f"push constants came as {type(given).__name__}, and are given by name",
            fix="pass a dictionary from names to values",
        )
    buffers = [one.name for one in plan.descriptors]
    arrays: dict[str, object] = {}
    pushed = dict(given or {})
    for name, value in named.items():
        is_buffer, is_constant = name in buffers, name in constants
        if is_buffer and is_constant:
            raise InvalidInput(
                f"{name!r} is a buffer and a push constant of the {plan.subject}",
                fix=f"pass the array by position, and the number as push_constants={{{name!r}: ...}}",
                name=name,
            )
        if not is_buffer and not is_constant:
            raise _unknown(plan, buffers, constants, options, name)
        if is_constant and name in pushed:
            raise InvalidInput(
                f"the push constant {name!r} is given twice", fix="give it by keyword or in push_constants", name=name
            )
        (arrays if is_buffer else pushed)[name] = value
    return arrays, pushed


FORMER = {"push": "push_constants", "out_counts": "out_shapes", "groups": "workgroups"}
"""Options as 0.1 called them."""


def _unknown(
    plan: BindingPlan, buffers: Sequence[str], constants: Collection[str], options: Collection[str], name: str
) -> InvalidInput:
    from difflib import get_close_matches  # late: only a misspelt name needs it

    known = [
        f"{kind} {', '.join(map(repr, names))}"
        for kind, names in (("buffers", buffers), ("push constants", constants))
        if names
    ]
    fix = f"name one of its {' or its '.join(known)}" if known else "pass no arguments by name"
    former = FORMER.get(name)
    near = [former] if former in options else get_close_matches(name, [*buffers, *constants, *sorted(options)], 1)
    return InvalidInput(
        f"the {plan.subject} has no buffer or push constant {name!r}",
        fix=f"write {near[0]}= if you meant that, or {fix}" if near else fix,
        name=name,
        known=(*buffers, *constants),
    )


def in_binding_order(
    plan: BindingPlan, arrays: Sequence[object], named: Mapping[str, object], left_out: Collection[str]
) -> tuple[object, ...]:
    """Return the arrays of a call in binding order: those by name at their places, the others at the rest, in their order.

    ``left_out`` are the outputs whose shape is given in place of an array. Raises InvalidInput if an array is given for one,
    or another has none.
    """
    both = [name for name in named if name in left_out]
    if both:
        raise InvalidInput(
            f"the output {both[0]!r} is given an array and, by out or out_shapes, a shape",
            fix="give one of them",
            binding=both[0],
        )
    places = [one for one in plan.descriptors if one.name not in left_out]
    if len(arrays) + len(named) != len(places):  # outputs of a fixed size may be left out
        places = [one for one in places if one.name in named or not (starts_empty(one) and one.element_count)]
    positional = iter(arrays)
    missing = object()
    ordered = [named[one.name] if one.name in named else next(positional, missing) for one in places]
    left_over = len(list(positional))
    if left_over:
        names = ", ".join(map(repr, named))
        raise InvalidInput(
            f"the {plan.subject} takes {len(places)} array(s), and got {len(arrays)} by position beside {names} by name",
            fix="give each once, by position or by its name",
            expected=len(places),
            received=len(arrays) + len(named),
        )
    absent = [repr(one.name) for one, array in zip(places, ordered, strict=True) if array is missing]
    if absent:
        raise InvalidInput(
            f"the {plan.subject} got no array for {', '.join(absent)}",
            fix="give each, by position or by its name",
            missing=absent,
        )
    return tuple(ordered)
