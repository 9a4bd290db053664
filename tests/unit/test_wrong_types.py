"""Arguments of a type that is not valid are refused where they come in, by an error of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from literals import U32

from vyre_driver import SpirvModule
from vyre_driver.binding.grid import given_groups
from vyre_driver.binding.push_constants import pack_push_constants
from vyre_driver.errors import DeviceNotFound, InvalidInput, InvalidPushConstant, InvalidSpecialization, VyreError
from vyre_driver.specialization import specialize
from vyre_driver.spirv.interface import SpecConstant
from vyre_driver.spirv.layout import Member
from vyre_driver.vulkan.selection import select_device

if TYPE_CHECKING:
    from collections.abc import Callable

TILE = [SpecConstant("TILE", 0, U32, 16)]
COUNT = [Member("count", 0, U32)]
BY_NAME = "Fix: pass a dictionary from names to values."


NO_BYTES = "which holds no bytes. Fix: pass the bytes of a .spv file."
NO_SOURCE = "a GLSL source of type bytes is neither text nor a path. Fix: pass its text, or a Path."
NO_DEFINE = "1 is not a preprocessor name. Fix: use letters, digits and underscores."
NO_CONSTANT = "the shader has no specialization constant 1; it has TILE. Fix: give only constants that the shader declares."
SPECS_UNNAMED = f"specialization constants came as list, and are given by name. {BY_NAME}"
PUSH_UNNAMED = f"push constants came as int, and are given by name. {BY_NAME}"
NO_PUSH = "the shader has no push constant 2. Fix: give only what it declares: 'count'."
NO_DEVICE = "1.5 does not say which device. Fix: write uuid:, pci:, name: or type: and a value, or an index."


def no_groups(shown: str) -> str:
    return f"workgroups is {shown}, which is not 1 to 3 numbers of at least 1. Fix: give workgroups=(x, y, z)."


def groups(given: Any) -> Callable[[], object]:  # noqa: ANN401 -- what a caller may give
    return lambda: given_groups((64, 1, 1), given, None)


REFUSED: list[tuple[Callable[[], object], type[VyreError], str]] = [
    (lambda: SpirvModule.from_bytes("text"), InvalidInput, f"<bytes> is of type str, {NO_BYTES}"),
    (lambda: SpirvModule.from_bytes(8), InvalidInput, f"<bytes> is of type int, {NO_BYTES}"),
    (lambda: SpirvModule.from_file(3), InvalidInput, "a path of type int is none. Fix: pass text or a Path."),
    (lambda: SpirvModule.from_glsl(b""), InvalidInput, NO_SOURCE),
    (lambda: SpirvModule.from_glsl("", defines=["A"]), InvalidInput, f"defines is of type list. {BY_NAME}"),
    (lambda: SpirvModule.from_glsl("", defines={1: 2}), InvalidInput, NO_DEFINE),
    (lambda: specialize(TILE, [1]), InvalidSpecialization, SPECS_UNNAMED),
    (lambda: specialize(TILE, {1: 1, "a": 2}), InvalidSpecialization, NO_CONSTANT),
    (lambda: pack_push_constants(COUNT, 4, 3), InvalidPushConstant, PUSH_UNNAMED),
    (lambda: pack_push_constants(COUNT, 4, {"count": 1, 2: 1, "x": 1}), InvalidPushConstant, NO_PUSH),
    (groups((True,)), InvalidInput, no_groups("(True,)")),
    (groups({1}), InvalidInput, no_groups("{1}")),
    (groups({1: 1}), InvalidInput, no_groups("{1: 1}")),
    (groups(b"1"), InvalidInput, no_groups("b'1'")),
    (groups(0), InvalidInput, no_groups("0")),
    (lambda: select_device([], 1.5), DeviceNotFound, NO_DEVICE),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED, ids=[message for _, _, message in REFUSED])
def test_it_is_refused_as(call: Callable[[], object], error: type[VyreError], message: str) -> None:
    with pytest.raises(error) as refused:
        call()
    assert str(refused.value) == message
