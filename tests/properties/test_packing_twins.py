"""Values of any layout are packed as the plain twin packs them, and come back the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import packing_twin
from hypothesis import given
from hypothesis import strategies as st
from literals import buffer, reflection

from vyre_driver.binding import BindingPlan
from vyre_driver.errors import InvalidInput
from vyre_driver.spirv.layout import Array, Member, Scalar, Struct, shape_of_views

if TYPE_CHECKING:
    from vyre_driver.spirv.layout import MemoryType


def plan_of(block: Struct) -> BindingPlan:
    header, element, count, least = shape_of_views([block])
    declared = buffer("b", header_bytes=header, element=element, count=count, least_bytes=least, block=block)
    return BindingPlan.from_reflection(reflection(declared))


def permuted(draw: st.DrawFn, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The same fields in another order, without gaps."""
    if dtype.names is None:
        return dtype
    fields = dtype.fields or {}
    formats = []
    for name in draw(st.permutations(dtype.names)):
        inner = fields[name][0]
        formats.append((name, permuted(draw, inner.base), inner.shape))
    return np.dtype(formats)


def copied(target: Any, source: Any) -> None:  # noqa: ANN401 -- arrays
    if target.dtype.names is None:
        target[...] = source
    for name in target.dtype.names or ():
        copied(target[name], source[name])


@given(st.data())
def test_a_structure_is_packed_as_the_twin_packs_it_and_comes_back(data: st.DataObject) -> None:
    block = data.draw(packing_twin.structs())
    value = data.draw(packing_twin.values(block))
    wanted = bytearray(block.byte_len)
    packing_twin.write(wanted, 0, block, value)
    plan = plan_of(block)
    packed = plan.pack("b", value)
    assert packed.tobytes() == bytes(wanted)
    back = plan.unpack("b", packed)
    if back.dtype.names is None or back.shape:  # an array alone, or tightly packed numbers alone
        value, back = next(iter(value.values())), back.reshape(np.shape(next(iter(value.values()))))
    assert packing_twin.plain(back) == value


@given(st.data())
def test_structured_arrays_of_any_order_are_packed_as_the_twin_packs_them(data: st.DataObject) -> None:
    element, count = data.draw(packing_twin.structs()), data.draw(st.integers(1, 3))
    stride = element.byte_len + data.draw(st.sampled_from([0, 1, 8]))
    plan = plan_of(Struct("B", (Member("items", 0, Array(element, None, stride)),), 0))
    given_values = [data.draw(packing_twin.values(element)) for _ in range(count)]
    wanted = bytearray(count * stride)
    packing_twin.write(wanted, 0, Array(element, count, stride), given_values)
    packed = plan.pack("b", given_values)
    assert packed.tobytes() == bytes(wanted)
    reflected = plan.unpack("b", packed)
    assert (reflected.dtype, reflected.dtype.itemsize) == (plan.element_dtype("b"), stride)
    draw: Any = data.draw
    other = np.zeros(count, permuted(draw, reflected.dtype))
    copied(other, reflected)
    (argument,) = plan.check_arguments([other], {})
    assert argument.data is not None
    assert argument.data.tobytes() == bytes(wanted) if argument.is_packed else packing_twin.plain(other) == given_values
    back = argument.result.finish(argument.data)
    assert (back.dtype, packing_twin.plain(back)) == (other.dtype, given_values)


NUMBERS = st.sampled_from(packing_twin.SCALARS)
ARRAYS = st.sampled_from([*"bBhHiIlLefd?", ">i4", ">f8", "M8[s]", "c8", "O"]).flatmap(
    lambda kind: st.lists(st.integers(-3, 3) | st.integers(0, 300) | st.floats(width=16), min_size=3, max_size=3).map(
        lambda numbers: _array(numbers, kind)
    )
)


def _array(numbers: list[float], kind: str) -> Any:  # noqa: ANN401 -- an array
    with np.errstate(all="ignore"):
        return np.nan_to_num(np.array(numbers, np.float64)).astype(kind)


@given(NUMBERS, ARRAYS)
def test_an_array_of_any_type_is_taken_and_refused_as_the_list_of_its_numbers(scalar: Scalar, array: Any) -> None:  # noqa: ANN401
    found: MemoryType = Array(scalar, 3, scalar.byte_len + 4)
    plan = plan_of(Struct("B", (Member("n", 0, found), Member("z", 3 * found.stride, Scalar("u", 32))), 3 * found.stride + 4))

    def told(value: object) -> object:
        try:
            return plan.pack("b", {"n": value, "z": 1}).tobytes()
        except InvalidInput as refused:
            return str(refused)

    assert told(array) == told(array.tolist())


def test_members_of_one_place_or_name_and_types_without_numbers_take_bytes_only() -> None:
    word = Scalar("u", 32)
    good = Struct("B", (Member("a", 0, word), Member("b", 4, Scalar("f", 32))), 8)
    assert plan_of(good).bindings[0].layout is not None
    for members in (
        (Member("a", 0, word), Member("a", 4, word)),
        (Member("a", 0, word), Member("b", 2, word)),
        (Member("a", 0, word), Member("b", 4, Scalar("b", 32))),
        (Member("a", 0, Array(word, 2, 2)), Member("b", 8, word)),
        (Member("a", 0, Array(word, 2, 4, is_specialized=True)), Member("b", 8, word)),
        (Member("a", 0, Array(word, 2**29, 4)), Member("b", 2**31, word)),
    ):
        (binding,) = plan_of(replace(good, members=members)).bindings
        assert (binding.layout, plan_of(replace(good, members=members)).element_dtype("b")) == (None, None)
