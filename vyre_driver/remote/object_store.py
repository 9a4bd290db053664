"""Buckets (S3, Google, Azure) and web servers as a store, through obstore.

An object is whole or not there, and ``create`` puts it only where none is. Nothing is forgotten by itself: give the bucket a
rule that removes what is old. Its time-out bounds a request as a whole, so ``close`` need not end one.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from typing import TYPE_CHECKING, Any, TypeVar

import obstore
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, HTTPStore, S3Store

from vyre_driver.remote import store
from vyre_driver.remote.names import WRITE_PROBE, name_of, path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


_Answer = TypeVar("_Answer")
_WHOLE_S = 3.0  # 1 s, and 1 s for each 8 MiB of the longest value
_GONE = (exceptions.NotFoundError, FileNotFoundError)
_TAKEN = (exceptions.AlreadyExistsError, exceptions.PreconditionError)
_DENIED = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, PermissionError)
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_OF_CONNECTION = re.compile(r"HttpError \{\s*kind: (\w+)")  # of the trace in an error's text
_KINDS: dict[str, store.FailureKind] = {"Connect": "refused", "Timeout": "timed_out"}
_MAKERS: dict[str, Callable[..., Any]] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore, "https": HTTPStore.from_url}
_NO_ROOM = re.compile(r"status: 507\b|QuotaExceeded")


class UnfitPlace(Exception):
    """A place that obstore does not take, or that lacks what the environment should say; the text is the reason in a line."""


def _made(kind: str, place: str, options: Mapping[str, Any]) -> Any:  # noqa: ANN401 -- a store of obstore's
    """Return obstore's object of a store; raises UnfitPlace where it refuses that."""
    try:
        return _MAKERS[kind](place, **options)
    except (ValueError, exceptions.BaseError) as error:
        reason = str(error).partition("\n")[0]  # a trace follows
        for value in options.get("config", {}).values():  # which may be secret
            reason = reason.replace(value, "...") if value else reason
    raise UnfitPlace(reason)


class ObjectStore:
    """A store in a bucket or behind a web server; its requests are bounded, and not tried again."""

    def __init__(  # noqa: PLR0913 -- where it is, by keyword
        self,
        address: str,
        timeout_s: float,
        *,
        kind: str,
        place: str,
        prefix: str,
        config: Mapping[str, Any],
        headers: Mapping[str, str],
    ) -> None:
        """Remember where it is; nothing is asked.

        Parameters
        ----------
        address
            What it is called in messages, without secrets.
        timeout_s
            How long a connection is waited for, in seconds; a request as a whole takes 3 s more at most.
        kind, place, prefix
            ``s3``, ``gs``, ``az`` or ``https``; the bucket, container or URL; what stands before every path.
        config, headers
            What obstore takes beside, and headers of each request; secrets are among them.

        Raises
        ------
        UnfitPlace
            If obstore refuses them.
        """
        self.address = address
        client: dict[str, Any] = {"timeout": f"{timeout_s + _WHOLE_S}s", "connect_timeout": f"{timeout_s}s"}
        if headers:
            client["default_headers"] = dict(headers)
        if str(config.get("endpoint", place)).startswith("http://"):
            client["allow_http"] = True
        options: dict[str, Any] = {"client_options": client, "retry_config": {"max_retries": 0}}
        self._is_web = kind == "https"
        if not self._is_web:
            options |= {"prefix": prefix or None, "config": dict(config)}
        self._store = _made(kind, place, options)
        self._process = os.getpid()

    def fetch(self, names: Sequence[str], limit: int) -> list[bytes | None]:
        """Return the values, asked for side by side: see ``Store``."""
        return self._asked(lambda: asyncio.run(self._get_all([path_of(name) for name in names], limit)))

    def put_new(self, name: str, data: bytes, keep_s: int) -> bool:  # noqa: ARG002 -- a rule of the bucket's decides
        """Store a value unless the name is taken: see ``Store``."""
        return self._put(path_of(name), data, "create")

    def claim(self, name: str, owner: bytes, for_s: float) -> bool:
        """Take a name for a while, by this machine's clock: see ``Store``."""
        path, mine = path_of(name), store.claim_text(owner, for_s)
        found = self._asked(lambda: self._get_one(path))
        if found is None:
            return self._put(path, mine, "create")
        data, version = found
        return store.claim_ends_at(data) <= time.time() and self._put(path, mine, version)

    def fields(self, name: str, limit: int) -> dict[str, bytes]:
        """Return the fields below a name: see ``Store``."""
        path = path_of(name)
        found: list[str] = []
        for one in self._listed(path):
            if one["size"] <= limit:
                found.append(one["path"])
            if len(found) > store.MOST_FIELDS:
                raise store.too_many_fields(self.address, f"over {store.MOST_FIELDS} fields")
        values = self._asked(lambda: asyncio.run(self._get_all(found, limit)))
        fields = {one.rpartition("/")[2]: value for one, value in zip(found, values, strict=True)}
        size = sum(len(value) for value in fields.values() if value is not None)
        if size > store.MOST_FIELDS_BYTES:
            raise store.too_many_fields(self.address, f"{size} bytes")
        return {field: value for field, value in fields.items() if value is not None and len(value) <= limit}

    def put_field(self, name: str, field: str, data: bytes, keep_s: int) -> None:  # noqa: ARG002 -- as above
        """Store a field: see ``Store``."""
        self._put(f"{path_of(name)}/{field}", data, "overwrite")

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names: see ``Store``."""
        listed: set[str] = set()
        for one in self._listed("/".join(prefix.split(":")[:-1])):
            name = name_of("/".join(one["path"].split("/")[:5]))  # a field lies below its name
            if name is not None and name.startswith(prefix) and name not in listed:
                listed.add(name)
                yield name

    def touch(self, names: Sequence[str], keep_s: int) -> None:
        """Do nothing: the age of an object does not change."""

    def ping(self) -> None:
        """Return when it has answered."""
        self._asked(lambda: self._get_one(path_of(WRITE_PROBE)))

    def close(self) -> None:
        """Do nothing: each request ends by itself."""

    async def _get_all(self, paths: Sequence[str], limit: int) -> list[bytes | None]:
        return list(await asyncio.gather(*(self._get(path, limit) for path in paths)))

    async def _get(self, path: str, limit: int) -> bytes | None:
        """Return at most ``limit`` + 1 bytes of an object; its size is known before the first of them comes."""
        try:
            answer = await obstore.get_async(self._store, path)
            if answer.meta["size"] <= limit:
                return bytes(await answer.bytes_async())
            return bytes(await obstore.get_range_async(self._store, path, start=0, end=limit + 1))
        except _GONE as error:
            if _is_of_bucket(error):
                raise
            return None

    def _get_one(self, path: str) -> tuple[bytes, dict[str, Any]] | None:
        """Return the beginning of a small object, and its version."""
        try:
            answer = obstore.get(self._store, path)
        except _GONE as error:
            if _is_of_bucket(error):
                raise
            return None
        version = {part: answer.meta[part] for part in ("e_tag", "version") if answer.meta[part] is not None}
        return (bytes(answer.bytes()) if answer.meta["size"] <= store.MOST_OWNER_BYTES else b""), version

    def _put(self, path: str, data: bytes, mode: Any) -> bool:  # noqa: ANN401 -- a word, or a version
        """Store an object; returns False where the mode does not allow it."""
        if self._is_web:
            raise store.StoreFailure("denied", f"{self.address}: a web server is only read")

        def put() -> bool:
            try:
                obstore.put(self._store, path, data, mode=mode, use_multipart=False)
            except _TAKEN:
                return False
            return True

        return self._asked(put)

    def _listed(self, prefix: str) -> Iterator[Any]:
        """Yield what is known of the objects whose paths begin so."""
        pages = iter(self._asked(lambda: obstore.list(self._store, prefix)))
        while (page := self._asked(lambda: next(pages, None))) is not None:
            yield from page

    def _asked(self, call: Callable[[], _Answer]) -> _Answer:
        """Return what a call returns; its errors are failures of ours."""
        if os.getpid() != self._process:  # its threads are not in a forked child, which would wait for ever
            raise store.StoreFailure("other", f"{self.address}: a forked process needs a store of its own")
        try:
            return call()
        except (exceptions.BaseError, OSError, ValueError, NotImplementedError) as error:
            raise store.StoreFailure(_kind(error), f"{self.address}: {_told(error)}") from error


def _is_of_bucket(error: Exception) -> bool:
    return any(text in str(error) for text in _NO_BUCKET)


def _kind(error: Exception) -> store.FailureKind:
    """Return what sort of failure an error of obstore is; of most only its text tells."""
    text = str(error)
    if isinstance(error, (*_DENIED, exceptions.NotSupportedError, NotImplementedError)):
        return "denied"
    if isinstance(error, _GONE) or _is_of_bucket(error):
        return "refused"
    if _NO_ROOM.search(text):
        return "full"
    of_connection = _OF_CONNECTION.search(text)
    return "other" if of_connection is None else _KINDS.get(of_connection[1], "cut")


def _told(error: Exception) -> str:
    """Return what an error says in a line, without the request, whose address may be signed, and without its trace."""
    if isinstance(error, _GONE) or _is_of_bucket(error):
        return "there is no such bucket"
    text = str(error)
    line = (text.strip().splitlines() or [type(error).__name__])[0].rpartition(" - ")[2].partition("<?xml")[0]
    of_connection = _OF_CONNECTION.search(text)
    return line[:200].rstrip(": ") + ("" if of_connection is None else f" ({of_connection[1]})")
