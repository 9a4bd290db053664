"""What the package promises, as text that is the same on every Python: names, signatures, members, codes.

Run it to write tests/golden/text/public_api.txt anew. Which modules these are, and what the promise is: docs/compatibility.md.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import importlib
import inspect
import re
import textwrap
from pathlib import Path
from types import ModuleType, UnionType
from typing import TYPE_CHECKING

from vyre_driver.errors import VyreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

GOLDEN = Path(__file__).parents[1] / "golden" / "text" / "public_api.txt"
# Each with the public names, where it has no __all__; no names: its classes.
MODULES: dict[str, tuple[str, ...]] = {
    "vyre_driver": (),
    "vyre_driver.artifacts": (),
    "vyre_driver.autotune": (),
    "vyre_driver.backends": (),
    "vyre_driver.binding": (),
    "vyre_driver.cache": (),
    "vyre_driver.conformance.adapters": ("AcquiredBackend",),
    "vyre_driver.conformance.generate": ("generate",),
    "vyre_driver.conformance.options": ("Options",),
    "vyre_driver.conformance.strategies": ("cases",),
    "vyre_driver.conformance.suite": ("run",),
    "vyre_driver.distributed": (),
    "vyre_driver.errors": (),
    "vyre_driver.identity": (),
    "vyre_driver.ir": (),
    "vyre_driver.ir.functions": (),
    "vyre_driver.kernels": (),
    "vyre_driver.lang": (),
    "vyre_driver.specialization": (),
}
# Made by other objects of the package: how is nobody else's business.
MADE_BY_OTHERS = {
    *("Batch", "BoundKernel", "Buffer", "DispatchFuture", "Kernel", "LoadedArtifact", "Profile", "SpirvModule"),
    *("BoundSchedule", "Elementwise", "Reduction", "Scan"),
}
# Of the special methods only those that a caller means: what dataclasses and enums add differs from one Python to the next.
SPECIAL = re.compile(
    r"__(call|enter|exit|iter|next|len|[gs]etitem|contains|await|array|dlpack|dlpack_device|bool|index|int|float|neg|invert|abs"
    r"|r?(add|sub|mul|truediv|floordiv|mod|and|or|xor|lshift|rshift)|lt|le|gt|ge)__"
)


def listing() -> str:
    """Return the public API, a block a module and a line an item."""
    items = [(place, name, getattr(module, name)) for place, module in modules() for name in public_names(module)]
    listed = {value for _, _, value in items if isinstance(value, type)}
    homes: dict[int, str] = {}
    blocks = {place: [f"[{place}]"] for place in MODULES}
    for place, name, value in items:
        here = f"{place}.{name}"
        home = homes.setdefault(id(value), here) if isinstance(value, type) or inspect.isroutine(value) else here
        blocks[place] += described(name, value, listed) if home == here else [f"{name} = {home}"]
    head = "# The public API. tests/arch/public_api.py writes this, and tests/arch/test_arch_public_api.py compares it."
    return "\n\n".join([head, *("\n".join(block) for block in blocks.values())]) + "\n"


def modules() -> list[tuple[str, ModuleType]]:
    return [(place, importlib.import_module(place)) for place in MODULES]


def public_names(module: ModuleType) -> list[str]:
    given = MODULES[module.__name__] or getattr(module, "__all__", ())
    classes = (name for name, value in vars(module).items() if isinstance(value, type) and value.__module__ == module.__name__)
    return sorted(given or (name for name in classes if not name.startswith("_")))


def described(name: str, value: object, listed: Collection[type]) -> list[str]:
    if isinstance(value, ModuleType):
        return [f"{name}: module"]
    if isinstance(value, type):
        return [class_line(name, value), *(f"    {line}" for line in sorted(members(value, listed)))]
    if inspect.isroutine(value):
        return [f"{name}{signature(value)}"]
    if isinstance(value, int | str | bytes) and not name.startswith("__"):
        return [f"{name} = {shown(value)}"]
    if isinstance(value, dict):
        return [f"{name}: dict of {', '.join(sorted(value))}"]
    # Python 3.14 calls the type of int | str Union.
    return [f"{name}: {'UnionType' if isinstance(value, UnionType) else type(value).__name__}"]


def class_line(name: str, cls: type) -> str:
    bases = ", ".join(base.__name__ for base in cls.__bases__ if base is not object)
    code = f"  # {cls.code}" if issubclass(cls, VyreError) and "code" in vars(cls) else ""
    return f"class {name}({bases}){code}" if bases else f"class {name}{code}"


def members(cls: type, listed: Collection[type]) -> Iterator[str]:
    """Describe what a class adds to its bases that are listed themselves."""
    elsewhere = {base for one in cls.__mro__[1:] if one in listed for base in one.__mro__}
    own = [one for one in reversed(cls.__mro__) if one.__module__.partition(".")[0] == "vyre_driver" and one not in elsewhere]
    found: dict[str, object] = {}
    for one in own:
        found |= vars(one)
    if issubclass(cls, enum.Enum):
        hidden = set(cls.__members__)
        yield from (f"{name} = {shown(one.value)}" for name, one in cls.__members__.items())
    else:
        fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
        hidden = {"code", *(one.name for one in fields), *getattr(cls, "_fields", ())}
        yield from (f"{one.name}: {annotation(one.type)}" for one in fields if not one.init and not one.name.startswith("_"))
        if (
            {"__init__", "__new__"} & set(found)
            and not getattr(cls, "_is_protocol", False)
            and cls.__name__ not in MADE_BY_OTHERS
        ):
            yield f"__init__{signature(cls, with_result=False)}"
        hidden |= {name for name in found if name.startswith("_") and not SPECIAL.fullmatch(name)}
        yield from (f"{name}: attribute" for one in own for name in assigned(one) - set(found) - hidden)
    for name, value in found.items():
        if name not in hidden and not (name.startswith("_") and issubclass(cls, enum.Enum)):
            yield member(name, value)


def assigned(cls: type) -> set[str]:
    """Return the public names that its own constructor gives to ``self``."""
    maker = vars(cls).get("__init__")
    if not inspect.isfunction(maker) or maker.__code__.co_filename.startswith("<"):  # none, or a dataclass's
        return set()
    found = {
        node.attr
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(maker))))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    return {name for name in found if not name.startswith("_")}


def member(name: str, value: object) -> str:
    match value:
        case property(fget=get) | functools.cached_property(func=get):
            return f"{name}: {annotation(get.__annotations__['return'])}"
        case classmethod() | staticmethod():
            return f"{type(value).__name__} {name}{signature(value.__func__, skips_first=isinstance(value, classmethod))}"
        case _ if inspect.isroutine(value):
            return f"{name}{signature(value, skips_first=True)}"
        case int() | str() | bytes():
            return f"{name} = {shown(value)}"
        case _:
            return f"{name}: attribute"


def signature(function: Callable[..., object], *, skips_first: bool = False, with_result: bool = True) -> str:
    """Return it with its annotations as they are written."""
    found = inspect.signature(function)
    parameters = list(found.parameters.values())[1 if skips_first else 0 :]
    parts: list[str] = []
    for place, one in enumerate(parameters):
        before, after = ({other.kind for other in some} for some in (parameters[:place], parameters[place + 1 :]))
        if one.kind is one.KEYWORD_ONLY and not {one.VAR_POSITIONAL, one.KEYWORD_ONLY} & before:
            parts.append("*")
        parts.append(parameter(one))
        if one.kind is one.POSITIONAL_ONLY and one.POSITIONAL_ONLY not in after:
            parts.append("/")
    result = f" -> {annotation(found.return_annotation)}" if with_result and found.return_annotation is not found.empty else ""
    return f"({', '.join(parts)}){result}"


def parameter(one: inspect.Parameter) -> str:
    stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    typed = "" if one.annotation is one.empty else f": {annotation(one.annotation)}"
    return f"{stars}{one.name}{typed}" + ("" if one.default is one.empty else f" = {shown(one.default)}")


def annotation(value: object) -> str:
    """Return one as it is written; what a library built at run time is an object."""
    if isinstance(value, str):
        return value
    if value is None:
        return "None"
    return str(getattr(value, "__forward_arg__", None) or (value.__name__ if isinstance(value, type) else "object"))


def shown(value: object) -> str:
    """Return a value without addresses, and without what a version of Python makes of it."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))}{',' * (len(value) == 1)})"
    if value is None or isinstance(value, bool | int | float | str | bytes) or repr(value) == "<factory>":
        return repr(value)
    return value.__name__ if isinstance(value, type) else f"<{type(value).__name__}>"


if __name__ == "__main__":
    GOLDEN.write_text(listing(), "utf-8")
