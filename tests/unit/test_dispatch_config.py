"""What a caller may wish of a dispatch."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, asdict
from typing import Any

import numpy as np
import pytest
from literals import refusal

from vyre_driver.backends import DispatchConfig, PersistentThreadMode, SpeculationMode
from vyre_driver.errors import InvalidDispatchConfig

DEFAULTS = {
    "profile": None,
    "ulp_budget": None,
    "timeout": None,
    "label": None,
    "max_output_bytes": None,
    "workgroup_override": None,
    "grid_override": None,
    "fixpoint_iterations": None,
    "speculation": SpeculationMode.AUTO,
    "persistent_thread": PersistentThreadMode.AUTO,
    "cooperative": False,
    "subgroup_size": None,
    "dispatch_elements": None,
    "dispatch_grid": None,
}


def test_by_default_everything_is_left_to_the_driver() -> None:
    assert asdict(DispatchConfig()) == DEFAULTS


def test_the_short_constructor_takes_profile_budget_timeout_and_label() -> None:
    assert asdict(DispatchConfig.new("fast", 1, 2.5, "step")) == DEFAULTS | {
        "profile": "fast",
        "ulp_budget": 1,
        "timeout": 2.5,
        "label": "step",
    }


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"ulp_budget": 0}, 0),
        ({"ulp_budget": np.uint8(255)}, 255),
        ({"timeout": 5e-324}, 5e-324),
        ({"timeout": 3}, 3),
        ({"max_output_bytes": 0}, 0),
        ({"max_output_bytes": 2**64 - 1}, 2**64 - 1),
        ({"workgroup_override": [1, 2, 2**32 - 1]}, (1, 2, 2**32 - 1)),
        ({"grid_override": (np.int64(4), 1, 1)}, (4, 1, 1)),
        ({"fixpoint_iterations": 1}, 1),
        ({"fixpoint_iterations": 2**32 - 1}, 2**32 - 1),
        ({"speculation": SpeculationMode.FORCE}, SpeculationMode.FORCE),
        ({"persistent_thread": PersistentThreadMode.DISABLE}, PersistentThreadMode.DISABLE),
        ({"cooperative": True}, True),
        ({"subgroup_size": 1}, 1),
        ({"subgroup_size": np.uint32(2**31)}, 2**31),
        ({"dispatch_elements": 0}, 0),
        ({"dispatch_elements": 2**32 - 1}, 2**32 - 1),
        ({"dispatch_grid": [3, 1, 1]}, (3, 1, 1)),
    ],
)
def test_a_wish_within_its_range_is_kept(given: dict[str, Any], kept: object) -> None:
    name = next(iter(given))
    made = DispatchConfig(**given)
    assert asdict(made) == DEFAULTS | {name: kept}
    assert hash(made) == hash(DispatchConfig(**{name: kept}))


POWER = ("is not a power of two from 1 to 2147483648", "give a power of two that the device offers, such as 32")


def wholes(low: int, high: int) -> tuple[str, str]:
    return f"is not an integer from {low} to {high}", f"give an integer from {low} to {high}"


@pytest.mark.parametrize(
    ("name", "value", "wrong", "reason"),
    [
        ("profile", 1, 1, ("is not a str", "give a str")),
        ("label", b"x", b"x", ("is not a str", "give a str")),
        ("ulp_budget", -1, -1, wholes(0, 255)),
        ("ulp_budget", 256, 256, wholes(0, 255)),
        ("ulp_budget", True, True, wholes(0, 255)),
        ("ulp_budget", 1.0, 1.0, wholes(0, 255)),
        ("timeout", 0, 0, ("is not a number of seconds above 0", "give seconds, for example 2.5")),
        ("timeout", -1.0, -1.0, ("is not a number of seconds above 0", "give seconds, for example 2.5")),
        ("timeout", math.inf, math.inf, ("is not a number of seconds above 0", "give seconds, for example 2.5")),
        ("timeout", math.nan, math.nan, ("is not a number of seconds above 0", "give seconds, for example 2.5")),
        ("timeout", "1", "1", ("is not a number of seconds above 0", "give seconds, for example 2.5")),
        ("timeout", True, True, ("is not a number of seconds above 0", "give seconds, for example 2.5")),
        ("max_output_bytes", -1, -1, wholes(0, 2**64 - 1)),
        ("max_output_bytes", 2**64, 2**64, wholes(0, 2**64 - 1)),
        ("workgroup_override", (1, 1), (1, 1), ("is not 3 numbers", "give (x, y, z)")),
        ("workgroup_override", 64, 64, ("is not 3 numbers", "give (x, y, z)")),
        ("workgroup_override", "111", "111", ("is not 3 numbers", "give (x, y, z)")),
        ("workgroup_override", (64, 0, 1), 0, wholes(1, 2**32 - 1)),
        ("workgroup_override", (64, 1, 2**32), 2**32, wholes(1, 2**32 - 1)),
        ("grid_override", (0, 1, 1), 0, wholes(1, 2**32 - 1)),
        ("grid_override", (1, 1, 1, 1), (1, 1, 1, 1), ("is not 3 numbers", "give (x, y, z)")),
        ("fixpoint_iterations", 0, 0, wholes(1, 2**32 - 1)),
        ("fixpoint_iterations", 2**32, 2**32, wholes(1, 2**32 - 1)),
        ("speculation", "force", "force", ("is not a SpeculationMode", "give a SpeculationMode")),
        ("speculation", None, None, ("is not a SpeculationMode", "give a SpeculationMode")),
        (
            "persistent_thread",
            SpeculationMode.FORCE,
            SpeculationMode.FORCE,
            ("is not a PersistentThreadMode", "give a PersistentThreadMode"),
        ),
        ("cooperative", 1, 1, ("is not a bool", "give a bool")),
        *(("subgroup_size", value, value, POWER) for value in (0, -32, 48, 2**32, True, 32.0, "32")),
    ],
)
def test_a_wish_out_of_its_range_is_refused(name: str, value: object, wrong: object, reason: tuple[str, str]) -> None:
    message = f"{name} of the dispatch is {wrong!r}, which {reason[0]}. Fix: {reason[1]}."
    assert refusal(lambda: DispatchConfig(**{name: value})) == (InvalidDispatchConfig, 2106, message)  # type: ignore[arg-type]


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        DispatchConfig().ulp_budget = 1  # type: ignore[misc]
