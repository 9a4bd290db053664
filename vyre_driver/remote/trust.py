"""Whose signatures are taken, and the key that this process signs with.

Entries are signed with Ed25519, by named keys that can be taken back one by one: a reader that was broken into cannot write
for a thousand others.

Source: RFC 8032 (Ed25519).
"""

from __future__ import annotations

import base64
import datetime as dt
import functools
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from vyre_driver import settings
from vyre_driver.cache.files import write_all
from vyre_driver.cache.seal import read_key_file, unfit_key_file
from vyre_driver.errors import BackendUnavailable, FileUnusable
from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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


KEY_ID_BYTES = 8
_KEY_BYTES = 32
_MOST_TRUST_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_BOUND = re.compile(r"(from|until)=([0-9]{4}-[0-9]{2}-[0-9]{2})")
_DAY_S = 86400
_PRIVATE = "vyre-ed25519-private "
_KEY_FIX = "make one with vyre-driver cache keygen FILE, mode 600, outside the cache"
_TRUST_FIX = "write lines NAME BASE64-KEY [from=2026-01-31] [until=2026-12-31], as vyre-driver cache keygen prints them"


@dataclass(frozen=True, slots=True, repr=False)
class Signer:
    """Signs with a private key: cryptography's object. An envelope names it by the eight bytes of ``key_id``."""

    private: Any
    key_id: bytes

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, 64 bytes."""
        signature: bytes = self.private.sign(message)
        return signature

    @property
    def public_key(self) -> bytes:
        """The 32 bytes that others check signatures with."""
        key: bytes = self.private.public_key().public_bytes_raw()
        return key


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A line of a trust file: signatures by this key with a time in the range count. Times are seconds since 1970."""

    name: str
    public: bytes
    since: int
    until: int


@dataclass(frozen=True, slots=True, repr=False)
class Trust:
    """Whose signatures are taken: public keys by their ids."""

    keys: Mapping[bytes, TrustedKey]

    @classmethod
    def read(cls, path: Path | None) -> Trust:
        """Return what a trust file says; without one nobody is trusted.

        Each line is ``NAME BASE64-KEY [from=DATE] [until=DATE]``, or empty, or a remark behind a ``#``. The dates are days of
        UTC and belong to the range; they are compared with the time within a signature, never with the clock here.

        Raises
        ------
        InvalidSetting
            If the file cannot be read, others may change it, or a line is none of these.
        BackendUnavailable
            If it names keys and ``cryptography`` is not installed.
        """
        if path is None:
            return cls({})
        data = read_key_file(settings.CACHE_TRUST_FILE, path, (0, _MOST_TRUST_BYTES), _TRUST_FIX, is_secret=False)
        keys: dict[bytes, TrustedKey] = {}
        # Python's lines end at six more characters, which editors show within a remark.
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            key = _key_of(words)
            problem = key if isinstance(key, str) else "has a key that stands above" if key_id(key.public) in keys else ""
            if problem or isinstance(key, str):
                raise unfit_key_file(settings.CACHE_TRUST_FILE, path, f"line {number} {problem}", _TRUST_FIX)
            keys[key_id(key.public)] = key
        return cls(keys)

    def __bool__(self) -> bool:
        """Whether anybody is trusted."""
        return bool(self.keys)

    def and_of(self, signer: Signer) -> Trust:
        """Return a trust that takes what a signer of this process signs too, to compare with what it has stored before."""
        own = TrustedKey("this machine", signer.public_key, 0, (1 << 64) - 1)
        return Trust({signer.key_id: own, **self.keys})

    def signer_of(self, name: bytes, at_s: int, message: bytes, signature: bytes) -> str:
        """Return the name of the signer of a message, empty where it is not a trusted one.

        Parameters
        ----------
        name, at_s
            What the envelope says: the id of the key, and when it was signed.
        message, signature
            What was signed, and the 64 bytes that stand for it.
        """
        key = self.keys.get(name)
        if key is None or not key.since <= at_s <= key.until:
            return ""
        invalid = _ed25519()[1]
        try:
            _verifier(key.public).verify(signature, message)
        except invalid:
            return ""
        return key.name


def key_id(public: bytes) -> bytes:
    """Return the 8 bytes by which an envelope names a public key."""
    return blake3(public).digest()[:KEY_ID_BYTES]


def read_signer(path: Path, root: Path | None = None) -> Signer:
    """Return the signer of the private key in a file that ``keygen`` made.

    Raises
    ------
    InvalidSetting
        If it cannot be read, others may read it, it lies in the cache's ``root``, or holds no such key.
    BackendUnavailable
        If ``cryptography`` is not installed.
    """
    data = read_key_file(settings.CACHE_SIGN_KEY_FILE, path, (1, 4096), _KEY_FIX, root=root)
    text = data.decode("ascii", "replace").strip()
    seed = _decoded(text.removeprefix(_PRIVATE)) if text.startswith(_PRIVATE) else b""
    if len(seed) != _KEY_BYTES:
        raise unfit_key_file(settings.CACHE_SIGN_KEY_FILE, path, "it holds no private key of vyre-driver", _KEY_FIX)
    return _signer(_ed25519()[0].Ed25519PrivateKey.from_private_bytes(seed))


def make_key(path: Path) -> Signer:
    """Write a new private key into a new file, mode 600, and return its signer.

    Raises
    ------
    FileUnusable
        If there is such a file already, or it cannot be written.
    BackendUnavailable
        If ``cryptography`` is not installed.
    """
    private = _ed25519()[0].Ed25519PrivateKey.generate()
    text = f"{_PRIVATE}{base64.b64encode(private.private_bytes_raw()).decode()}\n"
    try:
        with Opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600) as descriptor:
            try:
                write_all(descriptor, text.encode())
                os.fsync(descriptor)
            except BaseException:  # half a key signs nothing, and its file would keep the next one out
                path.unlink()
                raise
    except OSError as error:
        fix = "name a file that is not there yet, in a directory of yours on a disk with room"
        raise FileUnusable(f"cannot write {path} ({error.strerror})", fix=fix, path=str(path)) from error
    return _signer(private)


def trust_line(name: str, signer: Signer) -> str:
    """Return the line of a trust file that has others take what this signer signs."""
    return f"{name} {base64.b64encode(signer.public_key).decode()}"


def is_name(text: str) -> bool:
    """Whether a signer may be called so: 1 to 64 of letters, digits and ``._@-``, a letter or digit first."""
    return _NAME.fullmatch(text) is not None


def trust_of_settings() -> Trust:
    """Return whom the file that VYRE_CACHE_TRUST_FILE names says to trust; raises as ``Trust.read``."""
    return Trust.read(settings.absolute_path(settings.CACHE_TRUST_FILE))


def signer_of_settings(root: Path | None) -> Signer | None:
    """Return the signer of VYRE_CACHE_SIGN_KEY_FILE, None without it; raises as ``read_signer``."""
    path = settings.absolute_path(settings.CACHE_SIGN_KEY_FILE)
    return None if path is None else read_signer(path, root)


def _signer(private: Any) -> Signer:  # noqa: ANN401 -- cryptography's
    return Signer(private, key_id(private.public_key().public_bytes_raw()))


def _key_of(words: list[str]) -> TrustedKey | str:
    """Return a line as a key, or what is wrong with it."""
    name, *rest = words
    if not is_name(name):
        return "does not begin with a name of letters, digits and ._@-"
    public = _decoded(rest[0]) if rest else b""
    if len(public) != _KEY_BYTES:
        return f"has no public key of {_KEY_BYTES} bytes in Base64 behind the name"
    bounds: dict[str, dt.date] = {}
    for word in rest[1:]:
        match = _BOUND.fullmatch(word)
        try:
            which, day = match[1], dt.date(*map(int, match[2].split("-")))  # type: ignore[index] # None is a TypeError
        except (TypeError, ValueError):
            return f"has {word[:40]!r}, which is neither from=DATE nor until=DATE"
        if which in bounds:
            return f"has {which}= more than once"
        bounds[which] = day
    begins, ends = bounds.get("from", dt.date(1970, 1, 1)), bounds.get("until", dt.date(9999, 12, 31))
    if begins > ends:
        return f"has from={begins}, which is after until={ends}"
    if not is_strong(public):
        return "has a public key that is no point of the curve, or one by which anybody can sign"
    _verifier(public)  # which takes a millisecond the first time, and is kept
    since, until = ((day - dt.date(1970, 1, 1)).days * _DAY_S for day in (begins, ends))
    return TrustedKey(name, public, since, until + _DAY_S - 1)


@functools.lru_cache(maxsize=256)
def _verifier(public: bytes) -> Any:  # noqa: ANN401 -- cryptography's
    """Return what checks signatures by a public key, which OpenSSL takes whatever its 32 bytes are."""
    return _ed25519()[0].Ed25519PublicKey.from_public_bytes(public)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def _ed25519() -> tuple[Any, type[Exception]]:
    """Return cryptography's module of Ed25519, and what it raises for a wrong signature."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise BackendUnavailable(
            f"signatures need the package cryptography, which cannot be imported ({error})",
            fix="pip install 'vyre-driver[remote]'",
            package="cryptography",
        ) from error
    return ed25519, InvalidSignature
