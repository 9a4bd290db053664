"""Where the source of a kernel comes from: files of every form, the prompt, ``exec``, archives, and files that have changed."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import inspect
import linecache
import os
import pickle
import pty
import py_compile
import select
import subprocess
import sys
import traceback
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vyre_driver.errors import KernelNameError, KernelSourceError, KernelSyntaxError, KernelTypeError
from vyre_driver.lang import Kernel, fuse, kernel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

    from conftest import RunChild

    Load = Callable[..., ModuleType]

HEAD = "from vyre_driver.lang import *\n"
BODY = "def k(i: Index, x: InOut[f32]):\n    x[i] = x[i] + 1.0\n"
HAS_PROMPT_LINES = sys.version_info >= (3, 13)  # which keeps what is typed, and what -c is given


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Import a text, or bytes, as a module of this name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def loaded(text: str | bytes, name: str = "kernels_of_a_test") -> Any:  # noqa: ANN401 -- a module
        (tmp_path / f"{name}.py").write_bytes(text if isinstance(text, bytes) else text.encode())
        monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    return loaded


def _wrong(problem: str) -> pytest.RaisesExc[KernelSyntaxError]:
    return pytest.raises(KernelSyntaxError, match=problem)


EXPECTED = kernel.from_source("@kernel\n" + BODY).program()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(HEAD + "@kernel\n" + BODY.replace("    ", "\t"), id="tabs"),
        pytest.param((HEAD + "@kernel\n" + BODY).replace("\n", "\r\n"), id="CRLF"),
        pytest.param(b"\xef\xbb\xbf" + (HEAD + "@kernel\n" + BODY).encode(), id="a byte order mark"),
        pytest.param(("# coding: latin-1\n" + HEAD + "@kernel\n" + BODY + "# ü\n").encode("latin-1"), id="another encoding"),
        pytest.param(HEAD + "\f\n@kernel\n" + BODY, id="a form feed"),
        pytest.param(HEAD + "@kernel\n" + BODY.rstrip(), id="no end of line"),
        pytest.param(
            HEAD + "@kernel(\n    floats='device',\n    bounds=\n'checked',\n)\n" + BODY, id="a decorator of five lines"
        ),
        pytest.param(HEAD + "@(\n  # which\n  kernel\n)\n" + BODY, id="a decorator below its @"),
        pytest.param(HEAD + "\f@kernel\n" + BODY, id="a form feed before the decorator"),
        pytest.param(HEAD + "@\\\nkernel\n" + BODY, id="a decorator on the line after its @"),
        pytest.param(HEAD + "@kernel\n" + BODY.replace("(i: Index, ", "(\n  i: Index,  # )\n  "), id="parameters of two lines"),
        pytest.param(HEAD + "@kernel\n" + BODY.replace("= ", "= \\\n"), id="a continued line"),
        pytest.param("from __future__ import annotations\n" + HEAD + "@kernel\n" + BODY, id="annotations as text"),
        pytest.param(
            "import vyre_driver.lang as L\n" + HEAD + "@kernel\n" + BODY.replace("1.0", "L.f32(1.0)"),
            id="a function of a module",
        ),
        pytest.param(HEAD + "same = lambda f: f\n@same\n@kernel\n" + BODY, id="a decorator outside"),
        pytest.param(HEAD + BODY + "k.__name__ = 'other'\nk = kernel(k)\n", id="another name"),
        pytest.param(HEAD + "if HEAD:\n  @kernel\n  " + BODY.replace("\n    ", "\n    # c\n    ") + "# end\n", id="indented"),
        pytest.param(
            HEAD + "@kernel\n" + BODY + "first = k\n@kernel\n" + BODY.replace("+", "-") + "k = first\n", id="defined twice"
        ),
        pytest.param(HEAD + "f, g = lambda v: v * 2.0, lambda v: v + 1.0\n@kernel\n" + BODY.replace("1.0", "g(0.0)")),
        pytest.param(
            HEAD + "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def inner(v): return f(v)\n    return inner\n"
            "@twice\ndef h(v): return v + 1.0\n@kernel\n" + BODY.replace("1.0", "h(0.0)"),
            id="a wrapped function",
        ),
    ],
)
def test_files_of_many_forms_give_one_program(load: Load, text: str | bytes) -> None:
    text = text.replace("if HEAD:", "if True:") if isinstance(text, str) else text
    assert load(text).k.program() == EXPECTED


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("\tx[i]\t= x[i] + missing", ["    x[i]\t= x[i] + missing", "        \t         ^^^^^^^"]),
        (
            "\t变量 = 1.0; x[i] = 变量 + missing",
            ["    变量 = 1.0; x[i] = 变量 + missing", "                              ^^^^^^^"],
        ),
        ("\te\u0301 = 1.0; x[i] = e\u0301 + missing", None),
        ("\tx[i] = x[i] + \\\n  missing", ["    missing", "    ^^^^^^^"]),
    ],
    ids=["tabs", "wide", "combining", "continued"],
)
def test_carets_stand_below_what_is_shown(load: Load, line: str, shown: list[str] | None) -> None:
    made = load(HEAD + f"@kernel\ndef k(i: Index, x: InOut[f32]):\n{line}\n").k
    with pytest.raises(KernelNameError) as found:
        made.program()
    lines = str(found.value).splitlines()[2:4]
    if shown is not None:
        assert lines == shown
    else:
        assert lines[1].index("^") == lines[0].index("missing") - 2  # the two accents take no column


def test_functions_of_classes_and_of_functions(load: Load) -> None:
    module = load(
        HEAD
        + "class A:\n  class B:\n    @staticmethod\n    @kernel\n"
        + "".join(f"    {line}\n" for line in BODY.splitlines())
        + "def made(n):\n  @kernel\n  def inner(i: Index, x: InOut[f32]):\n    x[i] = x[i] + n\n  return inner\n"
        + "one, other, same = made(1.0), made(2.0), made(1.0)\n"
    )
    assert module.A.B.k.program() == EXPECTED
    assert module.one.program() == module.same.program() == EXPECTED
    assert module.other.program() != EXPECTED


@pytest.mark.parametrize(
    ("text", "problem", "fix"),
    [
        (
            "class A:\n  @staticmethod\n  @kernel\n  def k(i: Index, x: InOut[f32]):\n    __v = 1.0\n    x[i] = __v\nk = A.k\n",
            "'__v' stands in a class, where Python makes another name of it",
            "call it '_v'",
        ),
        (
            "class A:\n  @kernel\n  @staticmethod\n  def k(i: Index, x: InOut[f32]): pass\n",
            "a kernel is made of a Python function, and this is of type staticmethod",
            "put @kernel next to the def, under other decorators",
        ),
        (
            "import functools\n@kernel\n@lambda f: functools.wraps(f)(lambda *all: f(*all))\n" + BODY,
            "'k' takes *args or **kwargs, and a kernel has a fixed number of parameters",
            "put @kernel next to the def, under other decorators",
        ),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  from a import Missing\n@kernel\n"
            + BODY.replace("InOut[f32]", "'InOut[Missing]'"),
            "'x' is annotated 'InOut[Missing]', and there is no name 'Missing' when the module runs",
            "import it outside of 'if TYPE_CHECKING', or define it before the kernel",
        ),
        *(
            (f"@kernel\ndef k(g: Group[{size}], x: InOut[f32], *, N: Const[{of}] = 0): pass\n", problem, fix)
            for size, of, problem, fix in (
                ("64.0", "int", "a size of 'g' is 64.0", "give whole numbers of 1 or more, or names of constants"),
                ("8, -3", "int", "a size of 'g' is -3", "give whole numbers of 1 or more, or names of constants"),
                ("()", "int", "'g' is a Group without a size", "write g: Group[256], or Group[16, 16]"),
                ("'M'", "int", "the size of 'g' is 'M', and 'k' has no constant of this name that is an int", "take one: N"),
                (
                    "'N'",
                    "float",
                    "the size of 'g' is 'N', and 'k' has no constant of this name that is an int",
                    "add a keyword: *, BLOCK: Const[int] = 64",
                ),
                ("'N'", "int", "N is 0, and the size of 'g'", "give N 1 or more"),
                ("8", "f32", "the keyword 'N' is annotated Const[f32]", "use Const[int], Const[float] or Const[bool]"),
            )
        ),
        ("@kernel(over=3)\n" + BODY, "over of 'k' is 3", "give names as a text: 'x', or 'm, n'"),
    ],
)
def test_definitions_that_are_none_are_told(load: Load, text: str, problem: str, fix: str) -> None:
    with pytest.raises((KernelTypeError, KernelSyntaxError)) as found:
        load(HEAD + text).k.program()
    assert (found.value.problem, found.value.fix) == (problem, fix)


def test_an_error_stands_in_the_lambda_that_has_it_and_not_in_another_of_the_same_text(load: Load) -> None:
    module = load(HEAD + "first = lambda a: missing(a)\nsecond = lambda a: missing(a)\n")
    for line, function in ((2, module.first), (3, module.second)):
        with pytest.raises(KernelNameError) as found:
            fuse(function)(np.ones(1, np.float32))
        assert found.value.frames[-1][2] == line  # type: ignore[attr-defined] # a KernelNameError


def test_a_file_that_has_changed_is_refused_until_it_is_loaded_again(load: Load, tmp_path: Path) -> None:
    module = load(HEAD + "@kernel\n" + BODY)
    place = tmp_path / "kernels_of_a_test.py"
    place.write_text(HEAD + "@kernel\n" + BODY.replace("1.0", "2.5"))
    os.utime(place, (1, 1))
    with _wrong(r"kernels_of_a_test.py has changed since 'k' was defined in it"):
        module.k.program()
    place.write_text("# a line more\n" + HEAD + "@kernel\n" + BODY)
    os.utime(place, (2, 2))
    assert importlib.reload(module).k.program() == EXPECTED


@pytest.mark.parametrize("start", ["text = '''\n", "text = (\n"], ids=["a string", "a bracket"])
def test_a_file_that_has_changed_to_something_without_an_end_is_refused(load: Load, tmp_path: Path, start: str) -> None:
    module = load(HEAD + "@kernel\n" + BODY)
    (tmp_path / "kernels_of_a_test.py").write_text(HEAD + start + "@kernel\n" + BODY)
    with _wrong(r"kernels_of_a_test.py has changed since 'k' was defined in it"):
        module.k.program()


def test_a_kernel_that_was_translated_stays_when_its_file_changes(load: Load, tmp_path: Path) -> None:
    module = load(HEAD + "N = 1.0\n@kernel\n" + BODY.replace("1.0", "N"))
    assert module.k.program() == EXPECTED
    (tmp_path / "kernels_of_a_test.py").write_text("changed")
    linecache.checkcache()
    module.N = 2.0
    assert module.k.program() == kernel.from_source(BODY.replace("1.0", "2.0")).program()


def test_equal_code_with_other_annotations_is_another_kernel(load: Load) -> None:
    body = "@kernel\ndef k(i: Index, x: InOut[f32]):\n    v: f32 = 7\n    x[i] = v / 2\n"
    one, other = load(HEAD + body, "one_of_two").k, load(HEAD + body.replace("v: f32", "v: i32"), "other_of_two").k
    assert one.function.__code__ == other.function.__code__
    assert one.program() != other.program()


def test_a_module_of_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feeds = "# \x0c and \x1c\ntext = '\u2028'\n"  # at which Python ends no line
    with zipfile.ZipFile(tmp_path / "kernels.zip", "w") as archive:
        archive.writestr("zipped_kernels.py", HEAD + "@kernel\n" + BODY)
        archive.writestr("fed_kernels.py", HEAD + feeds + "@kernel\n" + BODY)
    monkeypatch.syspath_prepend(str(tmp_path / "kernels.zip"))
    for name in ("zipped_kernels", "fed_kernels"):
        assert importlib.import_module(name).k.program() == EXPECTED


def test_a_module_without_its_source_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "compiled_kernels.py"
    source.write_text(HEAD + "@kernel\n" + BODY)
    py_compile.compile(str(source), str(tmp_path / "compiled_kernels.pyc"))
    source.unlink()
    monkeypatch.syspath_prepend(str(tmp_path))
    made = importlib.import_module("compiled_kernels").k
    with _wrong(f"the source of 'k' cannot be had: {source} has no such line, or is not there") as found:
        made.program()
    assert found.value.fix == "put the module's source there, or use kernel.from_source(text)"
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with _wrong(f"the source of 'k' cannot be had: this program is frozen, and {source} is not in its bundle") as found:
        made.program()
    assert found.value.fix == (
        "have the bundle hold the module's source (of PyInstaller: module_collection_mode='pyz+py'), or use "
        "kernel.from_source(text)"
    )


def test_exec_has_no_source_and_from_source_has() -> None:
    names: dict[str, Any] = {}
    exec(HEAD + "@kernel\n" + BODY, names)  # noqa: S102 -- what is tested
    with _wrong("the source of 'k' cannot be had: it was defined by exec or at the prompt") as found:
        names["k"].program()
    assert found.value.fix == "put it into a file or a notebook, or use kernel.from_source(text)"
    made = kernel.from_source("    @kernel(floats='exact')\n" + "".join(f"    {line}\n" for line in BODY.splitlines()))
    assert (made.program(), made.definition.floats) == (EXPECTED, "exact")


def test_from_source_takes_the_kernel_and_names() -> None:
    text = "@kernel\n" + BODY.replace("1.0", "h(N)") + "def h(v):\n    return v + 0.5\n"
    made = kernel.from_source(text, {"N": 0.5})
    assert isinstance(made, Kernel)
    assert made.definition.name == "k"
    assert made.program() == EXPECTED
    assert kernel.from_source(BODY + BODY.replace("def k", "def other").replace("+", "-"), name="k").program() == EXPECTED
    with _wrong("the source is no Python"):
        kernel.from_source("def k(:")
    with _wrong("the source defines no function"):
        kernel.from_source("k = 3")
    with _wrong("the source defines no function 'other'"):
        kernel.from_source(BODY, name="other")


def test_what_was_typed_is_found_where_inspect_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As from Python 3.13.1 on, where what was typed is in no file of linecache's."""
    names: dict[str, Any] = {}
    exec(compile(HEAD + "@kernel\n" + BODY, "<python-input-3>", "exec"), names)  # noqa: S102 -- as the prompt does
    monkeypatch.setattr(inspect, "findsource", lambda _: ((HEAD + "@kernel\n" + BODY).splitlines(keepends=True), 1))
    assert names["k"].program() == EXPECTED
    exec(compile(HEAD + "@kernel\n" + BODY.replace("1.0", "2.0"), "<string>", "exec"), names)  # noqa: S102 -- another one
    with _wrong("the source of 'k' cannot be had: it was defined by exec or at the prompt"):
        names["k"].program()


@pytest.mark.device
def test_the_command_line_of_python(run_python: RunChild) -> None:
    text = HEAD + "import numpy\n@kernel\n" + BODY + "print(k(numpy.ones(2, numpy.float32)))\n"
    done = run_python("-c", text)
    if HAS_PROMPT_LINES:
        assert done.stdout == "[2. 2.]\n"
    else:
        assert "KernelSyntaxError: the source of 'k' cannot be had: it was defined by exec or at the prompt" in done.stderr


@pytest.mark.device
def test_the_prompt() -> None:
    lines = [
        *HEAD.splitlines(),
        "import numpy",
        "@kernel",
        *BODY.splitlines(),
        "",
        "k(numpy.ones(2, numpy.float32)) * 21",
        "exit()",
    ]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHON_BASIC_REPL": "1", "TERM": "dumb"}
    with subprocess.Popen([sys.executable, "-i", "-q"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as child:
        os.close(theirs)
        os.write(ours, "".join(f"{line}\n" for line in lines).encode())
        said = b""
        while select.select([ours], [], [], 60)[0]:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            said += part
        child.wait(60)
    os.close(ours)
    expected = (
        "array([42., 42.], dtype=float32)"
        if HAS_PROMPT_LINES
        else "the source of 'k' cannot be had: it was defined by exec or at the prompt"
    )
    assert expected in said.decode().replace("\r\n", "\n")


def _texts() -> list[str]:
    gc.collect()
    return [name for name in linecache.cache if name.startswith("<kernel source")]


def test_the_text_of_a_kernel_goes_with_the_last_that_has_it() -> None:
    before = _texts()
    text = "def inner(x):\n    return x + {}\n\ndef outer(i: Index, out: Out[i32]):\n    out[i] = inner(i)\n"
    for number in range(20):
        kernel.from_source(text.format(number)).program()
    assert _texts() == before
    first, second = (kernel.from_source(text.format(20)) for _ in range(2))
    assert first.python(np.zeros(2, np.int32)).tolist() == [20, 21]
    del first
    assert len(_texts()) == len(before) + 1
    assert second.program().entry == pickle.loads(pickle.dumps(second)).program().entry  # noqa: S301 -- our own
    inner = second.function.__globals__["inner"]
    del second
    assert len(_texts()) == len(before) + 1
    assert inspect.getsource(inner).startswith("def inner(x):")
    del inner
    assert _texts() == before


def test_the_text_of_a_kernel_is_there_for_its_traceback() -> None:
    failing = kernel.from_source("def failing(i: Index, out: Out[i32]):\n    print(i, sep=3)\n    out[i] = i\n")
    with pytest.raises(TypeError) as raised:
        failing.python(np.zeros(1, np.int32))
    del failing
    gc.collect()
    assert "print(i, sep=3)" in "".join(traceback.format_exception(raised.value))


def test_a_source_that_is_no_text_or_no_python_says_so() -> None:
    found = []
    for text in (None, "def k(i):\n    y[i] = = 1\n", "x = y" + " + y" * 100_000):
        with pytest.raises(KernelSourceError) as caught:
            kernel.from_source(text)  # type: ignore[arg-type] # that is the test
        found.append(str(caught.value).split(": ")[0].split(". Fix")[0] + " / " + str(caught.value).split("Fix: ")[1])
    assert found == [
        "the source is of type NoneType / give the text of a function.",
        "the source is no Python / correct line 2.",
        "an expression of the source is nested too deeply for Python / give parts of it names.",
    ]
