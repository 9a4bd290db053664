"""Attention that ``vyre_driver.matrices`` emits, run on a device, and what it is in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.matrices.attention import PUSHED, attention_module
from vyre_driver.spirv.module import SpirvModule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver import Driver
    from vyre_driver.matrices.description import AttentionDescription

NUMBERS = {"float16": np.float16, "float32": np.float32}
POISON = 77
BEHIND = 64  # elements behind the result that must stay as they were


@dataclass(frozen=True)
class Case:
    """Arrays of shape (batch, heads, sequence, head), k and v with fewer heads; ``shift`` as it is pushed."""

    q: NDArray[Any]
    k: NDArray[Any]
    v: NDArray[Any]
    shift: int = 0
    scale: float = 0.25


def drawn(sizes: tuple[int, int, int, int, int, int], seed: int = 1, shift: int = 0) -> Case:
    """Return a case of a batch, heads, heads of keys, queries, keys and a head size."""
    batch, heads, kv_heads, queries, keys, head = sizes
    dice = np.random.default_rng(seed)
    q = dice.standard_normal((batch, heads, queries, head)).astype(np.float16)
    k, v = (dice.standard_normal((batch, kv_heads, keys, head)).astype(np.float16) for _ in range(2))
    return Case(q, k, v, shift)


def expected(case: Case, *, is_causal: bool) -> NDArray[np.float64]:
    """Return the attention in float64; zeros where a query sees no key."""
    q, k, v = (one.astype(np.float64) for one in (case.q, case.k, case.v))
    k, v = (np.repeat(one, q.shape[1] // one.shape[1], axis=1) for one in (k, v))
    with np.errstate(invalid="ignore", over="ignore"):
        scores = case.scale * q @ k.swapaxes(-1, -2)
        if is_causal:
            seen = np.arange(k.shape[2]) <= np.arange(q.shape[2])[:, None] + case.shift
            scores = np.where(seen, scores, -np.inf)
        top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
        weights = np.exp(scores - np.where(top == -np.inf, 0, top))
        total = weights.sum(axis=-1, keepdims=True)
        return np.divide(weights @ v, total, out=np.zeros_like(q), where=total != 0)


def attention(driver: Driver, description: AttentionDescription, case: Case, *, is_interleaved: bool = False) -> NDArray[Any]:
    """Return what the device makes of a case, heads of a row side by side in memory where ``is_interleaved``.

    What lies behind the result must be untouched.
    """
    batch, heads, queries, head = case.q.shape
    _, kv_heads, keys, _ = case.k.shape
    out = np.full(case.q.size + BEHIND, POISON, NUMBERS[description.out.name])
    scale = int(np.float32(case.scale).view(np.uint32))
    pushed = [heads, kv_heads, queries, keys, scale, case.shift & 0xFFFF_FFFF]
    for of, rows in ((heads, queries), (kv_heads, keys), (kv_heads, keys), (heads, queries)):
        pushed += [of * head, head, rows * of * head] if is_interleaved else [head, rows * head, rows * of * head]
    groups = heads * -(-queries // description.tiling.tile)
    across = min(groups, 3)  # so that y is used, and workgroups are left over
    kernel = driver.compile(SpirvModule.from_bytes(attention_module(description)))
    inputs = [driver.buffer(words(one, is_interleaved=is_interleaved)) for one in (case.q, case.k, case.v)]
    with driver.buffer(out) as o, inputs[0], inputs[1], inputs[2]:
        grid = across, -(-groups // across), batch
        kernel.bind(*inputs, o, workgroups=grid, push_constants=dict(zip(PUSHED, pushed, strict=True))).run()
        out = o.read()
    assert out[case.q.size :].tolist() == [POISON] * BEHIND
    if is_interleaved:
        return out[: case.q.size].reshape(batch, queries, heads, head).transpose(0, 2, 1, 3)
    return out[: case.q.size].reshape(case.q.shape)


def words(array: NDArray[Any], *, is_interleaved: bool) -> NDArray[Any]:
    """Return the bits of an array as the kernel's buffer has them, vectors of 16 bytes."""
    stored = np.ascontiguousarray(array.transpose(0, 2, 1, 3)) if is_interleaved else array
    return stored.reshape(-1).view(np.uint32).reshape(-1, 4)
