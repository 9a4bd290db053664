"""``vyre-driver cache export`` and ``import``: entries on their way to another machine."""

from __future__ import annotations

import dataclasses
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver.cache.bundle import export_bundle, import_bundle, list_bundle
from vyre_driver.cache.entry import DeviceIds
from vyre_driver.cli.cache_entries import devices_here, find, open_cache
from vyre_driver.cli.options import print_json, printable, say
from vyre_driver.cli.progress import Progress, human_bytes
from vyre_driver.errors import FileUnusable
from vyre_driver.identity.manifest import encode_manifest

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import BinaryIO


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """Write a file under another name and give it its own at the end: a bundle is whole or not there."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _unusable(what: str, name: str, error: OSError) -> FileUnusable:
    return FileUnusable(f"cannot {what} {name} ({error.strerror or error})", fix="name another file", path=name)


def run_export(options: argparse.Namespace) -> int:
    """Write a bundle."""
    cache = open_cache(options)
    keys = {find(cache, one).key for one in options.keys} or None
    path = Path(options.file)
    try:
        with _new_file(path) as file, Progress("exporting") as progress:
            listed = export_bundle(cache, file, keys, progress.step)
        size = path.stat().st_size
    except OSError as error:
        raise _unusable("write", options.file, error) from error
    if options.json:
        print_json({"file": str(path), "entries": [dataclasses.asdict(one) for one in listed], "bytes": size})
    else:
        say(f"{len(listed)} entries, {human_bytes(size)}{', sealed' if cache.hmac_key else ', not sealed'}: {path}")
    return 0


def run_import(options: argparse.Namespace) -> int:
    """Take a bundle's entries; status 1 when some were refused."""
    cache = open_cache(options)
    devices = devices_here()
    try:
        with Path(options.file).open("rb") as file:
            if options.dry_run:
                return _tell_bundle(options, file, devices)
            wanted = None if options.any_device else {ids for _, ids in devices}
            with Progress("importing") as progress:
                report = import_bundle(cache, file, trust=options.trust, devices=wanted, progress=progress.step)
    except OSError as error:
        raise _unusable("read", options.file, error) from error
    if options.json:
        print_json(dataclasses.asdict(report))
    else:
        say(f"{report.imported} entries taken, {report.known} known already, {report.foreign} for devices that are not here")
        for verdict, number in report.refused.items():
            say(f"{number} refused: {verdict}", on_stderr=True)
    return 1 if report.refused else 0


def _tell_bundle(options: argparse.Namespace, file: BinaryIO, devices: list[tuple[str, DeviceIds]]) -> int:
    """Print what a bundle says it has, by driver, and whether that is here."""
    listed = list_bundle(file)
    groups: dict[tuple[int, int, str, str], int] = {}
    for one in listed:
        group = one.vendorID, one.deviceID, one.driverName, one.driverInfo
        groups[group] = groups.get(group, 0) + 1
    here = {(ids.cache_header[:8], ids.driver_info_digest) for _, ids in devices}
    drivers = []
    for (vendor, device, name, info), number in sorted(groups.items()):
        ids = DeviceIds.of_manifest(encode_manifest([("vendorID", vendor), ("deviceID", device), ("driverInfo", info)]))
        fits = (ids.cache_header[:8], ids.driver_info_digest) in here
        driver = f"{name} {info}".strip()
        drivers.append({"vendorID": vendor, "deviceID": device, "driver": driver, "entries": number, "fits": fits})
    if options.json:
        print_json({"entries": len(listed), "drivers": drivers})
        return 0
    for line in drivers:
        fits_text = "fits a device here" if line["fits"] else "for no device here"
        model = f"{line['vendorID']:#06x}:{line['deviceID']:#06x}, {printable(line['driver'])}"
        say(f"{line['entries']} entries for {model}: {fits_text}")
    return 0
