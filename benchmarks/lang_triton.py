"""saxpy in Triton, which reads the source of a kernel from its file."""

from __future__ import annotations

import triton  # type: ignore[import-not-found] # where it is installed
import triton.language as tl  # type: ignore[import-not-found] # the same


@triton.jit
def saxpy(x, y, a, n, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201, N803 -- as Triton has it
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(y + i, a * tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)
