"""What the structural check refuses of many mutated modules, spirv-val refuses too."""

from __future__ import annotations

import pytest
from mutations import complaint, faulty_mutants
from spirv_corpus import modules


@pytest.mark.parametrize("seed", range(2, 12))
def test_spirv_val_refuses_what_is_refused(seed: int) -> None:
    faulty = faulty_mutants(modules(), count=300, seed=seed)
    assert [code.hex() for code in faulty if not complaint(code)] == []
    assert len(faulty) > 90
