"""Strict calls: outputs that start as poison, and inputs that must not have changed.

A write-only buffer starts as the poison of the run, a 16-bit pattern repeated from its first byte, in place of zeros or of what
the caller gave. An element that still holds the poison was not written, or was written with just that value. So the same call
is run again with another poison, and an element counts as never written only when it held the poison of every run: a shader
that writes the same value each time differs from at least one of them. Elements narrower than 32 bits take more runs, until 64
bits have been compared of each: what differs from run to run agrees with all of them by chance once in 2**64.

A shader cannot see the poison in a buffer that it only writes, so nothing else changes. Read-write buffers are not poisoned:
what they hold is the shader's input.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.errors import InputChanged, OutputNotWritten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.binding.plan import Binding, BindingPlan
    from vyre_driver.kompute.array_dispatch import RecordedDispatch, StageTimes

# The first is a quiet NaN as float16, bfloat16, float32 and float64, and 2147123194 as a 32-bit integer. Both bytes of each
# differ from those of all others, so that one byte tells any two apart.
POISONS = (0x7FFA, 0xD65B, 0x69C6, 0xB593, 0x5AE5, 0xE36A, 0x96B4, 0xCBAD)
_COMPARED_BYTES = 8
_LEAST_RUNS = 2
_MAX_SHOWN_BYTES = 16
_KEPT = {"shader": "drop writeonly", "program": "declare it read_write"}
_WRITTEN = {
    "shader": "declare what the shader writes without readonly",
    "program": "declare what the program writes read_write",
}


class StrictCall:
    """One call under watch, with what ``RecordedDispatch.run`` takes and the plan that says what each buffer is."""

    def __init__(
        self,
        recorded: RecordedDispatch,
        plan: BindingPlan,
        contents: Sequence[NDArray[Any] | None],
        outputs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]],
    ) -> None:
        """Take a call that was proven to fit."""
        self._recorded = recorded
        self._bindings = plan.descriptors
        self._contents = contents
        self._outputs = outputs
        written = [place for place, one in enumerate(self._bindings) if one.role.produces_output]
        self._poisoned = {place: at for at, place in enumerate(written) if not self._bindings[place].role.consumes_input}
        self._kept = [place for place, one in enumerate(self._bindings) if not one.role.produces_output]

    def run(
        self, push_words: tuple[int, ...], *, split: bool, timeout_s: float | None
    ) -> tuple[list[NDArray[Any]], StageTimes]:
        """Run the call, again where poison is left, and return what the first run gave.

        Raises
        ------
        OutputNotWritten
            If an element of a write-only buffer was never written.
        InputChanged
            If a read-only buffer holds other bytes after a run.
        DispatchFailed
            If the device fails; and whatever else ``RecordedDispatch.run`` raises.
        """
        results, stages = self._run_once(POISONS[0], push_words, split=split, timeout_s=timeout_s)
        left = {place: self._poison_left(place, results, POISONS[0]) for place in self._poisoned}
        runs = 1
        while True:
            left = {place: units for place, units in left.items() if units.any()}
            for place, units in left.items():
                if runs >= _runs_needed(self._bindings[place]):
                    raise _never_written(self._bindings[place], units)
            if not left:
                for place in self._poisoned:
                    self._clear_padding(place, results)
                return results, stages
            again, _ = self._run_once(POISONS[runs], push_words, split=split, timeout_s=timeout_s)
            left = {place: units & self._poison_left(place, again, POISONS[runs]) for place, units in left.items()}
            runs += 1

    def _run_once(
        self, poison: int, push_words: tuple[int, ...], *, split: bool, timeout_s: float | None
    ) -> tuple[list[NDArray[Any]], StageTimes]:
        contents = list(self._contents)
        for place, at in self._poisoned.items():
            shape, dtype = self._outputs[at]
            contents[place] = _poison(math.prod(shape) * dtype.itemsize, poison)
        results, stages, kept = self._recorded.run(
            contents, self._outputs, push_words, self._kept, split=split, timeout_s=timeout_s
        )
        for place, after in zip(self._kept, kept, strict=True):
            _check_unchanged(self._bindings[place], contents[place], after)
        return results, stages

    def _poison_left(self, place: int, results: Sequence[NDArray[Any]], poison: int) -> NDArray[np.bool_]:
        """Return which units of an output, those after its header, hold the poison."""
        held = results[self._poisoned[place]].reshape(-1).view(np.uint8)
        binding = self._bindings[place]
        same = held == _poison(held.nbytes, poison)
        units: NDArray[np.bool_] = same[binding.header_bytes :].reshape(-1, _unit_bytes(binding)).all(axis=1)
        return units

    def _clear_padding(self, place: int, results: Sequence[NDArray[Any]]) -> None:
        """Put what the caller gave, or zeros, where no value of an element lies: no shader writes over the poison there."""
        binding, given = self._bindings[place], self._contents[place]
        held = results[self._poisoned[place]].reshape(-1).view(np.uint8)
        padding = None if binding.layout is None else binding.layout.padding(held.size)
        if padding is not None:
            held[padding] = 0 if given is None else given.reshape(-1).view(np.uint8)[padding]


def _poison(byte_len: int, pattern: int) -> NDArray[np.uint8]:
    return np.full(-(-byte_len // 2), pattern, "<u2").view(np.uint8)[:byte_len]


def _unit_bytes(binding: Binding) -> int:
    """Return how much is written at once: a component of what is tightly packed, else an element with its padding."""
    scalar = binding.element.scalar if binding.element is not None else None
    return binding.stride if scalar is None else scalar.byte_len


def _runs_needed(binding: Binding) -> int:
    return max(_LEAST_RUNS, _COMPARED_BYTES // _unit_bytes(binding))


def _never_written(binding: Binding, units: NDArray[np.bool_]) -> OutputNotWritten:
    """Build the error of an output; a vector counts as not written when one of its components is not."""
    components = binding.stride // _unit_bytes(binding)
    elements = units.reshape(-1, components).any(axis=1)
    first, component = divmod(int(units.argmax()), components)
    count, total = int(elements.sum()), units.size // components
    where = f"index {first}" + (f" (component {component})" if components > 1 else "")
    return OutputNotWritten(
        f"{binding.described} has {total} elements, and {count} of them were never written, the first at {where}",
        fix="write each of them, or start more workgroups (workgroups=), or "
        f"{_KEPT[binding.subject]} where the rest is to stay as given",
        binding=binding.name,
        count=count,
        elements=total,
        first_index=first,
    )


def _check_unchanged(binding: Binding, before: NDArray[Any] | None, after: NDArray[np.uint8]) -> None:
    """Check that a read-only buffer holds what it was given; raises InputChanged 2009."""
    given = np.zeros(after.nbytes, np.uint8) if before is None else before.reshape(-1).view(np.uint8)
    unit, noun = (1, "bytes") if binding.header_bytes else (binding.stride, "elements")
    changed = (given != after).reshape(-1, unit).any(axis=1)
    if not changed.any():
        return
    first, count = int(changed.argmax()), int(changed.sum())
    place = slice(first * unit, (first + 1) * unit)
    was, became = (_shown(binding, one[place]) for one in (given, after))
    raise InputChanged(
        f"{binding.described} has {len(changed)} {noun}, and the dispatch changed {count} of them, the first at index {first} "
        f"from {was} to {became}",
        fix=f"{_WRITTEN[binding.subject]}, and check the indices of all that it writes",
        binding=binding.name,
        count=count,
        elements=len(changed),
        first_index=first,
    )


def _shown(binding: Binding, unit: NDArray[np.uint8]) -> str:
    dtype = binding.dtype
    if dtype is not None:
        values = np.ascontiguousarray(unit).view(dtype).tolist()
        return str(values[0] if len(values) == 1 else values)
    return f"0x{unit[:_MAX_SHOWN_BYTES].tobytes().hex()}" + ("..." if len(unit) > _MAX_SHOWN_BYTES else "")
