"""Modules made to hurt: each ends in a contract that can be used, or in a VyreError, and soon."""

from __future__ import annotations

import array
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from assembler import BASE, assemble, op, text
from module_walk import outcome
from mutations import SHIPPED

from vyre_driver.errors import InvalidModule
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


FLIPPED = {"zero": lambda _: 0, "all ones": lambda _: 0xFFFF_FFFF, "low bit flipped": lambda word: word ^ 1}


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("change", FLIPPED)
def test_a_shipped_module_with_any_one_word_changed_is_usable_or_refused(name: str, change: str) -> None:
    words = array.array("I", shipped_module(name).code)
    outcomes = set()
    for at, word in enumerate(words):
        words[at] = FLIPPED[change](word)
        outcomes.add(outcome(words.tobytes()))
        words[at] = word
    assert outcomes >= {"usable", "unread"}


def test_the_base_module_with_any_one_word_set_to_any_small_number_is_usable_or_refused() -> None:
    words = array.array("I", assemble())
    outcomes = set()
    for at, word in enumerate(words):
        for changed in (*range(34), 0x8000_0000, 0xFFFF, 1 << 16, word << 1 & 0xFFFF_FFFF):
            words[at] = changed
            outcomes.add(outcome(words.tobytes()))
        words[at] = word
    assert outcomes == {"usable", "unread", "refused later"}


@pytest.mark.parametrize("width", [0, 8, 16, 24, 64, 0xFFFF_FFFF])
@pytest.mark.parametrize("mode", range(4458, 4465))
def test_a_float_control_of_any_width_or_operands_is_usable_or_refused(mode: int, width: int) -> None:
    modes = [op(16, 3, mode, *operands) for operands in ((), (width,), (width, 32))]
    outcomes = [outcome(assemble(BASE | {"local size": [*BASE["local size"], *one]})) for one in modes]
    read = "refused later" if width in {16, 32, 64} else "unread"
    assert outcomes == (["unread", read, "unread"] if 4459 <= mode <= 4463 else ["usable"] * 3)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_module_cut_at_any_byte_is_an_invalid_module(name: str) -> None:
    code = shipped_module(name).code
    for end in range(len(code)):
        with pytest.raises(InvalidModule):
            SpirvModule.from_bytes(code[:end])


STRANGE_TYPES = {
    "float of 8 bits": {"float": op(22, 5, 8), "stride": op(71, 6, 6, 1)},
    "float of 0 bits": {"float": op(22, 5, 0), "struct": op(30, 7, 5)},
    "int of 0 bits": {"float": op(21, 5, 0, 0), "struct": op(30, 7, 5)},
    "vector of 0 components": {"declarations": op(23, 20, 5, 0), "struct": op(30, 7, 20)},
    "matrix of 0 columns": {"declarations": op(24, 20, 5, 0), "struct": op(30, 7, 20)},
    "array of 0 elements": {"declarations": op(43, 10, 20, 0), "array": op(28, 6, 5, 20)},
    "array of 0 elements after a number": {
        "declarations": op(43, 10, 20, 0),
        "array": op(28, 6, 5, 20),
        "struct": op(30, 7, 5, 6),
        "offset": [*op(72, 7, 0, 35, 0), *op(72, 7, 1, 35, 4)],
    },
    "empty structure": {"declarations": op(30, 20), "struct": op(30, 7, 20)},
    "truth value": {"float": op(20, 5)},
    "array of 4294967295 elements": {"declarations": op(43, 10, 20, 0xFFFF_FFFF), "array": op(28, 6, 5, 20)},
    "header of 4294967295 bytes": {"offset": op(72, 7, 0, 35, 0xFFFF_FFFF)},
}


@pytest.mark.parametrize("kind", STRANGE_TYPES)
def test_a_buffer_of_a_strange_type_is_usable_or_refused(kind: str) -> None:
    assert outcome(assemble(BASE | STRANGE_TYPES[kind])) in {"usable", "unread", "refused", "refused later"}


@pytest.mark.parametrize("spec_id", [0, 1, 1023, 1024, 0xFFFF_FFFF])
def test_a_workgroup_axis_by_a_decorated_plain_constant_is_usable_or_refused(spec_id: int) -> None:
    parts = {
        "local size": op(331, 3, 38, 20, 20, 20),
        "decorations": op(71, 20, 1, spec_id),
        "declarations": op(43, 10, 20, 4),
    }
    assert outcome(assemble(BASE | parts)) in {"usable", "unread", "refused"}


REFLECT_FILE = """
import sys
from vyre_driver.errors import VyreError
from vyre_driver.spirv.module import SpirvModule

try:
    SpirvModule.from_file(sys.argv[1])
except VyreError:
    pass
"""


def twofold_structures() -> bytes:
    """31 structures, each with the one before it twice, all at offset 0: 2**31 floats in 8 bytes."""
    types = [word for level in range(31) for word in op(30, 40 + level, *[39 + level if level else 5] * 2)]
    offsets = [word for level in range(31) for member in range(2) for word in op(72, 40 + level, member, 35, 0)]
    return assemble(BASE | {"struct": [*types, *op(30, 7, 70)], "decorations": offsets})


def many_entry_points() -> bytes:
    """300,000 entry points, each of which names the last of 300,000 functions."""
    functions = [word for number in range(100, 300_100) for word in (*op(54, 1, number, 0, 2), *op(56))]
    entries = op(15, 0, 300_099, *text("x")) * 300_000
    return assemble(BASE | {"entry point": [*entries, *BASE["entry point"]], "end": [*op(56), *functions]}, bound=300_100)


def many_group_decorations() -> bytes:
    """A group of 10,000 different decorations, given to one target 600,000 times."""
    group = [word for number in range(1000, 11_000) for word in op(71, 99, number)]
    return assemble(BASE | {"decorations": [*group, *op(74, 99, *[20] * 60_000) * 10]})


def many_float_controls() -> bytes:
    """1,000 entry points of one function that states RoundingModeRTE 300,000 times, declared as often."""
    entries = [word for number in range(1000) for word in op(15, 5, 3, *text(str(number)))]
    modes = [*BASE["local size"], *op(16, 3, 4462, 32) * 300_000]
    capabilities = [*BASE["capability"], *op(17, 4467) * 300_000]
    return assemble(BASE | {"capability": capabilities, "entry point": entries, "local size": modes})


@pytest.mark.parametrize("make", [twofold_structures, many_entry_points, many_group_decorations, many_float_controls])
def test_a_small_module_cannot_ask_for_endless_work(tmp_path: Path, make: type) -> None:
    (tmp_path / "hostile.spv").write_bytes(make())
    command = [sys.executable, "-c", REFLECT_FILE, str(tmp_path / "hostile.spv")]
    # The time-out only ends a hang: the work is a matter of milliseconds, or of hours.
    assert subprocess.run(command, check=False, timeout=60).returncode == 0


def grouped_ids(first: int, count: int, **parts: list[int]) -> bytes:
    """A group with six decorations, given to many ids, none of which the module declares unless ``parts`` do."""
    group = [word for of in ((34, 0), (33, 0), (6, 16), (24,), (25,), (2,)) for word in op(71, 99, *of)]
    targets = range(first, first + count)
    given = [word for at in range(0, count, 60_000) for word in op(74, 99, *targets[at : at + 60_000])]
    return assemble(BASE | {"decorations": [*group, *op(73, 99), *given], **parts}, bound=400_100)


@pytest.mark.parametrize(
    ("make", "most"),
    [
        (lambda: grouped_ids(100, 300_000), 5),
        (lambda: grouped_ids(0x400000, 300_000), 5),
        (lambda: grouped_ids(100, 100_000, declarations=[word for one in range(100, 100_100) for word in op(19, one)]), 40),
    ],
    ids=["undeclared", "beyond the bound", "declared"],
)
def test_decorations_of_a_group_take_no_memory_for_each_target(make: Callable[[], bytes], most: int) -> None:
    code = make()
    tracemalloc.start()
    try:
        with suppress(InvalidModule):  # for a target that is not there, once all is read
            SpirvModule.from_bytes(code)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most * len(code)


def test_a_target_of_two_groups_gets_the_decorations_of_both_and_keeps_its_own() -> None:
    one, other = [*op(71, 40, 34, 2), *op(73, 40)], [*op(71, 41, 33, 5), *op(73, 41)]
    code = assemble(
        BASE | {"set": op(), "binding": op(71, 9, 24), "decorations": [*one, *other, *op(74, 40, 9), *op(74, 41, 9)]}
    )
    (found,) = SpirvModule.from_bytes(code).interface.resources
    assert (found.set, found.binding, found.writable) == (2, 5, False)
