"""What a store of names and bytes must be able to do, whatever it is reached by.

A store decides nothing: whether a value may be used, its signature says (envelope.py). No method tries twice. The waits of a
client library bound single reads only, so the caller keeps a deadline for the whole operation and calls ``close`` from
another thread when it has passed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FailureKind: TypeAlias = Literal["refused", "tls", "timed_out", "late", "cut", "denied", "full", "other"]


class StoreFailure(Exception):
    """A store did not do what it was asked for.

    ``kind``: ``refused`` no connection; ``tls`` one, but not under TLS; ``timed_out`` no answer in time; ``late`` not the whole
    of it in time (link.py); ``cut`` the connection ended within an answer; ``denied`` wrong password, certificate or rights;
    ``full`` no room; ``other`` anything else. The text has no secrets.
    """

    def __init__(self, kind: FailureKind, text: str) -> None:
        """Keep the kind beside the text."""
        super().__init__(text)
        self.kind: FailureKind = kind


class Store(Protocol):
    """Bytes by name. Every method but ``close`` raises StoreFailure, and is called by one thread at a time.

    Names are of ASCII letters, digits, ``:`` and ``-`` (names.py). ``address`` names the store without any secret.
    """

    address: str

    def fetch(self, names: Sequence[str], limit: int) -> list[bytes | None]:
        """Return the value of each name, None where there is none, in one round trip.

        Of a value over ``limit`` bytes come its first ``limit`` + 1. What has the name and is no value counts as empty.
        """

    def put_new(self, name: str, data: bytes, keep_s: int) -> bool:
        """Store a value whole unless the name is taken; returns whether it was free. What was there first stays.

        A store that forgets by itself keeps it for ``keep_s`` seconds; of others old values are removed by their owner.
        """

    def claim(self, name: str, owner: bytes, for_s: float) -> bool:
        """Take a name for ``for_s`` seconds unless somebody has it; returns whether it is ours. Then others may."""

    def fields(self, name: str, limit: int) -> dict[str, bytes]:
        """Return the fields below a name, none of them over ``limit`` bytes; at most 1024, and 16 MiB in all.

        Raises StoreFailure (``other``) where there is more.
        """

    def put_field(self, name: str, field: str, data: bytes, keep_s: int) -> None:
        """Store a field below a name, in the place of one that is there."""

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names of values that begin with a prefix of names.py, each once, in no order."""

    def touch(self, names: Sequence[str], keep_s: int) -> None:
        """Say that these were used: they are kept for ``keep_s`` seconds more, as far as we may say so."""

    def ping(self) -> None:
        """Return when the store has answered."""

    def close(self) -> None:
        """End the connection; callable from another thread, where it ends what waits. The next call makes a new one."""


@runtime_checkable
class Timed(Protocol):
    """A store that has a clock of its own."""

    def time_s(self) -> float:
        """Return its time in seconds since 1970; raises StoreFailure."""


MOST_FIELDS = 1024
MOST_FIELDS_BYTES = 16 << 20
MOST_OWNER_BYTES = 4096


def too_many_fields(address: str, found: str) -> StoreFailure:
    """Return the failure of a name with more below it than is read."""
    return StoreFailure("other", f"{address} has {found} below one name, where {MOST_FIELDS} fields and 16 MiB are the limit")


def claim_text(owner: bytes, for_s: float) -> bytes:
    """Return what a store without claims of its own keeps under a name that is taken for so long, by this machine's clock."""
    return f"{time.time() + for_s:.3f} ".encode() + owner


def claim_ends_at(claim: bytes) -> float:
    """Return when a claim runs out, in seconds since 1970; 0 for what is none."""
    try:
        return float(claim.partition(b" ")[0])
    except ValueError:
        return 0.0
