"""From the URL of a store to the store. No password stands in a URL: those are shown in lists of processes and in logs."""

from __future__ import annotations

import re
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qsl, urlsplit

from vyre_driver import settings
from vyre_driver.cache.seal import read_key_file, unfit_key_file
from vyre_driver.errors import BackendUnavailable, InvalidSetting

if TYPE_CHECKING:
    from vyre_driver.remote.store import Store

DEFAULT_TIMEOUT_S = 0.25
_REDIS_PORT = 6379
_HOST = re.compile(r"[\w-]{1,63}(\.[\w-]{1,63})*\.?", re.ASCII)
_OPTIONS = {
    "redis": {"db"},
    "rediss": {"db", "ca"},
    "unix": {"db"},
    "file": set[str](),
    "s3": {"region", "endpoint"},
    "gs": set[str](),
    "az": {"account", "endpoint"},
    "https": set[str](),
}
_HOW_TO_KEEP = "write user:password into a file of your own, mode 600, on one line"


def open_store(url: str, *, timeout_s: float = DEFAULT_TIMEOUT_S, secret_file: Path | None = None) -> Store:
    """Return the store at a URL; nothing is connected to before its first call.

    Parameters
    ----------
    url
        ``redis://HOST[:PORT][/DB]``, ``rediss://HOST[:PORT][/DB][?ca=FILE]`` (TLS; the file holds the authority's certificate),
        ``unix:/SOCKET[?db=DB]``, ``file:/FOLDER``, ``s3://BUCKET[/PREFIX][?region=NAME&endpoint=URL]``, ``gs://BUCKET[/PREFIX]``,
        ``az://CONTAINER[/PREFIX][?account=NAME]`` or ``https://HOST/PREFIX``.
    timeout_s
        How long the beginning of an answer is waited for, in seconds; of s3, gs, az and https the whole answer.
    secret_file
        Holds ``user:password``: of ``s3:`` the access key and its secret, of ``az:`` the account and its key. Without one s3,
        gs and az take what their environment gives.

    Raises
    ------
    InvalidSetting
        If the URL is none of these, holds a password, or the file of secrets may not be used.
    BackendUnavailable
        If the package that reaches such a store is not installed.
    """
    parts = _split(url)
    options = _options(parts)
    secret = None if secret_file is None else _secret(secret_file)
    address = shown(parts)
    _check_place(parts, options)
    match parts.scheme:
        case "file":
            from vyre_driver.remote.store import FileStore

            return FileStore(_absolute(parts))
        case "redis" | "rediss" | "unix":
            return _redis(address, parts, options, timeout_s, secret)
    return _bucket(address, parts, options, timeout_s, secret)


def checked_address(url: str) -> str:
    """Return what the store at a URL is called in messages, without secrets.

    Raises InvalidSetting as ``open_store``; no package that reaches a store is imported for it.
    """
    parts = _split(url)
    _check_place(parts, _options(parts))
    return shown(parts)


def store_of_settings() -> Store | None:
    """Return the store that VYRE_CACHE_REMOTE names, or None without one.

    Raises
    ------
    InvalidSetting
        If it or another variable of it is not valid.
    BackendUnavailable
        If the package that reaches it is not installed.
    """
    url = settings.text(settings.CACHE_REMOTE)
    if url is None or settings.choice(settings.CACHE_REMOTE_MODE, MODES) == "off":
        return None
    timeout_s = settings.seconds(settings.CACHE_REMOTE_TIMEOUT) or DEFAULT_TIMEOUT_S
    return open_store(url, timeout_s=timeout_s, secret_file=settings.absolute_path(settings.CACHE_REMOTE_SECRET_FILE))


MODES = ("off", "read", "write")


def shown(parts: SplitResult) -> str:
    """Return a URL without what could be secret in it: no user, no password, no options."""
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}:{f'//{host}' if host else ''}{parts.path}"


def _split(url: str) -> SplitResult:
    """Return the parts of a URL that may be used."""
    try:
        url.encode()  # a variable may hold bytes that are no text
        parts = urlsplit(url)
    except ValueError:  # its text may have the whole of user, password and host
        raise _refused("the URL", "cannot be read", "set it to a URL such as redis://HOST:6379") from None
    if parts.scheme not in _OPTIONS:
        raise _refused(f"{parts.scheme}:", "is no kind of store", f"begin it with one of {', '.join(_OPTIONS)}")
    if _may_hold_password(url, parts):
        raise _refused(
            f"the {parts.scheme}: URL",
            "has a user or a password in it, where other programs can read it",
            f"take it out, {_HOW_TO_KEEP}, set VYRE_CACHE_REMOTE_SECRET_FILE to that, and change the password",
        )
    try:
        _ = parts.port
    except ValueError:  # its text has what stands there
        problem = "has a port that is no number from 0 to 65535"
        raise _refused(f"the {parts.scheme}: URL", problem, f"write the port as in {parts.scheme}://HOST:6379") from None
    return parts


def _may_hold_password(url: str, parts: SplitResult) -> bool:
    """Whether an @ may end a user and a password, of which a slash or a # makes what looks like a path."""
    if parts.scheme in {"file", "unix"} and parts.path.startswith("/"):
        return "@" in parts.netloc
    if parts.scheme in {"s3", "gs", "az"} and ":" not in parts.netloc:  # objects may be called so
        return "@" in parts.netloc
    return "@" in url.partition("?")[0] or "@" in parts.fragment


def _options(parts: SplitResult) -> dict[str, str]:
    """Return the options behind the question mark; their values may be secrets of other programs, so none is shown."""
    given = parse_qsl(parts.query, keep_blank_values=True)
    known = _OPTIONS[parts.scheme]
    for name, _ in given:
        if name not in known:
            takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
            raise _refused(shown(parts), f"has an option that {parts.scheme}: does not have; {takes}", "leave the option out")
    if parts.fragment:
        raise _refused(shown(parts), "has a part behind a #", "leave it out")
    return dict(given)


def _check_place(parts: SplitResult, options: dict[str, str]) -> None:
    """Check that a URL says where its store is: an absolute path, a host, a bucket; raise InvalidSetting otherwise."""
    address = shown(parts)
    if parts.scheme in {"file", "unix"}:
        _absolute(parts)
    elif parts.scheme in {"redis", "rediss"}:
        if not parts.hostname:
            raise _refused(address, "names no host", f"write {parts.scheme}://HOST:{_REDIS_PORT}")
        _check_host(address, parts.hostname)
    elif not parts.hostname:
        raise _refused(address, "names no bucket or host", f"write {parts.scheme}://NAME/PREFIX")
    elif parts.scheme == "https":
        _check_host(address, parts.hostname)
    database = _database(parts, options)
    if not (database.isascii() and database.isdecimal()):
        raise _refused(address, "names a database that is not a number", "end it in the number of a database, such as /0")
    if "ca" in options:
        _check_authority(address, options["ca"])


def _database(parts: SplitResult, options: dict[str, str]) -> str:
    """Return which database of a Redis is meant; of other stores that is the first."""
    in_path = parts.path.strip("/") if parts.scheme in {"redis", "rediss"} else ""
    return (options.get("db") if "db" in _OPTIONS[parts.scheme] else "") or in_path or "0"


def _redis(address: str, parts: SplitResult, options: dict[str, str], timeout_s: float, secret: list[str] | None) -> Store:
    from vyre_driver.remote.redis_store import Place, RedisStore

    if parts.scheme == "unix":
        place = Place(path=str(_absolute(parts)))
    else:
        assert parts.hostname is not None  # noqa: S101 -- it was checked
        port, has_tls = _REDIS_PORT if parts.port is None else parts.port, parts.scheme == "rediss"
        place = Place(host=parts.hostname, port=port, has_tls=has_tls, authority=options.get("ca"))
    return RedisStore(address, timeout_s, place, database=int(_database(parts, options)), secret=secret)


def _check_host(address: str, host: str) -> None:
    """Check that the name of a host can be looked up, or is an address: others raise a ValueError, and only then."""
    try:
        ascii_host = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        ascii_host = ""
    if ":" not in host and not _HOST.fullmatch(ascii_host):
        fix = "give each part of it 1 to 63 characters, letters and digits with hyphens between them"
        raise _refused(address, "names a host that cannot be looked up", fix)


def _check_authority(address: str, path: str) -> None:
    """Check that a file has certificates; each connection reads it anew."""
    import ssl  # late: most stores are reached without TLS

    try:
        ssl.create_default_context(cafile=path)
    except (OSError, ValueError) as error:  # a file that is there and holds something else, a path with a 0
        reason = getattr(error, "strerror", None) or error
        problem = f"names {path!r} by ca=, which has no certificate that can be read ({reason})"
        raise _refused(address, problem, "name the file of the authority's certificate, in PEM") from error


def _bucket(address: str, parts: SplitResult, options: dict[str, str], timeout_s: float, secret: list[str] | None) -> Store:
    if secret is not None and parts.scheme == "gs":
        raise _refused(address, "takes no user and password", "set GOOGLE_APPLICATION_CREDENTIALS, and no file of secrets")
    try:
        from vyre_driver.remote.object_store import ObjectStore, UnfitPlace
    except ImportError as error:
        raise missing_package(address, "obstore", error) from error
    config: dict[str, object] = dict(options)
    headers: dict[str, str] = {}
    if secret is not None and parts.scheme == "https":
        headers["authorization"] = f"Basic {b64encode(':'.join(secret).encode()).decode()}"
    elif secret is not None:
        names = ("access_key_id", "secret_access_key") if parts.scheme == "s3" else ("account_name", "account_key")
        config |= dict(zip(names, secret, strict=True))
    if "account" in config:
        config["account_name"] = config.pop("account")
    place = f"https://{parts.netloc}{parts.path}" if parts.scheme == "https" else parts.netloc
    prefix = "" if parts.scheme == "https" else parts.path.strip("/")
    try:
        return ObjectStore(address, timeout_s, kind=parts.scheme, place=place, prefix=prefix, config=config, headers=headers)
    except UnfitPlace as error:
        problem = f"cannot be used ({error})"
        raise _refused(address, problem, "correct the URL, or what the environment says of the store") from None


def missing_package(address: str, package: str, error: ImportError) -> BackendUnavailable:
    """Return the error that says which package reaches such a store."""
    return BackendUnavailable(
        f"{address} is reached by the package {package}, which cannot be imported ({error})",
        fix="pip install 'vyre-driver[remote]'" + (" with Python 3.11 or newer" if package == "obstore" else ""),
        package=package,
    )


def _absolute(parts: SplitResult) -> Path:
    path = Path(parts.path)
    if parts.netloc or not path.is_absolute():
        raise _refused(shown(parts), "does not name an absolute path", f"write {parts.scheme}:/PATH")
    return path


def _secret(path: Path) -> list[str]:
    """Return user and password."""
    data = read_key_file(settings.CACHE_REMOTE_SECRET_FILE, path, (1, 4096), _HOW_TO_KEEP)
    try:
        user, colon, password = data.decode().removesuffix("\n").removesuffix("\r").partition(":")
    except UnicodeDecodeError:
        user = colon = password = ""
    if not colon or not password or "\n" in password:
        problem = "it does not hold a user and a password with a colon between them"
        raise unfit_key_file(settings.CACHE_REMOTE_SECRET_FILE, path, problem, _HOW_TO_KEEP)
    return [user, password]


def _refused(address: str, problem: str, fix: str) -> InvalidSetting:
    variable = settings.CACHE_REMOTE.variable
    return InvalidSetting(f"{variable}: {address} {problem}", fix=f"{fix} ({variable})", variable=variable, value=address)
