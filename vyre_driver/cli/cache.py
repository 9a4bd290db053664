"""``vyre-driver cache``: inspect and maintain the pipeline cache, and take its entries to another machine.

What only some actions need is imported when they run: ``cache dir`` is in people's scripts.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import sys
import time
from collections import Counter
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vyre_driver import settings
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.entry import MAX_ENTRY_BYTES, DeviceIds, Verdict
from vyre_driver.cli.cache_entries import KEY_DIGITS, devices_here, find_entry, tell_taken
from vyre_driver.cli.options import add_json, human_bytes, human_time, printable, progress, tell
from vyre_driver.display.line import count
from vyre_driver.errors import FileUnusable
from vyre_driver.process.whole_files import whole_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from vyre_driver.cache.entry import PipelineEntry
    from vyre_driver.cache.upkeep import StoredEntry

NO_NAME = "-"
_WIDEST_NAME = 40  # of the column; a longer one moves what follows it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes: verbs of its own."""
    parser.add_argument("--dir", metavar="DIRECTORY", help="the cache's directory (default: VYRE_CACHE_DIR, else the user's)")
    actions = parser.add_subparsers(required=True, metavar="ACTION", parser_class=type(parser))

    def action(
        name: str, act: Callable[[DiskPipelineCache, argparse.Namespace], int], description: str
    ) -> argparse.ArgumentParser:
        result = actions.add_parser(name, help=description, description=f"{description.capitalize()}.")
        add_json(result)
        result.set_defaults(act=act, action=name)
        return result

    action("dir", _dir, "print the directory")
    action("info", _info, "count what is in it, and say whether it is used")
    action("list", _list, "list the entries, those used last first")
    action("show", _show, "print all that an entry says").add_argument("key", help="a key, or the beginning of one")
    verify = action("verify", _verify, "read and verify every file; status 1 if something is wrong")
    verify.add_argument("--fix", action="store_true", help="set damaged entries aside, remove what has no use")
    why = action("why", _why, "say what an entry has that its nearest do not, and whether a device here can use it")
    why.add_argument("key", help="a key, or the beginning of one")
    why.add_argument("--remote", action="store_true", help="say what the store that machines share has, and who signed it")
    prune = action("prune", _prune, "remove what was not used for long, and what is over the size limit")
    prune.add_argument(
        "--max-size", metavar="BYTES", type=_byte_size, help="the limit, with K, M or G (default: VYRE_CACHE_MAX_SIZE)"
    )
    prune.add_argument("--max-age", metavar="DAYS", type=_days, help="days without use (default: 90)")
    clear = action("clear", _clear, "remove everything")
    clear.add_argument(
        "--imported", action="store_true", help="only what came from elsewhere, as when a signer is trusted no more"
    )
    _add_bundles(action)
    _add_remote(action)


def _add_bundles(action: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the actions with bundles."""
    export = action("export", _export, "write entries into one file, for another machine")
    export.add_argument("file", help="the bundle to write")
    export.add_argument("keys", nargs="*", metavar="KEY", help="only these")
    export.add_argument(
        "--sign", action="store_true", help="sign each entry (VYRE_CACHE_SIGN_KEY_FILE), for users who have our public key"
    )
    take = action("import", _import, "take the entries of a bundle that fit the devices here")
    take.add_argument("file", help="the bundle to read")
    take.add_argument("--trust", action="store_true", help="take entries that no key of ours has sealed: you made the bundle")
    take.add_argument("--any-device", action="store_true", help="take entries for devices that are not here too")
    take.add_argument("--dry-run", action="store_true", help="only say what is in it, and what would fit")


def _add_remote(action: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the actions with the store that machines share."""
    action("remote", _with_store, "say what the shared store is, and what it has for the devices here")
    push = action("push", _with_store, "store what was compiled here in the shared store, signed")
    push.add_argument("keys", nargs="*", metavar="KEY", help="only these")
    pull = action("pull", _with_store, "take what the shared store has for the devices here; status 1 if some of it is refused")
    pull.add_argument("--any-device", action="store_true", help="take entries for devices that are not here too")
    warm = action("warm", _with_store, "make what a recording names ready: take it, or compile it; status 1 if some cannot be")
    warm.add_argument("file", help="what programs with VYRE_CACHE_RECORD have written")
    keygen = action("keygen", _with_store, "make a key to sign with, and print the line with which others trust it")
    keygen.add_argument("file", help="the new file, mode 600")
    keygen.add_argument("--name", help="what the signer is called (default: the file's name)")


def _with_store(cache: DiskPipelineCache, options: argparse.Namespace) -> int:
    """Run an action that knows stores and signatures, which are imported for it alone."""
    from vyre_driver.cli import cache_remote

    match options.action:
        case "remote":
            return cache_remote.run_remote(cache, options)
        case "push":
            return cache_remote.run_push(cache, options)
        case "pull":
            return cache_remote.run_pull(cache, options)
        case "warm":
            from vyre_driver.cli import cache_warm

            return cache_warm.run_warm(cache, options)
    return cache_remote.run_keygen(cache, options)


def _byte_size(text: str) -> int:
    size = settings.bytes_of(text)
    if size == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes from 1 on, with K, M or G behind it as you like")
    return size


def _days(text: str) -> float:
    days = float(text)
    if not 0 <= days < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return days


def run(options: argparse.Namespace) -> int:
    """Run an action on the cache that the settings and ``--dir`` ask for."""
    status: int = options.act(DiskPipelineCache.from_settings(options.dir), options)
    return status


def _dir(cache: DiskPipelineCache, options: argparse.Namespace) -> int:
    """Print the directory; nothing when the cache is in memory only."""
    if cache.root is None:
        tell(options, {"root": None})
    else:
        tell(options, {"root": str(cache.root)}, cache.root)
    return 0


def _info(cache: DiskPipelineCache, options: argparse.Namespace) -> int:
    """Count files, and say whether the root is used."""
    usage, below, stats = cache.usage(), cache.usage(base=True), cache.stats()
    data = {name: stats[name] for name in ("root", "refused", "readonly", "base", "sealed")}
    lines = [
        f"{stats['root'] or 'memory only'}{', read-only' if stats['readonly'] else ''}{', sealed' if stats['sealed'] else ''}"
    ]
    if stats["base"]:
        lines.append(f"base {stats['base']}, {count(below.entries, 'entry')}")
    if stats["refused"]:
        lines.append(f"not used: {stats['refused']}")
    imported = f" ({usage.imported} imported)" if usage.imported else ""
    lines.append(f"{count(usage.entries, 'entry')}{imported}, {human_bytes(usage.allocated_bytes)} on the disk")
    rest = {"raw blobs": usage.raw_blobs, "unfinished files": usage.temporaries, "set aside": usage.quarantined}
    lines += [f"{number} {what}" for what, number in rest.items() if number]
    tell(options, {**data, **dataclasses.asdict(usage), "base_entries": below.entries}, *lines)
    return 0


def _list(cache: DiskPipelineCache, options: argparse.Namespace) -> int:
    """List the entries by their headers."""
    entries = [_listed(one) for one in sorted(cache.entries(), key=lambda one: (-one.used_at, one.key))]
    now, width = time.time(), min(_WIDEST_NAME, max((len(one["kernel"] or NO_NAME) for one in entries), default=0))
    tell(options, {"entries": entries}, *(_line(one, now, width) for one in entries))
    return 0


def _listed(entry: StoredEntry) -> dict[str, Any]:
    fields = dict(entry.fields())
    return {
        "key": entry.key,
        "kernel": entry.kernel or None,
        "path": entry.path,
        "bytes": entry.byte_len,
        "native_bytes": entry.header.native_bytes,
        "spirv_bytes": entry.header.spirv_bytes,
        "imported": entry.imported,
        "sealed": entry.header.is_sealed,
        "used_at": int(entry.used_at),
        "written_by": entry.header.written_by,
        "driver": " ".join(str(fields[name]) for name in ("driverName", "driverInfo") if fields.get(name)),
    }


def _line(one: dict[str, Any], now: float, width: int) -> str:
    kind = f"{human_bytes(one['native_bytes'])} compiled" if one["native_bytes"] else "SPIR-V only"
    marks = ", imported" if one["imported"] else ""
    used = human_time(now - one["used_at"])
    name = one["kernel"] or NO_NAME
    what = f"{one['key'][:KEY_DIGITS]}  {name:<{width}}  {human_bytes(one['bytes']):>9}  used {used} ago  {kind}{marks}"
    return f"{what}  {printable(one['driver'])}"


def _show(cache: DiskPipelineCache, options: argparse.Namespace) -> int:
    """Print an entry's header and manifest."""
    entry = find_entry(cache, options.key)
    listed = _listed(entry)
    fields = {name: value.hex() if isinstance(value, bytes) else value for name, value in entry.fields()}
    shown = {**listed, "kernel": listed["kernel"] or NO_NAME, **fields}
    lines = (f"  {printable(name)}: {printable(value)}" for name, value in shown.items())
    tell(options, {**listed, "manifest": fields}, *lines)
    return 0


def _verify(cache: DiskPipelineCache, options: argparse.Namespace) -> int:
    """Verify every file; status 1 when something is wrong and was not repaired."""
    with progress("verifying", cache.usage().entries) as step:
        problems = cache.check(fix=options.fix, progress=step)
    left = sum(not one.fixed for one in problems)
    lines = [f"{printable(one.path)}: {printable(one.text)}{' (repaired)' if one.fixed else ''}" for one in problems]
    said = f"{count(len(problems), 'problem')}, {len(problems) - left} repaired"
    tell(options, {"problems": [dataclasses.asdict(one) for one in problems]}, *lines, said)
    return 1 if left else 0


def _why(cache: DiskPipelineCache, options: argparse.Namespace) -> int:
    """Tell an entry's verdict, its nearest entries and which devices here it is for."""
    if options.remote:
        from vyre_driver.cli import cache_remote

        return cache_remote.run_why(cache, options)
    from vyre_driver.cache.explain import nearest_entries
    from vyre_driver.identity.keys import PipelineCacheKey

    entry = find_entry(cache, options.key)
    key = PipelineCacheKey.from_manifest(entry.manifest)
    lookup = cache.peek(key)
    near, _ = nearest_entries(key.manifest, (one for one in cache.entries() if one.key != entry.key))
    here = [name for name, ids in devices_here() if ids == entry.header.ids]
    told = {"key": entry.key, "kernel": entry.kernel or None, "verdict": lookup.verdict.name, "reason": lookup.reason}
    tell(
        options,
        {**told, "devices": here, "nearest": [{**dataclasses.asdict(one), "kernel": one.kernel or None} for one in near]},
        f"{entry.key}: {lookup.reason}",
        f"kernel {entry.kernel or NO_NAME}",
        f"for {', '.join(here)}" if here else "for a device or driver that is not here",
        *(
            f"{one.key[:KEY_DIGITS]} ({one.kernel or NO_NAME}) differs in "
            f"{printable('; '.join(one.differences)) or 'nothing in the manifest'}"
            for one in near
        ),
    )
    return 0


def _prune(cache: DiskPipelineCache, options: argparse.Namespace) -> int:
    """Bring the cache within its bounds."""
    age = None if options.max_age is None else options.max_age * 86400
    report = dataclasses.asdict(cache.prune(options.max_size, age))
    tell(options, report, ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in report.items()))
    return 0


def _clear(cache: DiskPipelineCache, options: argparse.Namespace) -> int:
    """Remove everything, or what was imported."""
    removed = cache.clear(imported=options.imported)
    tell(options, {"removed": removed}, f"{count(removed, 'file')} removed")
    return 0


def _export(cache: DiskPipelineCache, options: argparse.Namespace) -> int:
    """Write entries into a bundle."""
    from vyre_driver.cache.bundle import export_bundle

    keys = {find_entry(cache, one).key for one in options.keys} or None
    path = Path(options.file)
    try:
        is_stdout = _is_stdout(path)
        with whole_file(path) as file, progress("exporting") as step:
            counted = _Counted(file)
            sign = _sign(cache) if options.sign else None
            listed = export_bundle(cache, counted, keys, step, sign)  # type: ignore[arg-type] # it is only written to
        vouched = "signed" if options.sign else "sealed" if cache.hmac_key else "not sealed"
    except OSError as error:
        raise _unusable("write", options.file, error) from error
    with redirect_stdout(sys.stderr) if is_stdout else nullcontext():  # behind a bundle nothing may follow
        tell(
            options,
            {"file": str(path), "entries": [dataclasses.asdict(entry) for entry in listed], "bytes": counted.size},
            f"{count(len(listed), 'entry')}, {human_bytes(counted.size)}, {vouched}: {path}",
        )
    return 0


class _Counted:
    """Writes into a file, which may be a pipe, and counts the bytes."""

    def __init__(self, file: BinaryIO) -> None:
        """Have written nothing yet."""
        self.size, self._file = 0, file

    def write(self, data: bytes) -> None:
        """Write bytes."""
        self._file.write(data)
        self.size += len(data)


def _is_stdout(path: Path) -> bool:
    """Whether a file is what standard output goes to."""
    try:
        return os.path.samestat(path.stat(), os.fstat(sys.stdout.fileno()))
    except (OSError, AttributeError):  # there is no such file yet, or no standard output
        return False


def _sign(cache: DiskPipelineCache) -> Callable[[bytes, PipelineEntry], bytes]:
    """Return what signs an entry; raises InvalidCommand without a key."""
    from vyre_driver.cli.cache_remote import needed_signer
    from vyre_driver.remote.envelope import sealed_entry

    signer = needed_signer(cache)
    return lambda digest, entry: sealed_entry(digest, entry, signer)


def _opener(*, trust_all: bool) -> Callable[[bytes], tuple[Verdict, bytes | None]] | None:
    """Return what opens the entries of a signed bundle; None where nobody is trusted."""
    if not trust_all and settings.text(settings.CACHE_TRUST_FILE) is None:
        return None
    from vyre_driver.remote.envelope import ENVELOPE_BYTES, opened
    from vyre_driver.remote.trust import trust_of_settings

    if trust_all:
        return lambda data: (Verdict.HIT, data[ENVELOPE_BYTES:])
    trust = trust_of_settings()
    return (lambda data: opened(data, trust, MAX_ENTRY_BYTES)[:2]) if trust else None


def _unusable(what: str, name: str, error: OSError) -> FileUnusable:
    return FileUnusable(f"cannot {what} {name} ({error.strerror or error})", fix="name another file", path=name)


def _import(cache: DiskPipelineCache, options: argparse.Namespace) -> int:
    """Take a bundle's entries; status 1 when some were refused."""
    from vyre_driver.cache.bundle import import_bundle

    devices = devices_here()
    try:
        with Path(options.file).open("rb") as file:
            if options.dry_run:
                return _tell_bundle(options, file, devices)
            wanted = None if options.any_device else {ids for _, ids in devices}
            with progress("importing") as step:
                opener = _opener(trust_all=options.trust)
                report = import_bundle(cache, file, trust=options.trust, devices=wanted, progress=step, opened=opener)
    except OSError as error:
        raise _unusable("read", options.file, error) from error
    known = f"{report.known} known already, {report.foreign} for devices that are not here"
    taken = f"{count(report.imported, 'entry')} taken, {known}"
    return tell_taken(options, dataclasses.asdict(report), taken, report.refused)


def _tell_bundle(options: argparse.Namespace, file: BinaryIO, devices: list[tuple[str, DeviceIds]]) -> int:
    """Print what a bundle says it has, by driver, and whether that is here."""
    from vyre_driver.cache.bundle import list_bundle
    from vyre_driver.identity.manifest import encode_manifest

    listed = list_bundle(file)
    groups = Counter((one.vendorID, one.deviceID, one.driverName, one.driverInfo) for one in listed)
    here = {(ids.cache_header[:8], ids.driver_info_digest) for _, ids in devices}
    drivers, lines = [], []
    for (vendor, device, name, info), number in sorted(groups.items()):
        ids = DeviceIds.of_manifest(encode_manifest([("vendorID", vendor), ("deviceID", device), ("driverInfo", info)]))
        fits = (ids.cache_header[:8], ids.driver_info_digest) in here
        driver = f"{name} {info}".strip()
        drivers.append({"vendorID": vendor, "deviceID": device, "driver": driver, "entries": number, "fits": fits})
        where = "fits a device here" if fits else "for no device here"
        lines.append(f"{count(number, 'entry')} for {vendor:#06x}:{device:#06x}, {printable(driver)}: {where}")
    tell(options, {"entries": len(listed), "drivers": drivers}, *lines)
    return 0
