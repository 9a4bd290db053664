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
