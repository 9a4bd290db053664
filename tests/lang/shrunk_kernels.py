"""Smaller kernels that are still wrong: statements and operators are left out of a text as long as it is."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def smaller(text: str) -> Iterator[str]:
    """Yield texts with one statement or operator left out, or replaced by a part of it, the largest first."""
    tree = ast.parse(text)
    found: list[tuple[int, list[ast.stmt], int, list[ast.stmt]]] = []
    for node in ast.walk(tree):
        for body in (getattr(node, field, None) for field in ("body", "orelse")):
            for place, statement in enumerate(body if isinstance(body, list) else []):
                size = sum(1 for _ in ast.walk(statement))
                if not isinstance(statement, ast.Pass):
                    found.append((size, body, place, []))
                if isinstance(statement, ast.If | ast.For | ast.While):
                    found.append((size - 1, body, place, statement.body))
    for _, body, place, instead in sorted(found, key=lambda one: -one[0]):
        kept = body[:]
        body[place : place + 1] = instead or ([] if len(body) > 1 or body is tree.body else [ast.Pass()])
        yield ast.unparse(ast.fix_missing_locations(tree))
        body[:] = kept
    yield from _smaller_expressions(tree)


def _smaller_expressions(tree: ast.Module) -> Iterator[str]:
    """Yield texts with one operation or call replaced by one of its operands; most of them are refused for their types."""
    for parent in list(ast.walk(tree)):
        for field, value in ast.iter_fields(parent):
            if not isinstance(value, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.Call):
                continue
            for part in ast.iter_child_nodes(value):
                if isinstance(part, ast.expr) and part is not getattr(value, "func", None):
                    setattr(parent, field, part)
                    yield ast.unparse(tree)
            setattr(parent, field, value)


def shrunk(text: str, is_wrong: Callable[[str], bool], attempts: int = 1000) -> str:
    """Return a text of which nothing can be left out, or what so many attempts came to."""
    at = 0
    candidates = list(smaller(text))
    for _ in range(attempts):
        if at >= len(candidates):
            break
        if is_wrong(candidates[at]):
            text, candidates = candidates[at], list(smaller(candidates[at]))
            at = max(at - 1, 0)
        else:
            at += 1
    return text
