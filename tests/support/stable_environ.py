"""Change this process's environment so that native threads may look variables up meanwhile.

Mesa's threads look one up whenever they write a compiled shader to its cache. setenv moves the list of variables and frees the
old one, so a test that set a variable then could end the process by SIGSEGV, in a thread that Python knows nothing of. Here the
list stays where it is, strings are never freed, and a change is one pointer.
"""

from __future__ import annotations

import ctypes
import os

_MOST = 4096
_libc = ctypes.CDLL(None)
_environ = ctypes.c_void_p.in_dll(_libc, "environ")
_libc.calloc.restype = _libc.strdup.restype = ctypes.c_void_p
# Not Python's: threads look around until the process has ended, when Python has freed what it had.
_entries = (ctypes.c_void_p * _MOST).from_address(_libc.calloc(_MOST, ctypes.sizeof(ctypes.c_void_p)))
_strings: dict[bytes, int] = {}
_names: list[bytes] = []


def install() -> None:
    """Have ``os.environ`` change the list in this way from now on."""
    os.putenv, os.unsetenv = _put, _unset


def _put(name: str | bytes, value: str | bytes) -> None:
    name, value = os.fsencode(name), os.fsencode(value)  # os.environ gives bytes, numpy 2 gives str
    if b"=" in name or b"\0" in name + value:
        raise ValueError("illegal environment variable")
    entry = name + b"=" + value
    if entry not in _strings:
        _strings[entry] = _libc.strdup(entry)
    names = _all_names()
    place = names.index(name) if name in names else len(names)
    if place >= _MOST - 1:
        raise OSError(f"more than {_MOST - 1} environment variables")
    _entries[place] = _strings[entry]
    if place == len(names):
        names.append(name)


def _unset(name: str | bytes) -> None:
    name = os.fsencode(name)
    names = _all_names()
    if name in names:
        place, last = names.index(name), len(names) - 1
        _entries[place] = _entries[last]
        _entries[last] = None
        names[place] = names[last]
        names.pop()


def _all_names() -> list[bytes]:
    """Return the name of each entry, of a list that is ours: C code may have made another one, or moved entries in this one."""
    is_ours = _environ.value == ctypes.addressof(_entries)
    if not is_ours:
        _adopt()
    if not is_ours or _entries[len(_names)] is not None or (_names and _entries[len(_names) - 1] is None):
        _names.clear()
        while (entry := _entries[len(_names)]) is not None:
            _names.append(ctypes.string_at(entry).partition(b"=")[0])
    return _names


def _adopt() -> None:
    """Take over the list that is there; its strings are never freed by who made it."""
    found = ctypes.cast(_environ, ctypes.POINTER(ctypes.c_void_p)) if _environ.value else [None]
    count = 0
    while found[count] is not None:
        _entries[count] = found[count]
        count += 1
    for place in range(count, _MOST):
        _entries[place] = None
    _environ.value = ctypes.addressof(_entries)
