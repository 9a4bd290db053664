"""The text of a kernel that calls a function for each element of broadcast arrays."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Steps: TypeAlias = "tuple[int, ...] | bool | None"


class Form(NamedTuple):
    """What a kernel's text depends on.

    ``operands`` has for each parameter of the function None for a number, ``()`` for an array that has an element for each
    of the result, else what a step along each joined axis is: 0, 1, or -1 for a number that is pushed. ``where`` is the same of
    the condition, and False where there is none. ``keeps`` says for each output whether it keeps what is not written.
    """

    name: str
    parameters: tuple[str, ...]
    operands: tuple[Steps, ...]
    where: Steps
    outputs: tuple[str, ...]
    keeps: tuple[bool, ...]
    is_tuple: bool
    constants: tuple[str, ...]


class Text(NamedTuple):
    """A kernel's text, and the names in it: of the function, its types and those of the outputs, and default values."""

    text: str
    function: str
    types: tuple[str, ...]
    results: tuple[str, ...]
    constants: tuple[tuple[str, str], ...]


def text_of(form: Form, defaults: tuple[bool, ...]) -> Text:
    """Return the text of a kernel; ``defaults`` says which constants have one."""
    names = _Names({*form.parameters, *form.outputs, *form.constants, form.name})
    index, function, where = (names.fresh(word) for word in ("i", "function", "where"))
    types = tuple(names.fresh(f"type_of_{name}") for name in form.parameters)
    results = tuple(names.fresh(f"type_of_{name}") for name in form.outputs)
    constants = tuple((names.fresh(f"type_of_{name}"), names.fresh(f"default_of_{name}")) for name in form.constants)
    masks = [one for one in (*form.operands, form.where) if isinstance(one, tuple) and any(one)]
    places = _Places(names, index, len(masks[0]) if masks else 1)
    given = [places.element(name, steps) for name, steps in zip(form.parameters, form.operands, strict=True)]
    test = places.element(where, form.where)
    body = _called(form, names, f"{function}({', '.join([*given, *(f'{name}={name}' for name in form.constants)])})", index)
    if form.where is not False:
        body = _under(
            form, test, body, [f"{name}[{index}] = {kind}(0)" for name, kind in zip(form.outputs, results, strict=True)]
        )
    parameters = [f"{index}: Index"]
    for name, kind, steps in zip(form.parameters, types, form.operands, strict=True):
        parameters.append(f"{name}: {kind}" if steps is None else f"{name}: In[{kind}, 1]")
    if form.where is not False:
        parameters.append(f"{where}: {'bool_' if form.where is None else 'In[bool_, 1]'}")
    for name, kind, keeps in zip(form.outputs, results, form.keeps, strict=True):
        parameters.append(f"{name}: {'InOut' if keeps else 'Out'}[{kind}, 1]")
    parameters += [f"{name}: u32" for name in places.pushed]
    said = zip(form.constants, constants, defaults, strict=True)
    keywords = [f"{name}: {kind}" + f" = {start}" * has for name, (kind, start), has in said]
    head = f"def {form.name}({', '.join([*parameters, *['*'] * bool(keywords), *keywords])}):"
    return Text("\n    ".join([head, *places.lines, *body]) + "\n", function, types, results, constants)


def _called(form: Form, names: _Names, call: str, index: str) -> list[str]:
    """Return the statements that call the function and store what it returns."""
    values = [names.fresh(f"value_of_{name}") for name in form.outputs] if form.is_tuple else [names.fresh("value")]
    stores = [f"{name}[{index}] = {one}" for name, one in zip(form.outputs, values, strict=True)]
    return [f"{', '.join(values)}{',' * form.is_tuple} = {call}", *stores]


def _under(form: Form, test: str, body: list[str], zeros: list[str]) -> list[str]:
    """Return statements under a condition; where it does not hold, outputs that keep nothing are zero."""
    made = [f"    {line}" for line, keeps in zip(zeros, form.keeps, strict=True) if not keeps]
    return [f"if {test}:", *(f"    {line}" for line in body), *["else:"] * bool(made), *made]


class _Places:
    """How elements are found: ``lines`` part the index into one along each joined axis, ``pushed`` names numbers of a call."""

    def __init__(self, names: _Names, index: str, axes: int) -> None:
        """Part an index."""
        self._names, self._index = names, index
        self.pushed = [names.fresh(f"size_{axis}") for axis in range(1, axes)]
        self.lines: list[str] = []
        rest = f"u32({index})"
        parts = []
        for axis in range(axes - 1, 0, -1):
            size, part, left = self.pushed[axis - 1], names.fresh(f"at_{axis}"), names.fresh(f"rest_{axis}")
            self.lines += [f"{part} = {rest} % {size}", f"{left} = {rest} // {size}"]
            parts.append(part)
            rest = left
        self._parts = [rest, *reversed(parts)]

    def element(self, name: str, steps: Steps) -> str:
        """Return an array's element, or a number itself."""
        if not isinstance(steps, tuple):
            return name
        if not steps:
            return f"{name}[{self._index}]"
        terms = []
        for part, step in zip(self._parts, steps, strict=False):  # one element alone has a step along one axis: 0
            if step < 0:
                self.pushed.append(self._names.fresh(f"step_of_{name}"))
                terms.append(f"{part} * {self.pushed[-1]}")
            elif step:
                terms.append(part)
        return f"{name}[{' + '.join(terms) or '0'}]"


class _Names:
    """Names that nothing else in a text has."""

    def __init__(self, taken: set[str]) -> None:
        """Begin with those that are taken."""
        self._taken = taken

    def fresh(self, word: str) -> str:
        """Return a name: the word, with as many underscores behind it as it takes."""
        while word in self._taken:
            word += "_"
        self._taken.add(word)
        return word
