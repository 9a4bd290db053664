from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import twins
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import SHIPPED, any_modules, corrupted_modules, digests, words

from vyre_driver import _fast

if TYPE_CHECKING:
    from collections.abc import Callable

each_shipped = pytest.mark.parametrize("name", sorted(SHIPPED))


def answer(function: Callable[..., object], *arguments: object) -> object:
    try:
        return function(*arguments)
    except ValueError as error:
        return str(error)


@given(digests)
def test_the_shard_path_is_the_twins_for_any_digest(digest: bytes) -> None:
    assert _fast.shard_path(digest) == twins.shard_path(digest)


@given(st.binary(max_size=80))
def test_the_shard_path_of_bytes_of_any_length_is_the_twins_path_or_error(data: bytes) -> None:
    assert answer(_fast.shard_path, data) == answer(twins.shard_path, data)


@given(any_modules)
def test_the_scan_of_any_words_is_the_twins(module: bytes) -> None:
    assert _fast.scan_spirv(module) == twins.scan_spirv(module)


@given(st.binary(max_size=80))
def test_the_scan_of_bytes_of_any_length_is_the_twins_answer_or_error(data: bytes) -> None:
    assert answer(_fast.scan_spirv, data) == answer(twins.scan_spirv, data)


@given(corrupted_modules())
def test_the_scan_of_a_real_module_with_words_overwritten_is_the_twins(module: bytes) -> None:
    assert _fast.scan_spirv(module) == twins.scan_spirv(module)


@each_shipped
def test_the_scan_of_a_real_module_cut_at_any_word_is_the_twins(name: str) -> None:
    cuts = [SHIPPED[name][:end] for end in range(0, len(SHIPPED[name]) + 1, 4)]
    assert [_fast.scan_spirv(cut) for cut in cuts] == [twins.scan_spirv(cut) for cut in cuts]


@each_shipped
def test_the_scan_of_a_real_module_finds_it_whole(name: str) -> None:
    fault, _, first_function, functions = _fast.scan_spirv(SHIPPED[name])
    opcode = memoryview(SHIPPED[name]).cast("I")[first_function] & 0xFFFF
    assert (fault, opcode, functions) == (twins.WHOLE, twins.OP_FUNCTION, 1)


@given(any_modules, st.integers(-2, 40), st.integers(0, 3) | words)
def test_the_search_for_a_function_is_the_twins_in_any_words(module: bytes, start: int, function: int) -> None:
    assert answer(_fast.defines_function, module, start, function) == answer(twins.defines_function, module, start, function)


@each_shipped
def test_the_search_for_any_function_of_a_real_module_is_the_twins(name: str) -> None:
    module = SHIPPED[name]
    bound = memoryview(module).cast("I")[3]
    found = [function for function in range(bound) if _fast.defines_function(module, 5, function)]
    assert found == [function for function in range(bound) if twins.defines_function(module, 5, function)]


@each_shipped
def test_the_search_in_a_real_module_cut_at_any_word_is_the_twins(name: str) -> None:
    entry = next(function for function in range(999) if twins.defines_function(SHIPPED[name], 5, function))
    cuts = [SHIPPED[name][:end] for end in range(20, len(SHIPPED[name]) + 1, 4)]
    assert [_fast.defines_function(cut, 5, entry) for cut in cuts] == [twins.defines_function(cut, 5, entry) for cut in cuts]


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_the_shard_path_refuses_a_digest_that_has_not_32_bytes(size: int) -> None:
    with pytest.raises(ValueError, match=rf"^digest has {size} bytes, not 32$"):
        _fast.shard_path(bytes(size))


@pytest.mark.parametrize("size", [1, 2, 3, 21])
def test_the_scan_refuses_a_module_that_is_no_multiple_of_4_bytes(size: int) -> None:
    with pytest.raises(ValueError, match=rf"^module has {size} bytes, not a multiple of 4$"):
        _fast.scan_spirv(bytes(size))


@pytest.mark.parametrize("start", [-1, 6, 2**40])
def test_the_search_refuses_a_start_outside_the_module(start: int) -> None:
    with pytest.raises(ValueError, match=rf"^start is word {start} of a module of 5 words$"):
        _fast.defines_function(bytes(20), start, 1)


@pytest.mark.parametrize("function", [-1, 2**32])
def test_the_search_refuses_a_function_that_is_no_id(function: int) -> None:
    with pytest.raises(OverflowError):
        _fast.defines_function(bytes(20), 5, function)


@pytest.mark.parametrize("wrong", [None, "text", bytearray(32), memoryview(bytes(32))])
def test_the_compiled_loops_take_bytes_only(wrong: object) -> None:
    for function in (_fast.shard_path, _fast.scan_spirv, lambda module: _fast.defines_function(module, 0, 1)):
        with pytest.raises(TypeError):
            function(wrong)


@settings(max_examples=20)
@given(st.lists(digests, min_size=8, max_size=8), st.lists(any_modules, min_size=8, max_size=8))
def test_the_compiled_loops_answer_the_same_from_8_threads_at_once(some_digests: list[bytes], modules: list[bytes]) -> None:
    def work(index: int) -> list[object]:
        return [
            (_fast.shard_path(digest), _fast.scan_spirv(module), _fast.defines_function(module, 0, 1))
            for digest, module in zip(some_digests[index:], modules[index:], strict=True)
        ] * 20

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(work, range(8)))
    assert together == [work(index) for index in range(8)]


u64s = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**40 - 1, 2**40, 2**63, 2**64 - 1])
spec_names = (st.text(max_size=12) | st.sampled_from(["", "\0", "a\0b", "\U0001f600", "\uffff"])).map(str.encode)
spec_rows = st.lists(st.tuples(spec_names, u64s), max_size=20)
workgroups = st.tuples(words, words, words)


@given(spec_rows)
def test_the_hash_of_any_map_is_the_twins(rows: list[tuple[bytes, int]]) -> None:
    assert _fast.spec_map_hash(rows) == twins.spec_map_hash(rows)


@pytest.mark.parametrize("size", [31, 32, 33, 10_000])
def test_the_hash_of_a_long_map_is_the_twins(size: int) -> None:
    rows = [(f"constant {number:05d}\0".encode(), number << number % 50) for number in range(size)]
    assert _fast.spec_map_hash(rows) == twins.spec_map_hash(rows)


@given(u64s, u64s, workgroups, u64s)
def test_the_autotune_key_of_any_numbers_is_the_twins(
    shader_hash: int, binding_sig: int, workgroup_size: tuple[int, int, int], spec_hash: int
) -> None:
    key = (shader_hash, binding_sig, workgroup_size, spec_hash)
    assert _fast.autotune_key_hex(*key) == twins.autotune_key_hex(*key)


@given(st.binary(max_size=300))
def test_the_hex_of_any_bytes_is_the_twins(data: bytes) -> None:
    assert _fast.hex_text(data) == _fast.hex_text(bytearray(data)) == _fast.hex_text(memoryview(data)) == twins.hex_text(data)
    assert _fast.hex_text(data).isascii()


@pytest.mark.parametrize(
    "row", [("name", 1), (b"name",), (), (b"name", "1"), [b"name", 1], (bytearray(b"name"), 1), (None, 1), None]
)
def test_the_hash_refuses_rows_that_are_no_name_in_bytes_with_a_number(row: object) -> None:
    with pytest.raises((TypeError, IndexError)):
        _fast.spec_map_hash([(b"first", 1), row])


@pytest.mark.parametrize("number", [-1, 2**64])
def test_the_hashes_and_keys_refuse_numbers_that_are_no_u64(number: int) -> None:
    for refused in (
        lambda: _fast.spec_map_hash([(b"", number)]),
        lambda: _fast.autotune_key_hex(number, 0, (0, 0, 0), 0),
        lambda: _fast.autotune_key_hex(0, number, (0, 0, 0), 0),
        lambda: _fast.autotune_key_hex(0, 0, (0, 0, 0), number),
    ):
        with pytest.raises(OverflowError):
            refused()


@pytest.mark.parametrize("workgroup", [(-1, 1, 1), (1, 2**32, 1), (1, 1, 2**32)])
def test_the_autotune_key_refuses_a_workgroup_that_is_not_of_u32(workgroup: tuple[int, int, int]) -> None:
    with pytest.raises(OverflowError):
        _fast.autotune_key_hex(0, 0, workgroup, 0)


@pytest.mark.parametrize("workgroup", [(), (1, 1), (1, 1, 1, 1)])
def test_the_autotune_key_refuses_a_workgroup_that_has_not_three_axes(workgroup: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="values to unpack"):
        _fast.autotune_key_hex(0, 0, workgroup, 0)


@settings(max_examples=20)
@given(st.lists(spec_rows, min_size=8, max_size=8), st.lists(u64s, min_size=8, max_size=8))
def test_hashes_keys_and_hex_are_the_same_from_8_threads_at_once(
    maps: list[list[tuple[bytes, int]]], numbers: list[int]
) -> None:
    def work(index: int) -> list[object]:
        return [
            (
                _fast.spec_map_hash(rows),
                _fast.autotune_key_hex(number, index, (1, 2, 3), number),
                _fast.hex_text(bytes(rows[0][0])),
            )
            for rows, number in zip(maps[index:], numbers[index:], strict=True)
            if rows
        ] * 20

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(work, range(8)))
    assert together == [work(index) for index in range(8)]
