"""What lives as long as a process, a driver or a kernel and may grow: each is in caches.txt, with what bounds it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Source

TABLE = Path(__file__).with_name("caches.txt")
CONTAINERS = set(
    "dict list set deque defaultdict OrderedDict Counter WeakKeyDictionary WeakValueDictionary WeakSet".split()  # noqa: SIM905
)
GROWS = {"append", "appendleft", "add", "update", "setdefault", "insert", "extend"}
# Where objects live as long as a driver or a kernel, but for the fleet's (vyre_driver.distributed). Elsewhere they are those of
# one call, compilation or command.
LONG_LIVED = (
    *("autotune.store", "autotune.measure.tuned", "backends.kompute", "backends.registry", "cache", "driver", "embedding"),
    *("isolated", "kernels", "kompute", "lang.elementwise", "lang.kernel", "lang.launch", "lang.reductions"),
    *("pool", "process", "profiling", "remote", "runtime", "spirv.validator", "telemetry", "vulkan"),
)


def called(node: ast.expr) -> str:
    """Return the last name of what is called, or of a name itself."""
    node = node.func if isinstance(node, ast.Call) else node
    node = node.value if isinstance(node, ast.Subscript) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_container(node: ast.expr | None) -> bool:
    """Whether it makes a container that is mutable."""
    is_made = isinstance(node, ast.Call) and called(node) in CONTAINERS
    return is_made or isinstance(node, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp)


def is_empty(node: ast.expr | None) -> bool:
    """Whether it makes a container that is empty: one that is made full is seldom added to."""
    return (
        (isinstance(node, ast.Dict) and not node.keys)
        or (isinstance(node, ast.List) and not node.elts)
        or (isinstance(node, ast.Call) and called(node) in CONTAINERS)
    )


def assigned(node: ast.AST) -> tuple[list[ast.expr], ast.expr | None]:
    """Return the targets of an assignment, and what they are given; of several at once each its own is not told."""
    if isinstance(node, ast.AnnAssign):
        return [node.target], node.value
    return (node.targets, node.value) if isinstance(node, ast.Assign) else ([], None)


def of_modules(tree: ast.Module) -> Iterator[str]:
    """Give the containers of a module that something adds to."""
    held = {
        target.id
        for node in tree.body
        for target in assigned(node)[0]
        if isinstance(target, ast.Name) and is_container(assigned(node)[1])
    }
    for node in (one for outer in tree.body for one in ast.walk(outer) if not isinstance(outer, ast.Assign | ast.AnnAssign)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)) if name in held and attribute in GROWS:
                yield name
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()) if name in held:
                yield name


def of_functions(tree: ast.Module) -> Iterator[str]:
    """Give the functions whose results are kept without a bound."""
    for node in ast.walk(tree):
        for decorator in getattr(node, "decorator_list", []):
            sizes = [*decorator.args, *(one.value for one in decorator.keywords)] if isinstance(decorator, ast.Call) else []
            has_bound = any(isinstance(one, ast.Constant) and isinstance(one.value, int) for one in sizes)
            if called(decorator) in {"cache", "lru_cache"} and not has_bound:
                yield f"{node.name}()"  # type: ignore[attr-defined] # of functions and classes


def of_classes(tree: ast.Module) -> Iterator[str]:
    """Give the containers that objects of a class hold."""
    for kind in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in ast.walk(kind):
            targets, value = assigned(node)
            both = [(target, value) for target in targets]
            if len(targets) == 1 and isinstance(targets[0], ast.Tuple) and isinstance(value, ast.Tuple):
                both = list(zip(targets[0].elts, value.elts, strict=True))
            for target, given in both:
                if isinstance(target, ast.Attribute) and called(target.value) == "self" and is_empty(given):
                    yield f"{kind.name}.{target.attr}"


def containers(sources: dict[str, Source]) -> set[str]:
    found: set[str] = set()
    for module, source in sources.items():
        name = module.removeprefix("vyre_driver.")
        found |= {f"{name}: {one}" for one in (*of_modules(source.tree), *of_functions(source.tree))}
        if any(name == long or name.startswith(f"{long}.") for long in LONG_LIVED):
            found |= {f"{name}: {one}" for one in of_classes(source.tree)}
    return found


def bounds() -> dict[str, str]:
    rows = [line.partition(" | ") for line in TABLE.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return {what.strip(): bound.strip() for what, _, bound in rows}


def test_everything_that_grows_has_a_bound(sources: dict[str, Source]) -> None:
    found, table = containers(sources), bounds()
    assert "\n".join(sorted(found - set(table))) == "", "no row in caches.txt: bound it, and say how"
    assert sorted(set(table) - found) == [], "rows of caches.txt that nothing is behind"
    assert [what for what, bound in table.items() if not re.search(r"\w{3}", bound)] == []
    assert list(table) == sorted(table)
