"""Functions of f32 in the reference: as exact as the documents say, and with numpy's special values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from function_errors import FUNCTIONS, columns, error, program

from vyre_driver.backends.reference import run
from vyre_driver.ir import BufferDecl, DataType, Program, atomic_add, bitcast, functions, gid_x, let, load, store
from vyre_driver.ir.extensions import EXTENSIONS
from vyre_driver.ir.functions.bodies import body_of
from vyre_driver.ir.validation.validate import validate

F32, U32 = DataType.F32, DataType.U32
COUNT = 1 << 14


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_errs_by_no_more_than_the_documents_say(name: str) -> None:
    for given in columns(name, COUNT):
        (found,) = run(program(name, len(given[0]), len(given)), given)
        worst, where = error(name, given, found)
        assert worst <= FUNCTIONS[name].most, (worst, where)


def test_every_function_is_measured_and_documented() -> None:
    assert set(FUNCTIONS) == set(functions.__all__)
    document = (Path(__file__).parents[2] / "docs" / "ir.md").read_text("utf-8")
    rows = [line.split(" | ") for line in document.splitlines() if line.startswith("| `") and len(line.split(" | ")) == 3]
    told = {row[0].split("(")[0].removeprefix("| `"): row[1] for row in rows}
    exact = {name: "exact" if one.most == 0 else str(one.most) for name, one in FUNCTIONS.items()}
    assert {name: told.get(name) for name in exact} == exact


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if body_of(name) is not None])
def test_a_body_is_an_expression_that_the_validator_takes(name: str) -> None:
    body = body_of(name)
    assert body is not None
    buffers = [BufferDecl.read(one.name, place, F32) for place, one in enumerate(body.parameters)]
    out = BufferDecl.output("out", len(buffers), F32).with_count(4)
    lets = [let(one, load(buffer, gid_x())) for one, buffer in zip(body.parameters, buffers, strict=True)]
    assert validate(Program.wrapped([*buffers, out], (4, 1, 1), [*lets, store(out, gid_x(), body.parts[-1])]))


def test_operands_are_evaluated_once_and_functions_stand_in_each_other() -> None:
    cells = BufferDecl.read_write("cells", 0, U32).with_count(1)
    out = BufferDecl.output("out", 1, F32).with_count(4)
    one = bitcast(F32, atomic_add(cells, 0, 1 << 23))
    nested = functions.hypot(functions.hypot(one, 0.0), functions.copysign(functions.cbrt(8.0), -1.0))
    made = Program.wrapped([cells, out], (4, 1, 1), [store(out, gid_x(), nested)])
    begin = np.array([0x3F80_0000], np.uint32)  # 1.0, which each invocation doubles
    found = run(made, [begin])
    assert found[0].tolist() == [0x3F80_0000 + (4 << 23)]
    assert found[1].tolist() == np.hypot(np.array([1, 2, 4, 8], np.float32), np.float32(2)).tolist()


def test_a_function_is_shown_by_its_name() -> None:
    out = BufferDecl.output("out", 0, F32).with_count(4)
    made = Program.wrapped([out], (4, 1, 1), [store(out, gid_x(), functions.power(2.0, functions.erf(0.5)))])
    assert str(made).endswith("out[gid.x] = power(2.0, erf(0.5))")
    assert Program.from_wire(made.to_wire()) == made
    assert EXTENSIONS["power"].operands == ((F32,), (F32,))
