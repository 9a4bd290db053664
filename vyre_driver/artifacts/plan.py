"""Check that the compiler's plan of an artifact is in upstream's form; nothing here obeys it.

Source: upstream 0.7, section 2.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from vyre_driver.artifacts.documents import Document
from vyre_driver.checks import U64_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Check: TypeAlias = Callable[[Document, object, str], object]
    Fields: TypeAlias = Mapping[str, Check]

_U32 = Document.number
_U64: Check = partial(Document.number, limit=U64_MAX)
_NUMBERS = Document.numbers
_DIGEST: Check = partial(Document.octets, length=32)


def _one_of(*names: str) -> Check:
    return partial(Document.choice, members=dict.fromkeys(names))


def check_record(document: Document, value: object, where: str, fields: Fields) -> None:
    """Check that a value is an object of these fields; raises InvalidContainer."""
    for (name, check), member in zip(fields.items(), document.members(value, where, *fields), strict=True):
        check(document, member, f"{where}.{name}")


def _each(check: Check, document: Document, value: object, where: str) -> None:
    for place, item in enumerate(document.items(value, where)):
        check(document, item, f"{where}[{place}]")


def _record_of(fields: Fields) -> Check:
    return lambda document, value, where: check_record(document, value, where, fields)


def _list_of(fields: Fields) -> Check:
    return partial(_each, _record_of(fields))


def _endpoint(document: Document, value: object, where: str) -> None:
    """Check one end of a dependency: a node or a value."""
    kind = "value" if isinstance(value, dict) and "value" in value else "node"
    check_record(document, value, where, {kind: _U32})


def _optional_number(document: Document, value: object, where: str) -> None:
    if value is not None:
        document.number(value, where)


def _anything(document: Document, value: object, where: str) -> None:
    """Accept the reason of a rejected fusion, which nothing here reads."""


DEPENDENCIES: Check = _list_of(
    {"from": _endpoint, "to": _endpoint, "kind": _one_of("data", "retained", "materialization"), "value": _optional_number}
)
SELECTED_PLAN: Check = _record_of(
    {
        "fusion": _list_of({"id": _U32, "members": _NUMBERS, "stage": _U32, "legality": partial(_each, _DIGEST)}),
        "barriers": _list_of({"before_stage": _U32, "after_stage": _U32, "dependencies": _NUMBERS}),
        "materializations": _list_of(
            {"value": _U32, "producer": _U32, "stage": _U32, "reason": _one_of("cross_group_use", "output", "retained")}
        ),
        "candidates_explored": _U32,
        "search_budget": _record_of(
            {
                "max_candidates": _U32,
                "max_cpu_work": _U64,
                "max_target_compilations": _U32,
                "max_measurements": _U32,
                "max_elapsed_ns": _U64,
            }
        ),
        "search_work": _record_of(
            {
                "candidates_explored": _U32,
                "cpu_work": _U64,
                "target_compilations": _U32,
                "measurements": _U32,
                "elapsed_ns": _U64,
            }
        ),
        "selection_cost": _record_of({"semantic_work": _U64, "launches": _U64, "materializations": _U64, "total": _U64}),
        "pruned_fusions": _list_of({"from": _U32, "to": _U32, "value": _U32, "reason": _anything}),
    }
)
RESOURCE_ENVELOPE: Check = _record_of({"total_bytes": _U64, "peak_live_bytes": _U64})
PROVENANCE: Check = _record_of({"source_graph": _DIGEST, "request": _DIGEST, "compiler_version": Document.text})
