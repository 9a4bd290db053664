"""One file read in one call, with what is needed to judge it."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vyre_driver.cache import DiskPipelineCache, _read
from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 1 << 20
PLACE = "ab/name.bin"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "ab").mkdir(parents=True)
    return tmp_path / "root"


def read(root: Path, place: str = PLACE, limit: int = LIMIT, settled_ns: int = -1) -> tuple[object, ...]:
    found = _read.read_entry(os.fsencode(root), place, limit, settled_ns)
    assert type(found) is tuple
    return found


def directory_facts(path: Path) -> tuple[int, ...]:
    found = path.lstat()
    return found.st_mode, found.st_uid, found.st_gid, found.st_ino, found.st_dev


def file_facts(path: Path) -> tuple[int, ...]:
    found = path.lstat()
    return found.st_mode, found.st_uid, found.st_gid, found.st_ino, found.st_size, found.st_mtime_ns


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 100_000, LIMIT])
def test_a_file_is_told_with_its_directories_and_its_bytes(root: Path, size: int) -> None:
    data = bytes(i * 7 & 255 for i in range(size))
    (root / PLACE).write_bytes(data)
    facts = (directory_facts(root), root.lstat().st_ctime_ns, directory_facts(root / "ab"), file_facts(root / PLACE))
    assert read(root) == (3, 0, *facts, data)


def test_a_file_over_the_limit_is_told_and_not_read(root: Path) -> None:
    (root / PLACE).write_bytes(bytes(11))
    assert (read(root, limit=10)[5:], read(root, limit=11)[6]) == ((file_facts(root / PLACE), None), bytes(11))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["a fifo", "a directory"])
def test_what_is_no_file_is_told_and_not_read(root: Path, make: object) -> None:
    assert callable(make)
    make(root / PLACE)
    assert read(root)[5:] == (file_facts(root / PLACE), None)


def test_a_file_that_has_more_bytes_than_it_told_gives_one_of_them() -> None:
    """The kernel's own files tell that they are empty, as one does that grows after it was looked at."""
    told = read(Path("/proc/sys"), "vm/swappiness")
    assert (told[0], told[6]) == (3, Path("/proc/sys/vm/swappiness").read_bytes()[:1])


def test_a_sub_directory_is_not_told_again_for_the_ctime_for_which_it_was(root: Path) -> None:
    (root / PLACE).write_bytes(b"x")
    ctime_ns = root.lstat().st_ctime_ns
    assert [read(root, settled_ns=ns)[4] for ns in (ctime_ns, ctime_ns - 1)] == [None, directory_facts(root / "ab")]


@pytest.mark.parametrize(
    ("place", "stage", "code"),
    [("root/../none", 0, errno.ENOENT), ("root/ab/file", 0, errno.ENOTDIR), ("root/" + "x" * 300, 0, errno.ENAMETOOLONG)],
)
def test_a_root_that_cannot_be_told_is_said(root: Path, place: str, stage: int, code: int) -> None:
    (root / "ab" / "file").touch()
    assert read(root.parent / place / "below") == (stage, code, None, 0, None, None, None)


def test_a_path_that_is_too_long_is_said(root: Path) -> None:
    assert read(root / ("x/" * 3000)) == (0, errno.ENAMETOOLONG, None, 0, None, None, None)


def test_what_is_missing_below_a_root_is_said(root: Path) -> None:
    above = (directory_facts(root), root.lstat().st_ctime_ns)
    assert read(root) == (2, errno.ENOENT, *above, directory_facts(root / "ab"), None, None)
    assert read(root, "cd/name.bin") == (1, errno.ENOENT, *above, None, None, None)


def test_links_are_told_and_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"x")
    (root / PLACE).symlink_to(tmp_path / "target")
    (root / "cd").symlink_to(root / "ab")
    assert (read(root)[0], read(root)[1], read(root)[6]) == (2, errno.ELOOP, None)
    assert read(root, "cd/name.bin")[4] == directory_facts(root / "cd")


@pytest.mark.parametrize("place", ["", "ab/", "abc"])
def test_a_place_without_a_name_is_refused(root: Path, place: str) -> None:
    with pytest.raises(ValueError, match="is not a place below a root"):
        read(root, place)


def test_no_file_stays_open(root: Path) -> None:
    (root / PLACE).write_bytes(b"x")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for place, limit in ((PLACE, 10), (PLACE, 0), ("ab/none", 10), ("cd/none", 10)):
        read(root, place, limit)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_root_in_any_bytes_is_read(tmp_path: Path) -> None:
    cache = DiskPipelineCache(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe"))
    assert cache.usage().entries == 0


HOUR_NS = 3600 * 10**9
MINUTE_NS = HOUR_NS // 60
FORBIDDEN = 0o022


def read_as_judged(root: Path, *, limit: int = LIMIT, settled: bool = True, **changed: int) -> object:
    """Read the file of a root that was judged as it is, but for what is given of its facts."""
    names = ("mode", "user", "group", "inode", "device")
    facts = dict(zip(names, directory_facts(root), strict=True)) | {"reader": os.geteuid()} | changed
    judged = _read.Judged(tuple(facts[name] for name in names), facts["reader"], FORBIDDEN)  # type: ignore[arg-type]
    settled_ns = root.lstat().st_ctime_ns if settled else -1
    return _read.read_entry(os.fsencode(root), PLACE, limit, settled_ns, judged, HOUR_NS)


@pytest.fixture
def file(root: Path) -> Path:
    (root / PLACE).write_bytes(b"bytes")
    (root / PLACE).chmod(0o644)
    return root / PLACE


def used(file: Path, ago_ns: int) -> None:
    now = time.time_ns()
    os.utime(file, ns=(now, now - ago_ns))


def test_of_a_file_below_a_judged_root_only_its_bytes_are_told(root: Path, file: Path) -> None:
    told = [read_as_judged(root)]
    for ago_ns in (HOUR_NS - MINUTE_NS, MINUTE_NS - HOUR_NS):
        used(file, ago_ns)
        told.append(read_as_judged(root))
    assert told == [b"bytes"] * 3


@pytest.mark.parametrize("fact", ["mode", "user", "group", "inode", "device", "reader"])
def test_all_is_told_below_a_root_that_is_another_than_was_judged(root: Path, file: Path, fact: str) -> None:
    now = dict(zip(("mode", "user", "group", "inode", "device", "reader"), (*directory_facts(root), os.geteuid()), strict=True))
    told = read_as_judged(root, **{fact: now[fact] ^ 1})
    assert told == (3, 0, directory_facts(root), root.lstat().st_ctime_ns, None, file_facts(file), b"bytes")


def test_all_is_told_when_the_sub_directory_is_not_settled(root: Path) -> None:
    (root / PLACE).write_bytes(b"bytes")
    assert read_as_judged(root, settled=False) == read(root)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_all_is_told_of_a_file_that_others_may_write(root: Path, file: Path, mode: int) -> None:
    file.chmod(mode)
    assert read_as_judged(root) == read(root, settled_ns=root.lstat().st_ctime_ns)


@pytest.mark.parametrize("ago_ns", [HOUR_NS, 100 * HOUR_NS, -HOUR_NS - MINUTE_NS])
def test_all_is_told_of_a_file_whose_time_is_an_hour_off(root: Path, file: Path, ago_ns: int) -> None:
    used(file, ago_ns)
    assert read_as_judged(root) == read(root, settled_ns=root.lstat().st_ctime_ns)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_all_is_told_of_a_file_of_another_user(root: Path, file: Path) -> None:
    os.chown(file, 12345, -1)
    assert read_as_judged(root) == read(root, settled_ns=root.lstat().st_ctime_ns)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_all_is_told_of_what_is_no_file(root: Path, make: Callable[[Path], object]) -> None:
    make(root / PLACE)
    assert read_as_judged(root) == read(root, settled_ns=root.lstat().st_ctime_ns)


def test_all_is_told_of_a_file_over_the_limit(root: Path, file: Path) -> None:
    size = file.lstat().st_size - 1
    assert read_as_judged(root, limit=size) == read(root, limit=size, settled_ns=root.lstat().st_ctime_ns)


def test_nothing_is_judged_of_facts_that_are_not_five() -> None:
    with pytest.raises((TypeError, ValueError)):
        _read.Judged((1, 2, 3), 0, 0)  # type: ignore[arg-type]


def open_descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


def is_open(descriptor: int) -> bool:
    return Path(f"/proc/self/fd/{descriptor}").exists()


def test_a_file_that_is_opened_is_closed_at_the_end_of_its_block(file: Path) -> None:
    opened = Opened(file, os.O_RDONLY)
    with opened as descriptor:
        data = os.read(descriptor, LIMIT)
    assert (data, opened.descriptor, is_open(descriptor)) == (file.read_bytes(), -1, False)


def test_a_file_that_is_opened_is_closed_when_the_block_raises(file: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Opened(file, os.O_RDONLY) as descriptor:
        raise KeyboardInterrupt
    assert not is_open(descriptor)


def test_an_open_file_that_is_dropped_is_closed(file: Path) -> None:
    before = open_descriptors()
    for _ in range(10):
        Opened(file, os.O_RDONLY)
    assert open_descriptors() == before


def test_closing_an_open_file_twice_closes_no_other(file: Path) -> None:
    opened = Opened(file, os.O_RDONLY)
    opened.close()
    with Opened(file, os.O_RDONLY) as descriptor:
        opened.close()
        assert is_open(descriptor)


def test_a_file_that_cannot_be_closed_says_so_and_is_not_closed_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Opened(file, os.O_RDONLY)
    descriptor = opened.descriptor

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "close", fail)
        with pytest.raises(OSError, match="Input/output error"):
            opened.close()
    assert (opened.descriptor, is_open(descriptor)) == (-1, True)
    os.close(descriptor)


def test_a_file_is_opened_as_os_open_does(tmp_path: Path) -> None:
    with Opened(tmp_path, os.O_RDONLY | os.O_DIRECTORY) as directory:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with Opened("new", flags, 0o640, dir_fd=directory) as descriptor:
            os.write(descriptor, b"bytes")
        with pytest.raises(FileExistsError):
            Opened("new", flags, dir_fd=directory)
    assert ((tmp_path / "new").read_bytes(), (tmp_path / "new").stat().st_mode & 0o777) == (b"bytes", 0o640)


def test_what_cannot_be_opened_leaves_no_descriptor(tmp_path: Path) -> None:
    before = open_descriptors()
    with pytest.raises(FileNotFoundError):
        Opened(tmp_path / "none", os.O_RDONLY)
    assert open_descriptors() == before


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_file_that_is_to_be_emptied_is_so_before_it_is_closed_however_that_comes(
    tmp_path: Path,
    is_closed: bool,  # noqa: FBT001 -- both ways
) -> None:
    path = tmp_path / "file"
    for is_emptied in (False, True):
        path.write_bytes(b"a death")
        opened = Opened(path, os.O_RDWR)
        opened.is_emptied = is_emptied
        if is_closed:
            opened.close()
        del opened
        assert path.read_bytes() == (b"" if is_emptied else b"a death")
