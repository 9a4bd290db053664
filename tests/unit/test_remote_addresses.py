"""Which URLs of stores are taken, and what is said of the others: never a password."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING

import pytest
from literals import refusal

from vyre_driver.errors import BackendUnavailable, InvalidSetting
from vyre_driver.remote.addresses import checked_address, open_store, store_of_settings
from vyre_driver.remote.store import StoreFailure

if TYPE_CHECKING:
    from pathlib import Path

    from vyre_driver.remote.store import Store


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://cache.example", "redis://cache.example"),
        ("redis://cache.example:6380/3", "redis://cache.example:6380/3"),
        ("rediss://cache.example?db=1", "rediss://cache.example"),
        ("unix:/run/redis.sock", "unix:/run/redis.sock"),
        ("unix:///run/redis.sock?db=2", "unix:/run/redis.sock"),
        ("file:/srv/vyre", "file:/srv/vyre"),
    ],
)
def test_a_store_is_named_without_what_could_be_secret(url: str, address: str) -> None:
    assert open_store(url).address == address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("s3://bucket/some/prefix?region=eu-west-1&endpoint=http://127.0.0.1:9000", "s3://bucket/some/prefix"),
        ("az://container?account=name", "az://container"),
        ("https://cache.example:8443/vyre/", "https://cache.example:8443/vyre/"),
    ],
)
def test_a_bucket_or_web_server_is_named_without_what_could_be_secret(url: str, address: str, tmp_path: Path) -> None:
    pytest.importorskip("obstore", reason="obstore is for Python 3.11 and newer")
    secret = tmp_path / "secret"
    secret.write_text("user:aHVudGVyMg==")
    secret.chmod(0o600)
    store = open_store(url, secret_file=secret)
    assert (store.address, "aHVudGVyMg" in repr(vars(store)["address"])) == (address, False)


def test_a_store_whose_package_is_missing_is_refused_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "vyre_driver.remote.object_store", raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)
    kind, code, message = refusal(lambda: open_store("s3://bucket"))
    assert (kind, code, message.split(",")[0]) == (BackendUnavailable, 2004, "s3://bucket is reached by the package obstore")
    assert "Fix: pip install 'vyre-driver[remote]'" in message


KINDS = "redis, rediss, unix, file, s3, gs, az, https"
NO_PORT = "the redis: URL has a port that is no number from 0 to 65535"
NO_NUMBER = "names a database that is not a number"
NO_OPTION = "has an option that redis: does not have; it takes db"
LONG_LABEL = "\N{LATIN SMALL LETTER U WITH DIAERESIS}" * 80
LABEL_FIX = "give each part of it 1 to 63 characters, letters and digits with hyphens between them"
REFUSED = [
    ("memcached://host", f"memcached: is no kind of store. Fix: begin it with one of {KINDS}"),
    ("cache.example", f": is no kind of store. Fix: begin it with one of {KINDS}"),
    ("redis://host:many", f"{NO_PORT}. Fix: write the port as in redis://HOST:6379"),
    ("s3:///prefix", "s3:/prefix names no bucket or host. Fix: write s3://NAME/PREFIX"),
    (f"redis://{LONG_LABEL}", f"redis://{LONG_LABEL} names a host that cannot be looked up. Fix: {LABEL_FIX}"),
    *[
        (f"{scheme}://{host}", f"{scheme}://{host} names a host that cannot be looked up. Fix: {LABEL_FIX}")
        for scheme in ("redis", "https")
        for host in ("two words", "host%00", "<host>", "a..b", "host*")
    ],
    ("s3://bucket?endpoint=\udcff", "the URL cannot be read. Fix: set it to a URL such as redis://HOST:6379"),
    ("redis:///0", "redis:/0 names no host. Fix: write redis://HOST:6379"),
    ("redis://host/first", f"redis://host/first {NO_NUMBER}. Fix: end it in the number of a database, such as /0"),
    ("redis://host#0", "redis://host has a part behind a #. Fix: leave it out"),
    ("unix:run/redis.sock", "unix:run/redis.sock does not name an absolute path. Fix: write unix:/PATH"),
    ("file://host/folder", "file://host/folder does not name an absolute path. Fix: write file:/PATH"),
    ("redis://host?password=hunter2", f"redis://host {NO_OPTION}. Fix: leave the option out"),
    ("file:/srv?hunter2", "file:/srv has an option that file: does not have; it takes none. Fix: leave the option out"),
]  # fmt: skip


@pytest.mark.parametrize(("url", "says"), REFUSED)
def test_a_url_of_no_store_is_refused(url: str, says: str) -> None:
    message = f"VYRE_CACHE_REMOTE: {says} (VYRE_CACHE_REMOTE)."
    assert refusal(lambda: open_store(url)) == (InvalidSetting, 2401, message)
    assert refusal(lambda: checked_address(url)) == (InvalidSetting, 2401, message)  # as a driver asks, without its package


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:hunter2@host/0",
        "rediss://:hunter2@host",
        "https://hunter2@host/",
        "s3://k:hunter2@b",
        "redis://user:hunter2/more@host",
        "redis://user:12/hunter2@host:6379/0",
        "redis://:hunter2#more@host",
        "redis://:12#hunter2@host",
        "redis:user:hunter2@host",
        "https://user:12/hunter2@host/prefix",
        "s3://key:12/hunter2@bucket",
        "unix:user:hunter2@/run/redis.sock",
    ],
)
def test_a_password_in_a_url_is_refused_and_in_no_part_of_the_error(url: str) -> None:
    with pytest.raises(InvalidSetting) as error:
        open_store(url)
    told = f"{error.value} {error.value.context} {error.value.args}"
    assert "has a user or a password in it" in told
    assert "VYRE_CACHE_REMOTE_SECRET_FILE" in told
    assert "hunter2" not in told


@pytest.mark.parametrize("url", ["redis://user:hunter2?more@host", "redis://user:hunter2\N{FULLWIDTH QUESTION MARK}@host"])
def test_what_cannot_be_read_of_a_url_is_told_without_what_stands_there(url: str) -> None:
    with pytest.raises(InvalidSetting) as error:
        open_store(url)
    told = "".join(traceback.format_exception(error.type, error.value, error.tb))
    assert ("Fix: " in told, "hunter2" in told.replace(url, "")) == (True, False)


def test_a_place_that_obstore_refuses_is_refused_without_secrets(tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    secret = tmp_path / "secret"
    secret.write_text("account:aGVsbG8=\n")
    secret.chmod(0o600)
    url = "az://container?endpoint=ftp://user:hunter2"
    with pytest.raises(InvalidSetting) as caught:
        open_store(url, secret_file=secret)
    assert str(caught.value) == (
        "VYRE_CACHE_REMOTE: az://container cannot be used (Generic MicrosoftAzure error: Unable parse source url. Url: ..., "
        "Error: invalid port number). Fix: correct the URL, or what the environment says of the store (VYRE_CACHE_REMOTE)."
    )
    told = "".join(traceback.format_exception(caught.type, caught.value, caught.tb))
    assert "hunter2" not in told.replace(url, "")


def test_an_authority_whose_path_no_system_takes_is_refused() -> None:
    message = (
        "VYRE_CACHE_REMOTE: rediss://host names 'a\\x00b' by ca=, which has no certificate that can be read (embedded null "
        "byte). Fix: name the file of the authority's certificate, in PEM (VYRE_CACHE_REMOTE)."
    )
    assert refusal(lambda: checked_address("rediss://host?ca=a%00b")) == (InvalidSetting, 2401, message)


@pytest.mark.parametrize(
    "url",
    [
        *("redis://[::1]:6379", "redis://[fe80::1%25eth0]", "https://my_host.", "https://[::1]/a"),
        *("s3://bucket/a@b", "gs://bucket/a@b", "file:/srv/a@b", "unix:/run/a@b"),
    ],
)
def test_hosts_of_other_forms_and_at_signs_in_paths_are_taken(url: str) -> None:
    assert checked_address(url) == url


@pytest.mark.parametrize("text", [None, "no certificate\n"])
def test_an_authority_without_a_certificate_is_refused_before_anything_is_asked(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "ca.pem"
    if text is not None:
        path.write_text(text)
    kind, code, message = refusal(lambda: open_store(f"rediss://host?ca={path}"))
    said = f"VYRE_CACHE_REMOTE: rediss://host names {str(path)!r} by ca=, which has no certificate that can be read ("
    fix = "). Fix: name the file of the authority's certificate, in PEM (VYRE_CACHE_REMOTE)."
    assert (kind, code, message.startswith(said), message.endswith(fix)) == (InvalidSetting, 2401, True, True)


def opened(path: Path) -> Store:
    return open_store("redis://host", secret_file=path)


@pytest.mark.parametrize("text", ["hunter2", "user:", "user:hunter2\nmore", "\udcffx:hunter2", ""])
def test_a_secret_file_without_user_and_password_is_refused_and_not_quoted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "secret"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    path.chmod(0o600)
    kind, code, message = refusal(lambda: opened(path))
    assert (kind, code, "hunter2" in message) == (InvalidSetting, 2401, False)
    assert message.startswith(f"VYRE_CACHE_REMOTE_SECRET_FILE names {str(path)!r}: it ")


def test_a_secret_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("user:hunter2\n")
    path.chmod(0o600)
    assert opened(path).address == "redis://host"
    path.chmod(0o644)
    assert "others may read or change it (mode 644)" in refusal(lambda: opened(path))[2]


def test_there_is_a_store_where_the_settings_name_one_and_do_not_switch_it_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert store_of_settings() is None
    monkeypatch.setenv("VYRE_CACHE_REMOTE", f"file:{tmp_path}")
    found = store_of_settings()
    assert found is not None
    assert found.address == f"file:{tmp_path}"
    monkeypatch.setenv("VYRE_CACHE_REMOTE_MODE", "off")
    assert store_of_settings() is None
    monkeypatch.setenv("VYRE_CACHE_REMOTE_MODE", "on")
    assert refusal(store_of_settings)[2].startswith("VYRE_CACHE_REMOTE_MODE is 'on', which is none of off, read, write.")


def test_port_0_is_not_the_usual_port() -> None:
    store = open_store("redis://127.0.0.1:0")
    with pytest.raises(StoreFailure) as failure:
        store.ping()
    assert failure.value.kind == "refused"
