"""``vyre-driver tune push | pull``: tuning records to the store that machines share, and from it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vyre_driver.autotune import AutotuneStore
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cli.cache_entries import physical_devices
from vyre_driver.cli.cache_remote import asked, needed_signer, needed_trust
from vyre_driver.cli.options import human_count, say, tell
from vyre_driver.cli.tune_run import records_file
from vyre_driver.identity.keys import device_fields
from vyre_driver.remote.names import device_name
from vyre_driver.remote.trust import trust_of_settings
from vyre_driver.remote.tuning import pull_records, push_records

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from vyre_driver.autotune import AutotuneKey, AutotuneRecord


def run_push(options: argparse.Namespace, records: Sequence[tuple[AutotuneKey, AutotuneRecord]]) -> int:
    """Store the records of the devices here, signed; the better measured of two stays."""
    cache = DiskPipelineCache.from_settings()
    signer, trust = needed_signer(cache), trust_of_settings()
    stored = known = 0
    here = {(one.name, f"{one.driver_name} {one.driver_info}".strip()): one for one in physical_devices()}
    with asked() as store:
        for (name, driver), device in here.items():
            own = [(key, one) for key, one in records if (one.device, one.driver) == (name, driver)]
            added, others = push_records(store, signer, trust, device_name(device_fields(device)), own)
            stored, known = stored + added, known + others
    left_out = len(records) - stored - known
    tell(
        options,
        {"store": store.address, "stored": stored, "known": known, "left_out": left_out},
        f"{human_count(stored, 'record')} stored in {store.address}, {known} known already, {left_out} of no device here",
    )
    return 0


def run_pull(options: argparse.Namespace) -> int:
    """Take the records for the devices here; the better measured of two stays. Status 1 when some were refused."""
    trust = needed_trust()
    path = records_file(options)
    local = AutotuneStore.load(path)
    signers: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    with asked() as store:
        for device in physical_devices():
            records = pull_records(store, trust, device_name(device_fields(device)))
            refused += records.refused
            for one in records.found:
                there = local.get(one.key, one.record.identity)
                if there is None or one.record.supersedes(there):
                    local.put(one.key, one.record)
                    signers[one.signer] += 1
    local.save_if_dirty(path)
    taken = sum(signers.values())
    tell(
        options,
        {
            "store": store.address,
            "file": str(path),
            "taken": taken,
            "refused": dict(sorted(refused.items())),
            "signers": dict(sorted(signers.items())),
        },
        f"{human_count(taken, 'record')} taken into {path}",
    )
    if not options.json:
        for reason, number in sorted(refused.items()):
            say(f"{number} refused: {reason}", on_stderr=True)
    return 1 if refused else 0
