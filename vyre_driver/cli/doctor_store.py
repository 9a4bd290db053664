"""The check of the store that machines share: reachable, whose entries are taken, and whether its clock and ours agree."""

from __future__ import annotations

import time

from vyre_driver import settings
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cli.doctor_checks import Check, State
from vyre_driver.errors import VyreError

_DAY_S = 86_400.0


def check_store() -> Check:
    """Ask the store that VYRE_CACHE_REMOTE names for a sign of life, and look at the keys; nothing is stored there."""
    if settings.text(settings.CACHE_REMOTE) is None:
        return Check("store", State.OK, "none is shared with other machines (VYRE_CACHE_REMOTE)", facts={"address": None})
    try:
        return _asked()
    except VyreError as error:
        return Check("store", State.WARNING, error.problem, fixes=(error.fix,), facts={"code": error.code})


def _asked() -> Check:
    from vyre_driver.cli.cache_remote import asked  # late: it imports what a process without a store does without
    from vyre_driver.remote.store import StoreFailure, Timed
    from vyre_driver.remote.trust import signer_of_settings, trust_of_settings

    cache = DiskPipelineCache.from_settings()
    trust, signer = trust_of_settings(), signer_of_settings(cache.root)
    with asked() as store:
        store.ping()
        began = time.perf_counter()
        store.ping()
        took_s = time.perf_counter() - began
        ahead_s = None
        if isinstance(store, Timed):
            try:
                ahead_s = time.time() - store.time_s()
            except StoreFailure:  # a user who may not ask for the time may still read
                ahead_s = None
    facts = {"address": store.address, "round_trip_s": took_s, "clock_ahead_s": ahead_s, "signs": signer is not None}
    says = f"{store.address} answers in {took_s * 1e3:.2f} ms"
    if ahead_s is not None and abs(ahead_s) > _DAY_S:
        side = "ahead of" if ahead_s > 0 else "behind"
        said = f"{says}; this machine's clock is {abs(ahead_s) / _DAY_S:.0f} days {side} its own"
        fix = "set this machine's clock, or the store's: what is signed here bears its time"
        return Check("store", State.WARNING, said, fixes=(fix,), facts=facts)
    if not trust:
        fix = f"name a file of public keys by {settings.CACHE_TRUST_FILE.variable}"
        return Check("store", State.WARNING, f"{says}, and nothing is taken: nobody is trusted", fixes=(fix,), facts=facts)
    names = ", ".join(sorted(key.name for key in trust.keys.values()))
    sends = "what is compiled here is signed" if signer is not None else "nothing is signed here"
    return Check("store", State.OK, f"{says}; taken is what {names} has signed, and {sends}", facts=facts)
