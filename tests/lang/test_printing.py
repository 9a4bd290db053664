"""Programs as Python: what the text says, and what it refuses."""

from __future__ import annotations

import pytest
from both_ways import function_of
from kernel_texts import NAMES
from printed_programs import again, translated
from printing.source import as_source
from refusals import refusal

from vyre_driver.errors import UnsupportedFeature
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Binary, LitU32
from vyre_driver.ir.nodes import If, Store
from vyre_driver.ir.operators import BinOp, SubgroupOp, UnOp
from vyre_driver.ir.program import Program
from vyre_driver.ir.terms import terms_within
from vyre_driver.lang.frontend.translate import translate
from vyre_driver.lang.source.parameters import Specialization, signature_of

SAXPY = """\
@kernel
def saxpy(i: Index, x: In[f32], y: InOut[f32], a: f32):
    y[i] = a * x[i] + y[i]
"""

LONGEST = """\
@kernel
def longest(i: Index, j: Index, x: In[f32, 2], o: Out[u32, 2], n: u32):
    count = u32(0)
    for k in range(n):
        if x[i, j] < 1.5:
            count = count + 1
        elif x[i, k] > 2.0:
            return
    while count % 3 != 0:
        count = count >> 1
    o[i, j] = count
"""

GROUP = """\
@kernel
def total(g: Group[64], x: In[f32], o: InOut[u32], p: Out[u32]):
    shared = g.shared(f32, 64)
    shared[g.local] = x[g.index]
    g.barrier()
    before = atomic_add(o, 0, u32(shared[63]))
    p[g.id] = before
"""


WIDE = """\
@kernel
def wide(i: Index, x: In[i64], y: In[f64], h: In[f16], o: Out[u64], p: Out[f64], q: Out[bf16], n: i64):
    own = local(i64, 4)
    own[1] = cdiv(x[i], n) + 9223372036854775807
    o[i] = rotl(u32(own[1]), i) * u64(3) >> 40
    p[i] = fma(y[i], f64(0.1), f64(x[i])) / -2.5
    q[i] = h[i] + bitcast(f32, u32(x[i]))
"""

MATRICES = """\
@kernel
def matrices(i: Index, j: Index, x: In[f32, 2], y: In[f32, 2], o: Out[f32, 2]):
    total = f32(0.0)
    for k in range(u32(x.shape[1])):
        total = total + x[i, k] * y[k, j]
    o[i, j] = total
"""


def program_of(text: str, name: str) -> Program:
    function = function_of(text, name, {**NAMES, "kernel": lambda given: given})
    return translate(function, signature_of(function), Specialization()).program


@pytest.mark.parametrize(("text", "name"), [(SAXPY, "saxpy"), (LONGEST, "longest"), (GROUP, "total"), (MATRICES, "matrices")])
def test_a_kernel_is_printed_as_it_was_written(text: str, name: str) -> None:
    assert as_source(program_of(text, name), name) == text


@pytest.mark.parametrize(("text", "name"), [(SAXPY, "saxpy"), (LONGEST, "longest"), (GROUP, "total"), (MATRICES, "matrices")])
def test_what_is_printed_gives_the_program_again(text: str, name: str) -> None:
    program = program_of(text, name)
    assert again(program).digest() == program.digest()


def test_what_has_64_bits_and_what_is_stored_in_16_is_printed() -> None:
    program = program_of(WIDE, "wide")
    text = as_source(program)
    assert "own = local(i64, 4)" in text.replace("local_1", "own")
    assert "+ 9223372036854775807\n" in text
    assert "fma(y[i], f64(0.1), f64(x[i])) / (-2.5)" in text
    assert "q[i] = h[i] + bitcast(f32, u32(x[i]))\n" in text
    assert again(program).digest() == program.digest()


def test_names_that_python_or_the_language_needs_are_changed() -> None:
    buffers = [BufferDecl.read("lambda", 0, DataType.U32), BufferDecl.read_write("min", 1, DataType.U32)]
    nodes = [ir.let("u32", ir.load(buffers[0], ir.gid_x())), ir.store(buffers[1], ir.gid_x(), ir.var("u32", DataType.U32))]
    text = as_source(Program.wrapped(buffers, (32, 1, 1), nodes))
    assert "def program(g: Group[32], _lambda: In[u32], min_1: InOut[u32]):\n    u32_1 = _lambda[g.index]\n" in text
    assert translated(text).program.buffers[1].name == "min_1"


def test_variables_of_the_same_name_in_two_scopes_are_two() -> None:
    buffer = BufferDecl.read_write("o", 0, DataType.U32)
    sides = [[ir.let("k", ir.load(buffer, place)), ir.store(buffer, place, ir.var("k", DataType.U32) + 1)] for place in (0, 1)]
    text = as_source(Program.wrapped([buffer], (1, 1, 1), [ir.block(*sides[0]), ir.block(*sides[1])]))
    assert "    k = o[0]\n    o[0] = k + 1\n    k_1 = o[1]\n    o[1] = k_1 + 1\n" in text


def test_a_variable_that_begins_as_a_pushed_number_may_get_another_value() -> None:
    buffers = [BufferDecl.push("n", 0, DataType.U32), BufferDecl.read_write("o", 1, DataType.U32)]
    k = ir.var("k", DataType.U32)
    nodes = [ir.let(k, ir.load(buffers[0], 0)), ir.if_(k < 5, [ir.assign(k, k + 1)]), ir.store(buffers[1], 0, k)]
    text = as_source(Program.wrapped(buffers, (1, 1, 1), nodes))
    assert "    k = n\n    if k < 5:\n        k = k + 1\n    o[0] = k\n" in text
    assert translated(text).program.buffer("n") is not None


@pytest.mark.parametrize("dtype", [DataType.Bool, DataType.I32])
def test_a_variable_that_is_no_pushed_number_but_made_of_one_is_itself(dtype: DataType) -> None:
    buffers = [BufferDecl.push("n", 0, dtype), BufferDecl.read_write("o", 1, DataType.I32)]
    value = ir.load(buffers[0], 0) if dtype == DataType.I32 else ir.cast(DataType.I32, ir.load(buffers[0], 0))
    nodes = [ir.let("k", value), ir.store(buffers[1], 0, ir.var("k", DataType.I32) + 1)]
    text = as_source(Program.wrapped(buffers, (1, 1, 1), nodes))
    assert f"    k = {'n' if dtype == DataType.I32 else 'i32(n)'}\n    o[0] = k + 1\n" in text
    assert translated(text).program.buffer("n") is not None


def test_a_quotient_by_zero_is_what_it_is_in_the_program() -> None:
    buffer = BufferDecl.read_write("o", 0, DataType.U32)
    text = as_source(Program.wrapped([buffer], (1, 1, 1), [ir.store(buffer, 0, ir.load(buffer, 1) / ir.load(buffer, 2))]))
    assert "o[0] = select(o[2] == 0, u32(4294967295), o[1] // o[2])\n" in text


def test_what_the_language_has_no_word_for_is_refused_by_name() -> None:
    buffer = BufferDecl.read_write("o", 0, DataType.U32)
    nodes = [ir.store(buffer, 0, ir.unop(UnOp.REVERSE_BITS, ir.load(buffer, 0)))]
    with pytest.raises(UnsupportedFeature, match="no word for reverse_bits"):
        as_source(Program.wrapped([buffer], (1, 1, 1), nodes))


@pytest.mark.parametrize("op", [op for op in SubgroupOp if op is not SubgroupOp.ADD])
def test_subgroup_reductions_other_than_sums_are_refused_by_name(op: SubgroupOp) -> None:
    buffer = BufferDecl.read_write("o", 0, DataType.U32)
    nodes = [ir.store(buffer, 0, ir.subgroup_reduce(op, ir.load(buffer, 0)))]
    assert str(refusal(lambda: as_source(Program.wrapped([buffer], (1, 1, 1), nodes)), UnsupportedFeature)) == (
        f"kernels written as Python have no word for a subgroup reduction by {op.name}. "
        "Fix: look at the program itself: print(program)."
    )


def test_elements_that_the_language_has_not_are_refused_by_name() -> None:
    buffer = BufferDecl.read_write("pairs", 0, DataType.Vec2U32)
    with pytest.raises(UnsupportedFeature, match="'pairs' holds vec2<u32>"):
        as_source(Program.wrapped([buffer], (1, 1, 1), []))


@pytest.mark.parametrize(
    "value",
    [
        "x[i] % y[i]",  # which is 0 in a program too where y[i] is
        "u32(trunc_rem(i32(-100), 7))",
        "u32(trunc_div(i32(7), -2))",
        "u32(4294967295) + u32(2)",
        "u32(i32(-1)) + u32(i32(-2))",
        "u32(max(i32(3), i32(-4)))",
    ],
)
def test_what_is_known_is_not_computed(value: str) -> None:
    text = f"def known(i: Index, x: In[u32], y: In[u32], o: Out[u32]):\n    o[i] = {value}\n"
    (guard,) = [one for one in terms_within(*program_of(text, "known").entry) if isinstance(one, If)]
    (store,) = guard.then
    assert isinstance(store, Store)
    assert isinstance(store.value, LitU32) or (isinstance(store.value, Binary) and store.value.op is BinOp.MOD)
