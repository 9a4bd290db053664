# cython: language_level=3, embedsignature=True, binding=True
"""Read one file of the cache, with all that is needed to verify it, in one call without the GIL.

It is six system calls at most, because opening a directory costs more than reading the file: the root is checked by lstat, and
so is its sub-directory unless the root's ctime says that nothing in it was replaced.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EINTR, ENAMETOOLONG, errno
from libc.stdint cimport int64_t
from libc.string cimport memcpy
from posix.types cimport off_t

cdef extern from "<fcntl.h>" nogil:
    int open(const char* path, int flags)
    enum: O_RDONLY, O_NOFOLLOW, O_CLOEXEC, O_NONBLOCK

cdef extern from "<sys/stat.h>" nogil:
    struct timespec:
        int64_t tv_sec
        long tv_nsec
    struct stat_t "stat":
        unsigned int st_mode
        unsigned int st_uid
        unsigned int st_gid
        unsigned long st_ino
        unsigned long st_dev
        off_t st_size
        timespec st_mtim
        timespec st_ctim
    int fstat(int descriptor, stat_t* status)
    int lstat(const char* path, stat_t* status)
    bint S_ISREG(unsigned int mode)

cdef extern from "<unistd.h>" nogil:
    int close(int descriptor)
    unsigned int geteuid()

cdef extern from "<time.h>" nogil:
    int clock_gettime(int clock, timespec* now)
    enum: CLOCK_REALTIME

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t readv(int descriptor, const iovec* parts, int count)

# O_NONBLOCK: a FIFO in a file's place must not hang the reader.
cdef int OPEN_FILE = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK

cdef enum:
    LONGEST_PATH = 4096
    SHARD_CHARACTERS = 2
    AT_ROOT = 0
    AT_SHARD = 1
    AT_FILE = 2
    DONE = 3


cdef struct opened:
    int file
    bint has_shard
    stat_t root_status
    stat_t shard_status
    stat_t file_status


cdef int64_t nanoseconds(timespec time) noexcept nogil:
    return time.tv_sec * 1000000000 + time.tv_nsec


cdef int open_judged(char* path, size_t root_length, int64_t settled_ns, opened* found) noexcept nogil:
    """Open ``path``, given the length of its root; returns the stage that failed, with errno, or DONE."""
    found.file = -1
    found.has_shard = False
    path[root_length] = 0
    if lstat(path, &found.root_status) < 0:
        return AT_ROOT
    path[root_length] = b"/"
    if nanoseconds(found.root_status.st_ctim) != settled_ns:
        path[root_length + 1 + SHARD_CHARACTERS] = 0
        if lstat(path, &found.shard_status) < 0:
            return AT_SHARD
        path[root_length + 1 + SHARD_CHARACTERS] = b"/"
        found.has_shard = True
    found.file = open(path, OPEN_FILE)
    if found.file < 0 or fstat(found.file, &found.file_status) < 0:
        return AT_FILE
    return DONE


cdef ssize_t read_whole(int descriptor, char* data, size_t size, char* grown) noexcept nogil:
    """Read ``size`` bytes, and one more into ``grown`` if there is one; returns the bytes read, or -1 with errno."""
    cdef iovec parts[2]
    cdef size_t at = 0
    cdef ssize_t count
    while at <= size:
        parts[0].iov_base, parts[0].iov_len = data + at, size - at
        parts[1].iov_base, parts[1].iov_len = grown, 1
        count = readv(descriptor, parts, 2)
        if count < 0 and errno == EINTR:
            continue
        if count < 0:
            return -1
        at += <size_t> count
        if count == 0 or at == size:  # a file read short of its end is judged by its lengths and its digest all the same
            break
    return <ssize_t> at


cdef class Judged:
    """A root that may be used, as it was when that was found, for whom, and the mode bits that no file of ours has."""

    cdef unsigned int mode, user, group, reader, forbidden
    cdef unsigned long inode, device

    def __cinit__(self, tuple facts not None, unsigned int reader, unsigned int forbidden):
        self.mode, self.user, self.group, self.inode, self.device = facts
        self.reader = reader
        self.forbidden = forbidden


cdef bint is_as_judged(const opened* found, Judged judged, int64_t touch_after_ns) noexcept:
    """Whether the root is the one judged, and the file one of ours or root's that was used not long ago."""
    cdef const stat_t* root = &found.root_status
    cdef const stat_t* file = &found.file_status
    cdef unsigned int reader = geteuid()
    cdef timespec now
    cdef int64_t since
    if root.st_ino != judged.inode or root.st_dev != judged.device or root.st_mode != judged.mode:
        return False
    if root.st_uid != judged.user or root.st_gid != judged.group or reader != judged.reader:
        return False
    if file.st_mode & judged.forbidden or (file.st_uid != reader and file.st_uid != 0):
        return False
    clock_gettime(CLOCK_REALTIME, &now)
    since = nanoseconds(now) - nanoseconds(file.st_mtim)
    return -touch_after_ns < since < touch_after_ns


cdef tuple directory_facts(const stat_t* status):
    return status.st_mode, status.st_uid, status.st_gid, status.st_ino, status.st_dev


def read_entry(
    bytes root not None, str place not None, Py_ssize_t limit, int64_t settled_ns, Judged judged=None, int64_t touch_after_ns=0
):
    """Read ``root/ab/name``, where ``place`` is ``"ab/name"``, if it is a regular file of at most ``limit`` bytes.

    ``settled_ns`` is the root's ctime for which its sub-directory need not be checked again, or -1.

    Returns the bytes alone when nothing but they is left to judge: the sub-directory is settled, the root is as it was
    ``judged``, the file is its reader's or root's, has none of the forbidden mode bits, and its time is less than
    ``touch_after_ns`` off.

    Otherwise returns ``(stage, code, root, ctime_ns, shard, file, data)``. ``stage`` is what failed with the errno ``code``:
    0 the root, 1 its sub-directory, 2 the file; 3 when nothing did. Directories are given as (mode, user, group, inode,
    device), the file as (mode, user, group, inode, bytes, ns of its last change); None where they were not reached or asked
    for.
    ``data`` is None unless it was read, and is one byte longer than the file was if the file has grown.
    """
    cdef char path[LONGEST_PATH]
    cdef Py_ssize_t root_length = PyBytes_GET_SIZE(root)
    cdef bytes encoded = place.encode("ascii")
    cdef Py_ssize_t place_length = PyBytes_GET_SIZE(encoded)
    cdef opened found
    cdef int stage, code = 0
    cdef ssize_t got = 0
    cdef size_t size = 0
    cdef char grown[1]
    cdef char* read_to
    cdef bytes data = None
    if place_length <= SHARD_CHARACTERS + 1:
        raise ValueError(f"{place!r} is not a place below a root")
    if root_length + place_length + 2 > LONGEST_PATH:
        return AT_ROOT, ENAMETOOLONG, None, 0, None, None, None
    memcpy(path, PyBytes_AS_STRING(root), <size_t> root_length)
    memcpy(path + root_length + 1, PyBytes_AS_STRING(encoded), <size_t> place_length + 1)
    with nogil:
        stage = open_judged(path, <size_t> root_length, settled_ns, &found)
        if stage != DONE:
            code = errno
    try:
        if stage == DONE and S_ISREG(found.file_status.st_mode) and found.file_status.st_size <= limit:
            size = <size_t> found.file_status.st_size
            data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> size)
            read_to = PyBytes_AS_STRING(data)
            with nogil:
                got = read_whole(found.file, read_to, size, grown)
                if got < 0:
                    code = errno
    finally:
        if found.file >= 0:
            close(found.file)
    if got < 0:
        stage, data = AT_FILE, None
    elif data is not None and <size_t> got != size:
        data = data[:got] if <size_t> got < size else data + grown[:1]
    elif data is not None and judged is not None and not found.has_shard and is_as_judged(&found, judged, touch_after_ns):
        return data
    status = &found.file_status
    return (
        stage,
        code,
        None if stage == AT_ROOT else directory_facts(&found.root_status),
        0 if stage == AT_ROOT else nanoseconds(found.root_status.st_ctim),
        directory_facts(&found.shard_status) if stage != AT_ROOT and found.has_shard else None,
        None if stage != DONE else (
            status.st_mode, status.st_uid, status.st_gid, status.st_ino, status.st_size, nanoseconds(status.st_mtim)
        ),
        data,
    )
