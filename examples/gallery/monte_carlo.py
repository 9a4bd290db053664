"""The price of a European call by Monte Carlo, with random numbers of a counter (Philox 4 x 32, 10 rounds).

Any number of the sequence can be had from its place alone, so numpy makes the same ones, and the same paths, in any order.
"""

import math

import numpy as np
from checked import run_checked, tell

from vyre_driver.lang import Index, Out, f32, i32, kernel, static_range, u32

SIZE = 1 << 20  # paths
EACH = 64  # paths an invocation, in fours
SPOT, STRIKE, YEARS, RATE, VOLATILITY = 100.0, 105.0, 1.0, 0.03, 0.2
DRIFT, DEVIATION = (RATE - 0.5 * VOLATILITY**2) * YEARS, VOLATILITY * math.sqrt(YEARS)
KEY = (0x243F6A88, 0x85A308D3)
M0, M1, W0, W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85


def high_product(a, b):
    """Return the upper 32 bits of a product of two words, by their halves."""
    low_a, high_a, low_b, high_b = a & 0xFFFF, a >> 16, b & 0xFFFF, b >> 16
    middle = high_a * low_b + (low_a * low_b >> 16)
    other = low_a * high_b + (middle & 0xFFFF)
    return high_a * high_b + (middle >> 16) + (other >> 16)


def philox(c0, c1, c2, c3):
    """Return four random words of a counter of four."""
    k0, k1 = u32(KEY[0]), u32(KEY[1])
    for _ in static_range(10):
        high0, low0 = high_product(u32(M0), c0), u32(M0) * c0
        high1, low1 = high_product(u32(M1), c2), u32(M1) * c2
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + u32(W0), k1 + u32(W1)
    return c0, c1, c2, c3


def two_normals(a, b):
    """Return two normal numbers of two words (Box and Muller)."""
    radius = math.sqrt(-2.0 * math.log((f32(a >> 8) + 0.5) * 2.0**-24))
    angle = f32(b >> 8) * (2.0**-24 * 2.0 * math.pi)
    return radius * math.cos(angle), radius * math.sin(angle)


def payoff(normal):
    return max(SPOT * math.exp(DRIFT + DEVIATION * normal) - STRIKE, 0.0)


@kernel
def sum_payoffs(i: Index, sums: Out[f32], turns: i32):
    total = 0.0
    for turn in range(turns):
        a, b, c, d = philox(u32(i), u32(turn), u32(0), u32(0))
        e, f = two_normals(a, b)
        g, h = two_normals(c, d)
        total += payoff(e) + payoff(f) + payoff(g) + payoff(h)
    sums[i] = total


def data(size):
    return (size // EACH,)


def compute(invocations):
    return sum_payoffs.over(invocations)(turns=EACH // 4)


def expected(invocations):
    turn, i = np.mgrid[: EACH // 4, :invocations].astype(np.uint64)
    a, b, c, d = _philox(i, turn, np.zeros_like(i), np.zeros_like(i))
    normals = np.stack([*_two_normals(a, b), *_two_normals(c, d)])
    payoffs = np.maximum(SPOT * np.exp(DRIFT + DEVIATION * normals) - STRIKE, 0)
    return payoffs.sum((0, 1))


def _philox(c0, c1, c2, c3):
    """Return the same by products of 64 bits."""
    word = np.uint64(0xFFFFFFFF)
    k0, k1 = KEY
    for _ in range(10):
        first, second = np.uint64(M0) * c0, np.uint64(M1) * c2
        c0, c1, c2, c3 = (second >> 32) ^ c1 ^ np.uint64(k0), second & word, (first >> 32) ^ c3 ^ np.uint64(k1), first & word
        k0, k1 = (k0 + W0) & 0xFFFFFFFF, (k1 + W1) & 0xFFFFFFFF
    return c0, c1, c2, c3


def _two_normals(a, b):
    radius, angle = np.sqrt(-2 * np.log(((a >> 8) + 0.5) * 2.0**-24)), (b >> 8) * (2.0**-24 * 2 * np.pi)
    return radius * np.cos(angle), radius * np.sin(angle)


def exact_price():
    """Return the price by the formula of Black and Scholes."""
    d1 = (math.log(SPOT / STRIKE) + DRIFT + DEVIATION**2) / DEVIATION
    a, b = ((1 + math.erf(d / math.sqrt(2))) / 2 for d in (d1, d1 - DEVIATION))
    return SPOT * a - STRIKE * math.exp(-RATE * YEARS) * b


def price(sums):
    """Return the price that sums of payoffs say."""
    return float(np.sum(sums, dtype=np.float64)) / (len(sums) * EACH) * math.exp(-RATE * YEARS)


def run(size=SIZE):
    found = run_checked(data(size), compute, expected, rtol=1e-3)
    spread = 15.0 / math.sqrt(size)  # the deviation of a payoff is about 14.5
    if abs(price(found.result) - exact_price()) > 4 * spread:
        raise AssertionError(f"the price is {price(found.result)}, and {exact_price()} by the formula")
    return found


def main():
    found = run()
    tell(f"{SIZE:,} paths (price {price(found.result):.4f}, exactly {exact_price():.4f})", found)


if __name__ == "__main__":
    main()
