"""Binding plans and the lengths of inputs: the compiled planner against its plain twin."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, fields, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import twins
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from strategies import words  # its import sets hypothesis up

from vyre_driver import _fast

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

assert words is not None


# Numbers that meet each other's limits: a count and a size whose product is just below, at or above 2**64.
u64s = st.sampled_from([0, 1, 2, 3, 4, 12, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
u32s = st.sampled_from([0, 1, 2, 3, 2**31, 2**32 - 1]) | st.integers(0, 2**32 - 1)
declarations = st.lists(
    st.builds(
        twins.Declared,
        element_size=u64s,
        binding=st.integers(0, 3) | u32s,
        count=st.integers(0, 4) | u32s,
        preferred_alignment=st.sampled_from([0, 1, 4, 64, 2**31]) | u32s,
        access=st.integers(0, 4) | st.integers(0, 255),
        kind=st.integers(0, 6) | st.integers(0, 255),
        is_output=st.booleans(),
        pipeline_live_out=st.booleans(),
    ),
    max_size=24,
)
# Most of the above are refused early; of these most are planned.
plannable = st.lists(
    st.builds(
        twins.Declared,
        element_size=st.sampled_from([1, 2, 4, 12, 2**32]),
        binding=st.integers(0, 8),
        count=st.integers(0, 3),
        preferred_alignment=st.sampled_from([0, 1, 64, 2**31]),
        access=st.integers(0, 4),
        kind=st.integers(0, 6),
        is_output=st.booleans(),
        pipeline_live_out=st.booleans(),
    ),
    max_size=24,
)
measured = st.builds(
    twins.Measured,
    element_size=st.integers(0, 5) | u64s,
    header_bytes=st.integers(0, 5) | u64s,
    least_byte_len=st.integers(0, 9) | u64s,
    static_byte_len=st.none() | st.integers(0, 20) | u64s,
    input_index=st.none(),
)


class Made:
    """Takes the place of a binding."""


def as_declared(one: twins.Declared) -> SimpleNamespace:
    """A declaration with the attributes of a program's."""
    return SimpleNamespace(
        name="b",
        element=SimpleNamespace(min_bytes=one.element_size),
        binding=one.binding,
        count=one.count,
        hints=SimpleNamespace(preferred_alignment=one.preferred_alignment),
        access=SimpleNamespace(_value_=one.access),
        kind=SimpleNamespace(_value_=one.kind),
        is_output=one.is_output,
        pipeline_live_out=one.pipeline_live_out,
        is_pushed=one.kind == 6,
        output_byte_range=(1, 2),
    )


BY_BINDING = SimpleNamespace(packed=False, in_declaration_order=False, live_out_is_output=False)


def compiled_plan(
    declared: Sequence[twins.Declared], lengths: Sequence[int], rules: SimpleNamespace = BY_BINDING
) -> tuple[int, object]:
    buffers = tuple(as_declared(one) for one in declared)
    status, found, *indices = _fast.build_plan(buffers, tuple(lengths), Made, tuple(range(6)), rules)
    if status:
        return status, found
    numbered = sorted(found, key=lambda one: one.buffer_index) if rules.in_declaration_order else found
    assert indices == [
        tuple(binding.buffer_index for binding in numbered if binding.input_index is not None),
        tuple(binding.buffer_index for binding in numbered if binding.output_index is not None),
        tuple(binding.buffer_index for binding in numbered if binding.role == twins.SHARED),
    ]
    assert {(one.name, one.header_bytes, one.element, one.output_byte_range) for one in found} <= {("b", 0, None, (1, 2))}
    assert [one.is_pushed for one in found] == [buffers[one.buffer_index].is_pushed for one in found]
    assert [one.data_type for one in found] == [buffers[one.buffer_index].element for one in found]
    return status, [twins.Planned(*(getattr(one, field.name) for field in fields(twins.Planned))) for one in found]


def checker(bindings: Sequence[twins.Measured]) -> _fast.InputLengths:
    return _fast.InputLengths(tuple(bindings), tuple(one.least_byte_len for one in bindings), SimpleNamespace, len)  # type: ignore[arg-type]


def numbered(bindings: Sequence[twins.Measured], takes: Sequence[bool]) -> list[twins.Measured]:
    """The bindings, those that take an input numbered in order."""
    places = iter(range(len(bindings)))
    return [replace(one, input_index=next(places) if take else None) for one, take in zip(bindings, takes, strict=False)]


@given(declarations | plannable, st.lists(u64s, max_size=8))
def test_the_plan_of_any_declarations_is_the_twins(declared: list[twins.Declared], lengths: list[int]) -> None:
    assert compiled_plan(declared, lengths) == twins.build_plan(declared, lengths)


extents = st.builds(
    twins.Extent,
    st.sampled_from([1, 4, 8, 12, 2**61]) | u64s,
    st.booleans(),
    st.sampled_from([0] * 15 + [twins.LENGTH_OVERFLOW, 5]),
)


@pytest.mark.parametrize("order", ["declarations", "bindings"])
@given(
    declared=declarations | plannable, lengths=st.lists(u64s, max_size=8), packed=st.lists(extents, min_size=24, max_size=24)
)
def test_a_plan_of_packed_elements_is_the_twins(
    order: str, declared: list[twins.Declared], lengths: list[int], packed: list[twins.Extent]
) -> None:
    in_declaration_order = order == "declarations"
    given_extents = iter(packed)
    rules = SimpleNamespace(
        packed=True,
        in_declaration_order=in_declaration_order,
        live_out_is_output=False,
        extent=lambda _: astuple(next(given_extents)),
    )
    assert compiled_plan(declared, lengths, rules) == twins.build_plan(
        declared, lengths, packed, in_declaration_order=in_declaration_order
    )


@given(plannable, st.lists(u64s, max_size=8))
def test_what_is_live_out_is_planned_as_an_output_where_the_rules_say_so(
    declared: list[twins.Declared], lengths: list[int]
) -> None:
    rules = SimpleNamespace(packed=False, in_declaration_order=False, live_out_is_output=True)
    outputs = [replace(buffer, is_output=buffer.is_output or buffer.pipeline_live_out) for buffer in declared]
    assert compiled_plan(declared, lengths, rules) == twins.build_plan(outputs, lengths)


@given(plannable)
def test_buffers_of_one_number_keep_the_order_they_were_declared_in(declared: list[twins.Declared]) -> None:
    status, found = twins.build_plan(declared, ())
    assume(not status)
    assert isinstance(found, list)
    places = [(one.binding, one.buffer_index) for one in found]
    assert places == sorted(places)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=200, max_size=300))
def test_a_plan_of_hundreds_of_buffers_in_any_order_is_the_twins(numbers: list[int]) -> None:
    declared = [twins.Declared(4, number % 50, 1, 0, 0, 0, is_output=False, pipeline_live_out=True) for number in numbers]
    assert compiled_plan(declared, ()) == twins.build_plan(declared, ())


@given(st.lists(measured, max_size=24), st.lists(st.booleans(), min_size=24, max_size=24), st.data())
def test_the_verdict_on_lengths_is_the_twins(bindings: list[twins.Measured], takes: list[bool], data: st.DataObject) -> None:
    bindings = numbered(bindings, takes)
    count = sum(one.input_index is not None for one in bindings)
    near = [
        st.sampled_from(sorted({0, one.least_byte_len, one.header_bytes, one.static_byte_len or 0})) | u64s
        for one in bindings
        if one.input_index is not None
    ]
    lengths = data.draw(st.tuples(*near) | st.lists(u64s, min_size=count, max_size=count + 1).map(tuple))
    assert checker(bindings).check_lengths(lengths) == twins.validate_lengths(bindings, lengths)


@given(st.lists(st.none() | st.integers(0, 3) | st.integers(0, 2**63 - 1), max_size=20), st.lists(u64s, max_size=20))
@example([1], [0])
@example([0, 2], [0, 0])
def test_indices_that_are_no_plans_are_the_twins_fault_and_read_nothing(indices: list[int | None], lengths: list[int]) -> None:
    bindings = [twins.Measured(1, 0, 0, None, index) for index in indices]
    assert checker(bindings).check_lengths(tuple(lengths)) == twins.validate_lengths(bindings, lengths)


@given(st.lists(st.binary(max_size=12), max_size=20), st.integers(0, 5), st.none() | st.integers(0, 12))
def test_inputs_that_are_given_are_judged_as_their_lengths(given: list[bytes], size: int, fixed: int | None) -> None:
    bindings = [twins.Measured(size, 0, 0, fixed, index) for index in range(len(given))]
    lengths = tuple(len(one) for one in given)
    forms: list[Iterable[object]] = [given, tuple(given), iter(given)]
    forms += [
        [form(one) for one in given] for form in (bytearray, memoryview, Sized, lambda one: SimpleNamespace(nbytes=len(one)))
    ]
    judged = [checker(bindings).check(form) for form in forms]
    assert judged == [twins.validate_lengths(bindings, lengths)] * 7
    assert _fast.byte_lengths(forms[-1], SimpleNamespace, len) == lengths


class Sized:
    """Is neither a buffer nor of the type that is believed."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)


@pytest.mark.parametrize("wrong", [-1, 2**64, 1.5, "4", None])
def test_a_length_that_is_no_u64_is_an_error(wrong: object) -> None:
    with pytest.raises((OverflowError, TypeError)):
        checker([twins.Measured(1, 0, 0, None, 0)]).check_lengths((wrong,))  # type: ignore[arg-type]
    with pytest.raises((OverflowError, TypeError)):
        _fast.build_plan((), (wrong,), Made, (), BY_BINDING)  # type: ignore[arg-type]


@settings(max_examples=10)
@given(st.lists(plannable, min_size=8, max_size=8), st.lists(st.integers(0, 64), max_size=24))
def test_plans_are_built_and_inputs_judged_the_same_from_8_threads_at_once(
    some: list[list[twins.Declared]], lengths: list[int]
) -> None:
    bindings = [twins.Measured(4, 0, 0, None, index) for index in range(len(lengths))]
    shared = checker(bindings)
    inputs = [bytes(length) for length in lengths]

    def work(index: int) -> list[object]:
        return [(compiled_plan(some[index], lengths), shared.check(inputs), shared.check_lengths(tuple(lengths)))] * 20

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(work, range(8)))
    wanted = twins.validate_lengths(bindings, lengths)
    assert together == [[(twins.build_plan(some[index], lengths), wanted, wanted)] * 20 for index in range(8)]
