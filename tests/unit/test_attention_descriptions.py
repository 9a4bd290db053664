"""Descriptions of attention: what there is no kernel for, what one shares, and that each is valid SPIR-V."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from vyre_driver.errors import InvalidInput
from vyre_driver.matrices.attention import PUSHED, attention_module
from vyre_driver.matrices.description import AttentionDescription, AttentionTiling
from vyre_driver.matrices.elements import BF16, F16, F32
from vyre_driver.process.tools import SPIRV_VAL, find_tool
from vyre_driver.spirv.module import SpirvModule

if TYPE_CHECKING:
    from vyre_driver.matrices.elements import ElementType

TILING = AttentionTiling(16, 64, 8, (16, 16, 16), 32, 32)
TILINGS = [
    TILING,
    replace(TILING, subgroups=4, turned=64),
    replace(TILING, rows=32, keys=32, subgroups=4),
    replace(TILING, fragment=(16, 8, 16)),
    replace(TILING, elements=8),
    AttentionTiling(8, 16, 2, (8, 8, 8), 8, 16),
]
PLAIN = AttentionDescription(F16, F16, 128, TILING)


def cut(**changes: object) -> AttentionDescription:
    return replace(PLAIN, tiling=replace(TILING, **changes))  # type: ignore[arg-type] # what a case changes


@pytest.mark.parametrize(
    ("description", "problem"),
    [
        (PLAIN, None),
        (cut(rows=24), "24 rows of a subgroup are no multiple of 16"),
        (cut(keys=40), "40 keys of a step are no multiple of 16"),
        (cut(keys=48), "48 keys of a step are no multiple of 32"),
        (cut(turned=8), "8 keys turned at a time are no multiple of 16"),
        (replace(PLAIN, head=100), "100 elements of a head are no multiple of 16"),
        (cut(fragment=(16, 4, 16)), "4 columns of a fragment are no multiple of 8"),
        (cut(fragment=(16, 16, 4)), "4 products of a fragment are no multiple of 8"),
        (cut(rows=48, turned=16), "64 keys of a step are no multiple of 48 rows of a subgroup"),
        (replace(cut(keys=32), head=16), "256 invocations cannot load 64 vectors of keys in equal shares"),
        (
            cut(fragment=(16, 8, 16), is_direct=True),
            "fragments of 8 columns and 16 products do not hold elements in the same places",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_cut_so_is_told(description: AttentionDescription, problem: str | None) -> None:
    assert description.problem() == problem
    if problem is not None:
        with pytest.raises(InvalidInput) as caught:
            attention_module(description)
        fix = "Fix: choose rows, keys and a fragment that divide each other."
        assert str(caught.value) == f"there is no such attention: {problem}. {fix}"


def complaint(code: bytes) -> str:
    tool = find_tool(SPIRV_VAL)
    assert tool is not None, "the extra glsl brings spirv-val"
    command = [tool.path, "--target-env", "vulkan1.3", "-"]
    return subprocess.run(command, input=code, capture_output=True, check=False).stderr.decode()


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("head", [16, 32, 64, 128])
@pytest.mark.parametrize(("operand", "out"), [(F16, F16), (F16, F32), (BF16, BF16)], ids=lambda one: getattr(one, "name", None))
def test_every_cut_is_valid_and_shares_what_it_says(
    operand: ElementType, out: ElementType, head: int, *, is_causal: bool
) -> None:
    found = []
    for tiling in TILINGS:
        for is_direct in (False, True):
            description = AttentionDescription(operand, out, head, replace(tiling, is_direct=is_direct), is_causal)
            if description.problem() is not None:
                continue
            code = attention_module(description)
            reflection = SpirvModule.from_bytes(code).runnable.reflection
            shapes = [one.shape(()) for one in reflection.products]
            assert complaint(code) == ""
            assert reflection.shared_bytes == description.shared_bytes
            assert tuple(one.name for one in reflection.push_constants) == PUSHED
            assert {(one.sizes, one.types) for one in shapes} == {
                (tiling.fragment, (operand.name, operand.name, "float32", "float32"))
            }
            found.append(description)
    assert len(found) >= (3 if head == 16 else 9)


def test_the_same_description_is_the_same_module_and_another_is_another() -> None:
    others = [replace(PLAIN, is_causal=True), cut(band=4), cut(turned=16), cut(is_direct=True)]
    modules = [attention_module(one) for one in (PLAIN, PLAIN, *others)]
    assert (modules[0] == modules[1], len(set(modules))) == (True, 5)
