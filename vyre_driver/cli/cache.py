"""``vyre-driver cache``: inspect and maintain the pipeline cache."""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from typing import TYPE_CHECKING, Any

from vyre_driver import settings
from vyre_driver.cli.cache_entries import devices_here, find, open_cache
from vyre_driver.cli.options import add_json, print_json, printable, say
from vyre_driver.cli.progress import Progress, human_bytes, human_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.cache.walk import StoredEntry

_KEY_DIGITS = 12  # of a key in a list; any beginning that only one has will do


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb with its own verbs."""
    parser = verbs.add_parser("cache", help="look at the pipeline cache, and keep it in order", allow_abbrev=False)
    parser.add_argument("--dir", metavar="DIRECTORY", help="the cache's directory (default: VYRE_CACHE_DIR, else the user's)")
    actions = parser.add_subparsers(required=True, metavar="ACTION", parser_class=type(parser))

    def action(name: str, run: Callable[[argparse.Namespace], int], description: str) -> argparse.ArgumentParser:
        result = actions.add_parser(name, help=description, allow_abbrev=False)
        add_json(result)
        result.set_defaults(run=run)
        return result

    action("dir", run_dir, "print the directory")
    action("info", run_info, "count what is in it, and say whether it is used")
    action("list", run_list, "list the entries, those used last first")
    action("show", run_show, "print all that an entry says").add_argument("key", help="a key, or the beginning of one")
    verify = action("verify", run_verify, "read and verify every file; status 1 if something is wrong")
    verify.add_argument("--fix", action="store_true", help="set damaged entries aside, remove what has no use")
    why = action("why", run_why, "say what an entry has that its nearest do not, and whether a device here can use it")
    why.add_argument("key", help="a key, or the beginning of one")
    prune = action("prune", run_prune, "remove what was not used for long, and what is over the size limit")
    prune.add_argument(
        "--max-size", metavar="BYTES", type=_byte_size, help="the limit, with K, M or G (default: VYRE_CACHE_MAX_SIZE)"
    )
    prune.add_argument("--max-age", metavar="DAYS", type=_days, help="days without use (default: 90)")
    action("clear", run_clear, "remove everything")
    export = action("export", run_export, "write entries into one file, for another machine")
    export.add_argument("file", help="the bundle to write")
    export.add_argument("keys", nargs="*", metavar="KEY", help="only these")
    take = action("import", run_import, "take the entries of a bundle that fit the devices here")
    take.add_argument("file", help="the bundle to read")
    take.add_argument("--trust", action="store_true", help="take entries that no key of ours has sealed: you made the bundle")
    take.add_argument("--any-device", action="store_true", help="take entries for devices that are not here too")
    take.add_argument("--dry-run", action="store_true", help="only say what is in it, and what would fit")


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


def run_dir(options: argparse.Namespace) -> int:
    """Print the directory; nothing when the cache is in memory only."""
    root = open_cache(options).root
    if options.json:
        print_json({"root": None if root is None else str(root)})
    elif root is not None:
        say(root)
    return 0


def run_info(options: argparse.Namespace) -> int:
    """Count files, and say whether the root is used."""
    cache = open_cache(options)
    usage, below, stats = cache.usage(), cache.usage(base=True), cache.stats()
    if options.json:
        data = {name: stats[name] for name in ("root", "refused", "readonly", "base", "sealed")}
        print_json({**data, **dataclasses.asdict(usage), "base_entries": below.entries})
        return 0
    say(f"{stats['root'] or 'memory only'}{', read-only' if stats['readonly'] else ''}{', sealed' if stats['sealed'] else ''}")
    if stats["base"]:
        say(f"base {stats['base']}, {below.entries} entries")
    if stats["refused"]:
        say(f"not used: {stats['refused']}")
    imported = f" ({usage.imported} imported)" if usage.imported else ""
    say(f"{usage.entries} entries{imported}, {human_bytes(usage.allocated_bytes)} on the disk")
    rest = {"raw blobs": usage.raw_blobs, "unfinished files": usage.temporaries, "set aside": usage.quarantined}
    for what, number in rest.items():
        if number:
            say(f"{number} {what}")
    return 0


def _listed(entry: StoredEntry) -> dict[str, Any]:
    fields = dict(entry.fields())
    return {
        "key": entry.key,
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


def run_list(options: argparse.Namespace) -> int:
    """List the entries by their headers."""
    entries = sorted(open_cache(options).entries(), key=lambda one: (-one.used_at, one.key))
    if options.json:
        print_json({"entries": [_listed(one) for one in entries]})
        return 0
    now = time.time()
    for one in map(_listed, entries):
        kind = f"{human_bytes(one['native_bytes'])} compiled" if one["native_bytes"] else "SPIR-V only"
        marks = ", imported" if one["imported"] else ""
        used = human_time(now - one["used_at"])
        what = f"{one['key'][:_KEY_DIGITS]}  {human_bytes(one['bytes']):>9}  used {used} ago  {kind}{marks}"
        say(f"{what}  {printable(one['driver'])}")
    return 0


def _shown(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


def run_show(options: argparse.Namespace) -> int:
    """Print an entry's header and manifest."""
    entry = find(open_cache(options), options.key)
    fields = {name: _shown(value) for name, value in entry.fields()}
    if options.json:
        print_json({**_listed(entry), "manifest": fields})
        return 0
    for name, value in {**_listed(entry), **fields}.items():
        say(f"  {printable(name)}: {printable(value)}")
    return 0


def run_verify(options: argparse.Namespace) -> int:
    """Verify every file; status 1 when something is wrong and was not repaired."""
    cache = open_cache(options)
    with Progress("verifying", cache.usage().entries) as progress:
        problems = cache.check(fix=options.fix, progress=progress.step)
    left = [one for one in problems if not one.fixed]
    if options.json:
        print_json({"problems": [dataclasses.asdict(one) for one in problems]})
    else:
        for one in problems:
            say(f"{one.path}: {one.text}{' (repaired)' if one.fixed else ''}")
        say(f"{len(problems)} problems, {len(problems) - len(left)} repaired")
    return 1 if left else 0


def run_why(options: argparse.Namespace) -> int:
    """Tell an entry's verdict, its nearest entries and which devices here it is for."""
    from vyre_driver.cache.explain import nearest_entries  # late: few ask why
    from vyre_driver.identity.keys import PipelineCacheKey

    cache = open_cache(options)
    entry = find(cache, options.key)
    key = PipelineCacheKey.from_manifest(entry.manifest)
    lookup = cache.peek(key)
    near, _ = nearest_entries(key.manifest, (one for one in cache.entries() if one.key != entry.key))
    here = [name for name, ids in devices_here() if ids == entry.header.ids]
    if options.json:
        nearest = [dataclasses.asdict(one) for one in near]
        print_json(
            {"key": entry.key, "verdict": lookup.verdict.name, "reason": lookup.reason, "devices": here, "nearest": nearest}
        )
        return 0
    say(f"{entry.key}: {lookup.reason}")
    say(f"for {', '.join(here)}" if here else "for a device or driver that is not here")
    for one in near:
        say(f"{one.key[:_KEY_DIGITS]} differs in {printable('; '.join(one.differences)) or 'nothing in the manifest'}")
    return 0


def run_prune(options: argparse.Namespace) -> int:
    """Bring the cache within its bounds."""
    age = None if options.max_age is None else options.max_age * 86400
    report = open_cache(options).prune(options.max_size, age)
    if options.json:
        print_json(dataclasses.asdict(report))
        return 0
    say(", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in dataclasses.asdict(report).items()))
    return 0


def run_clear(options: argparse.Namespace) -> int:
    """Remove everything."""
    removed = open_cache(options).clear()
    if options.json:
        print_json({"removed": removed})
    else:
        say(f"{removed} files removed")
    return 0


def run_export(options: argparse.Namespace) -> int:
    """Write entries into a bundle."""
    from vyre_driver.cli import cache_bundles  # late, as its progress bars are

    return cache_bundles.run_export(options)


def run_import(options: argparse.Namespace) -> int:
    """Take the entries of a bundle."""
    from vyre_driver.cli import cache_bundles

    return cache_bundles.run_import(options)
