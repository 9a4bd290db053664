"""What is made of docstrings and signatures before Sphinx reads them."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

from reference import MADE_BY_OTHERS
from sphinx.util.inspect import stringify_signature

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# What a docstring names in the checkout becomes a link to its page, and what it names of the package without a page is code.
_DOCUMENT = re.compile(r"docs/([a-z0-9-]+)\.md")
_ROLE = re.compile(r":(mod|data|func|class|meth|attr|exc|obj):`([^`]*)`")
_ALIAS = re.compile(r"Alias for field number \d+")
_PREFIX = re.compile(r"(?<![`\w])([A-Z]\w*_)(?![`\w])")  # to reStructuredText a word with _ at its end is a link
_SENTENCES: dict[str, list[str]] = {}
SPECIAL = {"__call__", "__getitem__", "__setitem__", "__array__", "__dlpack__", "__await__", "__len__"}


def connect(app: Sphinx) -> None:
    """Add the hooks."""
    app.connect("autodoc-process-docstring", _docstring, priority=400)  # before napoleon reads the sections
    app.connect("autodoc-process-docstring", _unread, priority=600)  # after it
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-skip-member", _skip)


def _docstring(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:  # noqa: ARG001, PLR0913 -- Sphinx's
    is_object = callable(obj) and not inspect.isroutine(obj) and not isinstance(obj, type)
    text = inspect.getdoc(type(obj).__call__) or "" if what == "function" and is_object else "\n".join(lines)
    if _ALIAS.fullmatch(text.strip()):
        text = ""
    text = _ROLE.sub(lambda found: f"``{found[2].lstrip('~!').rpartition('.')[2]}``", text)
    text = _PREFIX.sub(r"``\1``", text)
    text = _DOCUMENT.sub(lambda found: f":doc:`/{found[1]}`", text)
    lines[:] = text.split("\n")
    if what in {"attribute", "data", "property"}:
        _SENTENCES[name] = list(lines)


def _unread(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:  # noqa: ARG001, PLR0913 -- Sphinx's
    """Give an attribute its sentence back: napoleon takes what stands before a colon for a type."""
    lines[:] = _SENTENCES.pop(name, lines)


def _signature(  # noqa: PLR0913 -- Sphinx's
    app: Sphinx,  # noqa: ARG001
    what: str,
    name: str,
    obj: object,
    options: object,  # noqa: ARG001
    signature: str | None,
    result: str | None,
) -> tuple[str | None, str | None] | None:
    """Leave out the constructor of what only calls make, and of errors; say what a driver is really opened with."""
    short = name.rpartition(".")[2]
    if what == "class" and (short in MADE_BY_OTHERS or (isinstance(obj, type) and getattr(obj, "_is_protocol", False))):
        return "", None
    if what == "exception":
        return "", None
    if what == "function" and inspect.ismethod(obj):
        return stringify_signature(inspect.signature(obj)), None
    if what == "class" and short == "Driver":
        given = inspect.signature(obj.__init__)  # type: ignore[misc]
        return stringify_signature(
            given.replace(parameters=list(given.parameters.values())[1:], return_annotation=given.empty)
        ), None
    return signature, result


def _skip(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:  # noqa: ARG001, FBT001, PLR0913 -- Sphinx's
    """Show the special methods that have a meaning of their own; leave out what has no sentence and is no field."""
    if name in SPECIAL:
        return not (getattr(obj, "__doc__", None) and inspect.isroutine(obj))
    return None
