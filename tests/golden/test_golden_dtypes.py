"""Upstream's facts on data types, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
from vectors import dtype, vectors

from vyre_driver.ir.dtypes import wire_problem

CASES = vectors("dtypes.json")["cases"]


def number(text: str | None) -> int | None:
    return None if text is None else int(text)


@pytest.mark.parametrize("facts", CASES, ids=[f"{place}-{facts['dtype']['type']}" for place, facts in enumerate(CASES)])
def test_tag_sizes_and_encoding_are_upstreams(facts: dict[str, Any]) -> None:
    one = dtype(facts["dtype"])
    assert (one.min_bytes, one.size_bytes) == (number(facts["min_bytes"]), number(facts["size_bytes"]))
    if facts["builtin_wire_tag"] is not None:
        assert one.wire_tag == facts["builtin_wire_tag"]
    if facts["fingerprint_err"] is None:
        assert (one.encoded.hex(), wire_problem(one)) == (facts["fingerprint_hex"], None)
    else:
        assert wire_problem(one) is not None


def test_the_vectors_are_whole() -> None:
    assert len(CASES) == 41
