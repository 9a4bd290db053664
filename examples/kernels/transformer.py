"""A transformer's block on the device: norm, causal attention, norm, and two linear layers, with what numpy makes of it beside.

Run as ``python examples/kernels/transformer.py``. Arrays stay on the device between the kernels; each linear layer adds its
bias, its activation or the residual on the way out.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from vyre_driver import Buffer, Driver, kernels


@dataclass(frozen=True)
class Sizes:
    """Tokens, numbers of each, heads of them, and numbers between the two linear layers."""

    tokens: int
    width: int
    heads: int
    inner: int


def drawn(sizes: Sizes) -> dict[str, np.ndarray[Any, Any]]:
    """Return the tokens and the weights of a block, float16, by name."""
    dice = np.random.default_rng(1)
    width, inner = sizes.width, sizes.inner
    shapes = {"q": (width, width), "k": (width, width), "v": (width, width), "o": (width, width)}
    shapes |= {"up": (inner, width), "down": (width, inner)}
    weights = {name: dice.standard_normal(shape) / math.sqrt(shape[1]) for name, shape in shapes.items()}
    arrays = {"x": dice.standard_normal((sizes.tokens, width)), "norm1": np.ones(width), "norm2": np.ones(width), **weights}
    arrays["up_bias"] = dice.standard_normal(inner) / 8
    return {name: one.astype(np.float16) for name, one in arrays.items()}


class Block:
    """The kernels of a block; called with buffers, it returns one."""

    def __init__(self, driver: Driver, sizes: Sizes) -> None:
        """Choose them."""
        self.sizes = sizes
        self.norm = kernels.rmsnorm(driver)
        self.linear = kernels.linear(driver, bias=False)
        self.linear_and_add = kernels.linear(driver, bias=False, residual=True)
        self.linear_gelu = kernels.linear(driver, activation="gelu")
        self.attention = kernels.attention(driver, is_causal=True, heads_first=False)

    def __call__(self, of: dict[str, Buffer]) -> Buffer:
        """Return what becomes of ``of["x"]``, (tokens, width)."""
        x, heads = of["x"], (self.sizes.tokens, self.sizes.heads, -1)
        normed = self.norm(x, of["norm1"])
        q, k, v = (self.linear(normed, of[name]).reshape(heads) for name in "qkv")
        attended = self.attention(q, k, v).reshape(x.shape)
        x = self.linear_and_add(attended, of["o"], x)
        inner = self.linear_gelu(self.norm(x, of["norm2"]), of["up"], of["up_bias"])
        return self.linear_and_add(inner, of["down"], x)


def expected(sizes: Sizes, given: dict[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Return what numpy makes of it in float64."""
    of = {name: one.astype(np.float64) for name, one in given.items()}
    erf = np.vectorize(math.erf)

    def norm(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)

    x, normed = of["x"], norm(of["x"])
    q, k, v = ((normed @ of[name].T).reshape(sizes.tokens, sizes.heads, -1).swapaxes(0, 1) for name in "qkv")
    scores = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1])
    scores = np.where(np.tri(sizes.tokens, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    attended = (weights / weights.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(x.shape)
    x = x + attended @ of["o"].T
    inner = norm(x) @ of["up"].T + of["up_bias"]
    return x + inner * (1 + erf(inner / math.sqrt(2))) / 2 @ of["down"].T


def main() -> None:
    """Run a block, and print how far it is from numpy's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    options = parser.parse_args()
    sizes = Sizes(options.tokens, options.width, max(options.width // 64, 1), 4 * options.width)
    given = drawn(sizes)
    with Driver() as driver:
        block = Block(driver, sizes)
        found = block({name: driver.buffer(one) for name, one in given.items()}).read().astype(np.float64)
    want = expected(sizes, given)
    print(f"{driver.device.name}: {sizes}")
    print(f"largest difference from float64: {np.abs(found - want).max() / np.abs(want).max():.1e} of the largest")


if __name__ == "__main__":
    main()
