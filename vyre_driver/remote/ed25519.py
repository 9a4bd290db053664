"""Which public keys of Ed25519 are worth trusting.

A key of small order is one by which signatures can be made without any private key, and OpenSSL refuses none.

Source: RFC 8032, 5.1 (the curve) and 5.1.3 (decoding); the doubling formula of twisted Edwards curves with a = -1.
"""

from __future__ import annotations

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P


def is_strong(public: bytes) -> bool:
    """Whether the 32 bytes of a public key are a point of the curve whose order is not 1, 2, 4 or 8."""
    y = int.from_bytes(public, "little") & (2**255 - 1)
    if y >= _P:
        return False
    y_squared = y * y % _P
    x_squared = (y_squared - 1) * pow(_D * y_squared + 1, -1, _P) % _P
    is_point = pow(x_squared, (_P - 1) // 2, _P) in {0, 1}  # Euler: there is a root
    # The doubles of the points of order 8 have y = 0, as those of order 4 have; of order 1 and 2 they have x = 0.
    is_of_small_order = x_squared == 0 or y == 0 or (x_squared + y_squared) % _P == 0
    return is_point and not is_of_small_order
