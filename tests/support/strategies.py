"""What the property tests draw from: real modules, word streams that look like SPIR-V, manifests and entries."""

from __future__ import annotations

import array
from importlib.resources import files

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from vyre_driver.cache.entry import PipelineEntry

# How long an example takes says something of the machine only.
settings.register_profile("vyre", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("vyre")

SHIPPED = {
    name: files("vyre_driver.shaders").joinpath(f"{name}.spv").read_bytes()
    for name in ("byte_histogram", "mandelbrot", "saxpy")
}

words = st.integers(0, 2**32 - 1)
digests = st.binary(min_size=32, max_size=32)

# The numbers that corruption is tried with: extremes, small ids, and instructions of length 0, 1 and 2.
hostile_words = (
    st.sampled_from([0, 1, 2, 0xFFFF_FFFF, 0x8000_0000, 54, 56, 1 << 16 | 56, 2 << 16 | 54]) | st.integers(0, 64) | words
)


@st.composite
def instructions(draw: st.DrawFn) -> list[int]:
    """One instruction, mostly well framed, often one that begins or ends a function."""
    operands = draw(st.lists(st.integers(0, 3), max_size=4))
    length = draw(st.just(len(operands) + 1) | st.integers(0, 6))
    opcode = draw(st.sampled_from([54, 56, 54, 56, 17, 248]))
    return [length << 16 | opcode, *operands]


@st.composite
def word_streams(draw: st.DrawFn) -> bytes:
    """A header, mostly with the magic number, and instructions."""
    magic = draw(st.sampled_from([0x07230203] * 6 + [0x03022307, 0]))
    header = [magic, 0x0001_0300, 0, 100, 0][: draw(st.sampled_from([5, 5, 5, 5, 4]))]
    body = draw(st.lists(instructions(), max_size=12))
    return array.array("I", [*header, *(word for instruction in body for word in instruction)]).tobytes()


@st.composite
def corrupted_modules(draw: st.DrawFn) -> bytes:
    """A shipped module with one to four words overwritten."""
    found = array.array("I", draw(st.sampled_from(sorted(SHIPPED.values()))))
    for _ in range(draw(st.integers(1, 4))):
        found[draw(st.integers(0, len(found) - 1))] = draw(hostile_words)
    return found.tobytes()


any_modules = st.binary(max_size=64).map(lambda data: data[: len(data) // 4 * 4]) | word_streams() | corrupted_modules()

field_values = st.integers(0, 2**64 - 1) | st.text(max_size=20) | st.binary(max_size=20)
manifest_fields = st.lists(st.tuples(st.text(max_size=20), field_values), max_size=8)

entries = st.builds(PipelineEntry, st.binary(max_size=40), st.binary(max_size=40), imported=st.booleans())
