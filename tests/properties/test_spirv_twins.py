"""The compiled walks over SPIR-V modules against their plain twins."""

from __future__ import annotations

import array

import pytest
import spirv_twin
from hypothesis import given
from hypothesis import strategies as st
from strategies import words  # its import sets hypothesis up

from vyre_driver.spirv import _scan
from vyre_driver.spirv.shipped import shipped_module

assert words is not None

SHIPPED = [shipped_module(name).code for name in ("saxpy", "byte_histogram", "mandelbrot")]
HEADER = [0x07230203, 0x0001_0300, 0, 60, 0]
READ = [*spirv_twin.LEAST, *spirv_twin.TEXT_AT, 31, 39, 53, 73]
BODY = [54, 56, 57, 61, 62, 12, 65, 79, 81, 82, 8, 245, 246, 247, 248, 249, 250, 251, 252, 317, 227]
SMALL = st.integers(0, 70)
WORD = st.one_of(
    SMALL, SMALL, st.integers(0, 2**32 - 1), st.sampled_from([0x6161_6161, 0x0061_6161, 0xFF, 0x3F_FFFF, 0x40_0000])
)
FIELDS = ("capabilities", "extensions", "entry_points", "modes", "variables", "memory_model", "names", "member_names")
FIELDS += ("decorations", "member_decorations", "types", "constants", "languages")


def streams(opcodes: list[int]) -> st.SearchStrategy[bytes]:
    """Modules of instructions with any operands; now and then one has a length that is not its own."""
    operands = st.lists(WORD, max_size=9)
    own = st.tuples(st.sampled_from(opcodes), operands).map(lambda one: [(len(one[1]) + 1) << 16 | one[0], *one[1]])
    instruction = st.one_of(own, own, own, own, own, own, own, st.lists(WORD, min_size=1, max_size=3))
    many = st.lists(instruction, max_size=30)
    return many.map(lambda parts: array.array("I", [*HEADER, *(word for part in parts for word in part)]).tobytes())


def read(module: bytes, stop: int) -> tuple[tuple[int, int, int, int], dict[str, object]]:
    tables = _scan.Tables()
    answer = tables.read(module, stop)
    return answer, {name: getattr(tables, name) for name in FIELDS}


@given(streams(READ), st.data())
def test_declarations_are_read_as_by_their_twin(module: bytes, data: st.DataObject) -> None:
    stop = data.draw(st.integers(5, len(module) // 4))
    assert read(module, stop) == spirv_twin.read(module, stop)


@given(streams(BODY), st.sets(st.one_of(SMALL, WORD), max_size=20))
def test_what_functions_name_is_found_as_by_their_twin(module: bytes, wanted: set[int]) -> None:
    assert _scan.function_uses(module, 5, wanted) == spirv_twin.function_uses(module, 5, wanted)


@given(streams(BODY))
def test_functions_are_found_as_by_their_twin(module: bytes) -> None:
    assert _scan.functions(module, 5) == spirv_twin.functions(module, 5)


@pytest.mark.parametrize("module", SHIPPED, ids=["saxpy", "byte_histogram", "mandelbrot"])
def test_a_real_module_cut_and_changed_anywhere_is_read_as_by_the_twin(module: bytes) -> None:
    count = len(module) // 4
    assert [read(module, stop) for stop in range(5, count + 1)] == [
        spirv_twin.read(module, stop) for stop in range(5, count + 1)
    ]
    changed = array.array("I", module)
    for at in range(5, count):
        word = changed[at]
        changed[at] = word ^ 0x1_0001
        assert read(changed.tobytes(), count) == spirv_twin.read(changed.tobytes(), count)
        changed[at] = word


@pytest.mark.parametrize("at", [-1, 6])
def test_a_word_outside_the_module_is_refused(at: int) -> None:
    module = array.array("I", HEADER).tobytes()
    for call in (lambda: _scan.functions(module, at), lambda: _scan.function_uses(module, at, ())):
        with pytest.raises(ValueError, match=f"start is word {at} of a module of 5 words"):
            call()
    with pytest.raises(ValueError, match=f"stop is word {at} of a module of 5 words"):
        _scan.Tables().read(module, at)
