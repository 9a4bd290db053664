"""SHA-256 of records of one length, one an invocation; the 64 rounds are unrolled, their constants computed by Python."""

import hashlib
from math import isqrt

import numpy as np
from checked import run_checked, tell

from vyre_driver.lang import In2, Index, Out2, kernel, rotr, static_range, u32

SIZE = 1 << 14
RECORD = 100  # bytes

PRIMES = [n for n in range(2, 312) if all(n % d for d in range(2, isqrt(n) + 1))]


def root_bits(n, degree):
    """Return the first 32 bits behind the point of a root of n."""
    low, high = 0, n << 32
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**degree <= n << 32 * degree else (low, middle - 1)
    return low & 0xFFFFFFFF


START = tuple(u32(root_bits(prime, 2)) for prime in PRIMES[:8])
ROUNDS = tuple(root_bits(prime, 3) for prime in PRIMES)


def words_of(data, i, at):
    words = ()
    for k in static_range(16):
        words = (*words, data[i, at + k])
    return words


def sums(left, right):
    found = ()
    for k in static_range(8):
        found = (*found, left[k] + right[k])
    return found


def with_block(state, words):
    """Return the state after one more block of 16 words."""
    a, b, c, d, e, f, g, h = state
    for n in static_range(64):
        if n >= 16:
            s0 = rotr(words[1], 7) ^ rotr(words[1], 18) ^ (words[1] >> 3)
            s1 = rotr(words[14], 17) ^ rotr(words[14], 19) ^ (words[14] >> 10)
            words = (*words[1:], words[0] + s0 + words[9] + s1)
        word = words[n] if n < 16 else words[15]
        t1 = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[n] + word
        t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))
        a, b, c, d, e, f, g, h = t1 + t2, a, b, c, d + t1, e, f, g
    return sums(state, (a, b, c, d, e, f, g, h))


@kernel
def sha256(i: Index, data: In2[u32], digests: Out2[u32]):
    state = START
    for block in range(data.shape[1] // 16):
        state = with_block(state, words_of(data, i, block * 16))
    for k in static_range(8):
        digests[i, k] = state[k]


def data(size):
    return (np.random.default_rng(0).integers(0, 256, (size, RECORD), np.uint8),)


def compute(records):
    count, length = records.shape
    padded = np.zeros((count, -(-(length + 9) // 64) * 64), np.uint8)
    padded[:, :length] = records
    padded[:, length] = 0x80
    padded[:, -8:] = np.frombuffer((8 * length).to_bytes(8, "big"), np.uint8)
    words = padded.view(">u4").astype(np.uint32)
    digests = sha256(words, np.empty((count, 8), np.uint32))
    return digests.astype(">u4").view(np.uint8)


def expected(records):
    return np.stack([np.frombuffer(hashlib.sha256(record).digest(), np.uint8) for record in records])


def run(size=SIZE):
    return run_checked(data(size), compute, expected)


def main():
    tell(f"SHA-256 of {SIZE:,} records of {RECORD} bytes", run())


if __name__ == "__main__":
    main()
