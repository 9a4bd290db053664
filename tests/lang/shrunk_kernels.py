"""Smaller kernels that are still wrong: statements are left out of a text as long as it is."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def smaller(text: str) -> Iterator[str]:
    """Yield texts with one statement left out, or replaced by those within it, the largest first."""
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


def shrunk(text: str, is_wrong: Callable[[str], bool], attempts: int = 400) -> str:
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
