"""The source of a function: found, parsed, and held against the code that Python runs.

A file may have changed since it was imported. So what was found is compiled again, and taken only if that gives the function's
own code: another kernel than the one that was defined is never translated. Source that lies in no file is kept where Python
looks for lines, so that functions made of it are found and shown.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import copy
import dis
import functools
import hashlib
import inspect
import io
import linecache
import re
import sys
import threading
import tokenize
import types
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vyre_driver.errors import KernelSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Function = Callable[..., Any]

_lock = threading.RLock()  # which a collection may want on the thread that has it
_alive: dict[str, dict[int, weakref.ref[types.CodeType]]] = {}


def remember(filename: str, text: str, made: types.CodeType) -> None:
    """Keep the lines of a text under a name that no file has, as long as any code is alive that was made of it.

    That is code within ``made``: of a function that somebody has, or of a frame in a traceback.
    """
    with _lock:
        kept = _alive.get(filename, {})
        for one in _codes(made):
            kept[id(one)] = weakref.ref(one, functools.partial(_forget_text, filename, id(one)))
        # Last, for a collection on this thread may have forgotten the text just before.
        _alive[filename] = kept
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)


def _codes(made: types.CodeType) -> Iterator[types.CodeType]:
    yield made
    for one in made.co_consts:
        if isinstance(one, types.CodeType):
            yield from _codes(one)


def _forget_text(filename: str, key: int, gone: weakref.ref[types.CodeType]) -> None:
    with _lock:
        kept = _alive.get(filename, {})
        if kept.get(key) is gone:  # not one that was made since in the same place
            del kept[key]
        if not kept and _alive.pop(filename, None) is not None:
            linecache.cache.pop(filename, None)


def filename_of(text: str) -> str:
    """Return the name that a text is kept under: the same for the same text, in each process."""
    return f"<kernel source {hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}>"


_COROUTINE = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
MAKER = "_maker"
_NULLS = re.compile(r"^NULL(\|self)? \+ | \+ NULL(\|self)?$")  # before the name up to Python 3.12, behind it since
_LAMBDA = "<lambda>"
_TYPED = {"<string>", "<stdin>"}  # of python -c and the prompt, and of what they exec
_HEAD = re.compile(r"\s*(@|def\b)")
_FEATURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names) & ~inspect.CO_NESTED


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSource:
    """A function as text: ``lines`` are those of its statement, the first of which is line ``first_line`` of ``filename``."""

    name: str
    filename: str
    first_line: int
    lines: tuple[str, ...]
    arguments: ast.arguments
    body: tuple[ast.stmt, ...]
    node: ast.FunctionDef | ast.Lambda = field(repr=False)

    @classmethod
    def of(cls, function: types.FunctionType) -> FunctionSource:
        """Find the source of a function.

        Raises
        ------
        KernelSyntaxError
            If there is none, it is not that of the function's code any more, or it is a coroutine.
        """
        code = function.__code__
        if code.co_flags & _COROUTINE:
            raise KernelSyntaxError(
                f"{function.__name__!r} is a coroutine, which is not part of the kernel language",
                fix="write def instead of async def",
                function=function.__name__,
            )
        nodes: list[ast.FunctionDef | ast.Lambda] = []
        for lines, first in _found(function):
            nodes = list(_definitions(lines, first, code.co_name))
            nodes.sort(key=lambda one: abs(one.lineno - code.co_firstlineno))  # lambdas of the same text differ in their lines
            node = next((one for one in nodes if _compiles_to(one, code)), None)
            if node is not None:
                break
        else:
            _check_not_mangled(nodes, code)
            if code.co_filename in _TYPED:
                raise _without_source(function)
            raise KernelSyntaxError(
                f"{code.co_filename} has changed since {function.__name__!r} was defined in it",
                fix="reload the module",
                function=function.__name__,
                filename=code.co_filename,
            )
        body = (ast.copy_location(ast.Return(node.body), node.body),) if isinstance(node, ast.Lambda) else tuple(node.body)
        return cls(code.co_name, code.co_filename, first + 1, tuple(lines), node.args, body, node)

    def line(self, number: int) -> str:
        """Return a line by its number in the file, without its end; empty where it is not the function's."""
        at = number - self.first_line
        return self.lines[at].rstrip("\r\n") if 0 <= at < len(self.lines) else ""


def _check_not_mangled(nodes: list[ast.FunctionDef | ast.Lambda], code: types.CodeType) -> None:
    """Check that no name of a function is another one in its code, as Python makes it in a class; raises KernelSyntaxError."""
    held = (*code.co_varnames, *code.co_names, *code.co_freevars, *code.co_cellvars)
    for node in (one for within in nodes for one in ast.walk(within)):
        name = node.arg if isinstance(node, ast.arg) else node.id if isinstance(node, ast.Name) else ""
        if name.startswith("__") and name not in held and any(one.endswith(name) for one in held):
            raise KernelSyntaxError(
                f"{name!r} stands in a class, where Python makes another name of it", fix=f"call it {name[1:]!r}"
            )


def _found(function: types.FunctionType) -> Iterator[tuple[list[str], int]]:
    """Give the lines that a function's statement may be, and how many stand before them."""
    code = function.__code__
    first = code.co_firstlineno - 1
    try:
        lines = _lines_of_file(function)
        lines[first]  # there are so many
    except (OSError, TypeError, IndexError) as error:
        raise _without_source(function) from error
    yield from _statements(lines, first, code.co_name)
    loaded = _lines_of_loader(function)
    if first < len(loaded):
        yield from _statements(loaded, first, code.co_name)


def _without_source(function: types.FunctionType) -> KernelSyntaxError:
    """Return the error of a function whose source cannot be had, with the reason."""
    name, filename = function.__name__, function.__code__.co_filename
    if filename.startswith("<"):
        problem, fix = "it was defined by exec or at the prompt", "put it into a file or a notebook"
    elif getattr(sys, "frozen", False):
        problem = f"this program is frozen, and {filename} is not in its bundle"
        fix = "have the bundle hold the module's source (of PyInstaller: module_collection_mode='pyz+py')"
    else:
        problem, fix = f"{filename} has no such line, or is not there", "put the module's source there"
    return KernelSyntaxError(
        f"the source of {name!r} cannot be had: {problem}",
        fix=f"{fix}, or use kernel.from_source(text)",
        function=name,
        filename=filename,
    )


def _statements(lines: list[str], first: int, name: str) -> Iterator[tuple[list[str], int]]:
    """Give the lines that a function's statement may be, which Python counts from ``first`` on; for a lambda all of them."""
    if name == _LAMBDA:
        yield lines, 0
        return
    # What is decorated begins for Python where the decorator does, which may stand below its @.
    head = next((at for at in range(first, -1, -1) if _HEAD.match(lines[at])), first)
    for at in dict.fromkeys((first, head)):
        yield _indented(lines, at), at
        with contextlib.suppress(SyntaxError, tokenize.TokenError, SystemError):  # of what is there by now, zero bytes too
            # Slower: it sees the brackets and strings that go on outside of the block.
            yield inspect.getblock(lines[at:]), at


def _lines_of_loader(function: types.FunctionType) -> list[str]:
    """Return the lines of a module as its loader has it, of an archive for one; none where it has no text.

    linecache splits such a text at form feeds and their like too, and then counts other lines than Python.
    """
    module = function.__globals__
    ask = getattr(module.get("__loader__"), "get_source", None)
    try:
        text = None if ask is None else ask(module.get("__name__"))
    except (ImportError, OSError, SyntaxError, UnicodeDecodeError):
        return []
    return io.StringIO(text or "", newline=None).readlines()


def _lines_of_file(function: types.FunctionType) -> list[str]:
    """Return the lines of a function's file, or of its cell; raises OSError if there are none.

    As ``inspect.findsource``, which up to Python 3.12 takes 0.4 ms in a fresh process for a search that a function's code does
    not need: it has the number of its first line.
    """
    filename = inspect.getsourcefile(function)
    if filename is not None:
        linecache.checkcache(filename)
    else:
        filename = inspect.getfile(function)
        if not filename.startswith("<"):  # those of doctest, for one, are in nothing but its own linecache.getlines
            raise OSError(f"{filename} is not there")
    # What was typed, or given to python -c, is kept apart from files since Python 3.13, and inspect knows where.
    return linecache.getlines(filename, function.__globals__) or inspect.findsource(function)[0]


def _indented(lines: list[str], first: int) -> list[str]:
    """Return a statement's lines up to the last one that stands further in than its first."""
    outside = _indent(lines[first])
    end = next((at for at in range(first, len(lines)) if lines[at].lstrip().startswith("def ")), first) + 1
    for at in range(end, len(lines)):
        text = lines[at].strip()
        if text and not text.startswith("#"):
            if _indent(lines[at]) <= outside:
                break
            end = at + 1
    return lines[first:end]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _definitions(lines: list[str], first: int, name: str) -> Iterator[ast.FunctionDef | ast.Lambda]:
    """Give the function of this name that a statement defines, or all lambdas of a file, with their places in it."""
    is_indented = name != _LAMBDA and lines[0][:1] in {" ", "\t"}  # of a lambda they are all lines of the file
    before = "\n" * (first - 1) + "if True:\n" if is_indented else "\n" * first
    try:
        tree = ast.parse(before + "".join(lines))
    except SyntaxError:
        return  # the end of the statement is elsewhere by now
    if name == _LAMBDA:
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.Lambda))
        return
    within = tree.body[0] if is_indented else tree
    assert isinstance(within, (ast.If, ast.Module))  # noqa: S101 -- it was written so
    yield from (node for node in within.body[:1] if isinstance(node, ast.FunctionDef) and node.name == name)


def _compiles_to(node: ast.FunctionDef | ast.Lambda, code: types.CodeType) -> bool:
    """Whether a definition gives this code, which it stands in the place of."""
    if any(name.startswith("@py") for name in (*code.co_names, *code.co_varnames)):
        return True  # asserts that a test runner has rewritten
    try:
        text = _alone(node, code.co_freevars)
        outer = compile(text, code.co_filename, "exec", code.co_flags & _FEATURES, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return any(_same(one, code) for one in _codes_within(outer))


def _alone(node: ast.FunctionDef | ast.Lambda, free: tuple[str, ...]) -> ast.Module:
    """Return a module that defines the function alone, in a function whose variables are those that it takes from outside."""
    if isinstance(node, ast.Lambda):
        inner: ast.stmt = ast.copy_location(ast.Expr(node), node)
    else:
        inner = copy.copy(node)
        inner.decorator_list = []
    own = getattr(node, "name", "")
    head = f"global {own}" if own and own not in free else "pass"
    outer = ast.parse(f"def outer():\n {head}\n {' = '.join([*free, 'None'])}\n").body[0]
    assert isinstance(outer, ast.FunctionDef)  # noqa: S101 -- it was written so
    outer.body.append(inner)
    return ast.Module([outer], [])


def maker_of(text: str, name: str, free: tuple[str, ...]) -> ast.Module:
    """Return a module with one function, which takes what a function takes from the functions around it, and returns that.

    The function is the one of this name that a text defines, with the same code, but no decorators, annotations
    or defaults.
    """
    found = next(
        one
        for one in ast.walk(ast.parse(text))
        if (isinstance(one, ast.FunctionDef) and one.name == name) or (isinstance(one, ast.Lambda) and name == _LAMBDA)
    )
    arguments = found.args
    for one in (*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg):
        if one is not None:
            one.annotation = None
    arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
    module = ast.parse(f"def {MAKER}({', '.join(free)}):\n return None\n")
    maker = module.body[0]
    assert isinstance(maker, ast.FunctionDef)  # noqa: S101 -- it was written so
    result = maker.body[0]
    assert isinstance(result, ast.Return)  # noqa: S101 -- the same
    if isinstance(found, ast.Lambda):
        result.value = found
    else:
        found.decorator_list, found.returns = [], None
        result.value = ast.Name(name, ast.Load())
        maker.body.insert(0, found)
    return ast.fix_missing_locations(module)


def _codes_within(module: types.CodeType) -> Iterator[types.CodeType]:
    """Give the codes of what the function of a module defines itself: not those of functions inside of that."""
    for outer in _inner(module):
        for one in _inner(outer):
            yield one
            if one.co_name.startswith("<generic parameters"):  # def name[T](...), from Python 3.12 on
                yield from _inner(one)


def _inner(code: types.CodeType) -> Iterator[types.CodeType]:
    return (one for one in code.co_consts if isinstance(one, types.CodeType))


def _same(one: types.CodeType, other: types.CodeType) -> bool:
    """Whether two codes do the same, wherever they stand."""
    facts = (one.co_name, one.co_names, one.co_varnames, one.co_freevars, one.co_cellvars, len(one.co_consts))
    if facts != (other.co_name, other.co_names, other.co_varnames, other.co_freevars, other.co_cellvars, len(other.co_consts)):
        return False
    if one.co_code != other.co_code and list(_instructions(one)) != list(_instructions(other)):
        return False
    return all(
        _same(a, b) if isinstance(a, types.CodeType) and isinstance(b, types.CodeType) else repr(a) == repr(b) or a == b
        for a, b in zip(one.co_consts, other.co_consts, strict=True)
    )


def _instructions(code: types.CodeType) -> Iterator[tuple[str, object]]:
    """Give the instructions of a code, as they are for names that a module imports and for others."""
    found = list(dis.get_instructions(code))
    places: dict[int, int] = {}  # of instructions, by their offsets: caches and calls take more room for some names
    kept: list[dis.Instruction] = []
    for one in found:
        places[one.offset] = len(kept)
        if one.opname != "PUSH_NULL":
            kept.append(one)
    for one in kept:
        is_jump = one.opcode in dis.hasjrel or one.opcode in dis.hasjabs
        value = "" if isinstance(one.argval, types.CodeType) else _NULLS.sub("", one.argrepr)
        yield one.opname.replace("LOAD_METHOD", "LOAD_ATTR"), places.get(one.argval) if is_jump else value
