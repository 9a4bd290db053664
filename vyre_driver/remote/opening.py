"""From the settings to a driver's view of the store that machines share: one worker a process for each store and root."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from blake3 import blake3

from vyre_driver import settings
from vyre_driver.errors import InvalidSetting
from vyre_driver.remote.addresses import DEFAULT_TIMEOUT_S, MODES, checked_address, open_store
from vyre_driver.remote.breaker import Breaker
from vyre_driver.remote.tier import RemoteTier
from vyre_driver.remote.trust import signer_of_settings, trust_of_settings
from vyre_driver.remote.worker import StoreWorker

if TYPE_CHECKING:
    from vyre_driver.cache.disk import DiskPipelineCache
    from vyre_driver.telemetry.events import Events
    from vyre_driver.vulkan.devices import PhysicalDevice

_LOG = logging.getLogger("vyre_driver.remote")
_workers: dict[tuple[object, ...], StoreWorker] = {}


def open_tier(cache: DiskPipelineCache, device: PhysicalDevice, events: Events) -> RemoteTier | None:
    """Return the store that VYRE_CACHE_REMOTE names, as one driver asks it; None without one. Nothing is connected to.

    Drivers of one process that have the same store and cache share a connection.

    Raises
    ------
    InvalidSetting
        If a variable is not valid, or a file of keys may not be used.
    BackendUnavailable
        If signatures are to be made or checked, and ``cryptography`` is not installed.
    """
    url, mode = settings.text(settings.CACHE_REMOTE), settings.choice(settings.CACHE_REMOTE_MODE, MODES)
    if url is None or mode == "off":
        return None
    address = checked_address(url)
    timeout_s = settings.seconds(settings.CACHE_REMOTE_TIMEOUT) or DEFAULT_TIMEOUT_S
    secret_file = settings.absolute_path(settings.CACHE_REMOTE_SECRET_FILE)
    trust, signer = trust_of_settings(), signer_of_settings(cache.root)
    if mode == "write" and signer is None:
        variable = settings.CACHE_REMOTE_MODE.variable
        raise InvalidSetting(
            f"{variable} is write, and there is no key to sign with",
            fix=f"name one by {settings.CACHE_SIGN_KEY_FILE.variable} (vyre-driver cache keygen makes it), or read only",
            variable=variable,
            value=mode,
        )
    if not trust:
        fix = f"name a file of public keys by {settings.CACHE_TRUST_FILE.variable}"
        _LOG.warning("nothing is taken from the shared cache, because nobody is trusted. Fix: %s.", fix)
    name = url, timeout_s, secret_file, cache.root
    worker = _workers.get(name)
    if worker is None:
        opening = partial(open_store, url, timeout_s=timeout_s, secret_file=secret_file)
        breaker = breaker_of(cache, url)
        worker = _workers.setdefault(name, StoreWorker(opening, breaker, address=address, may_write=True))
    may_sign = None if mode == "read" else signer
    worker.wake()  # it imports what reaches the store while the driver opens its device
    return RemoteTier(worker, cache=cache, device=device, events=events, trust=trust, signer=may_sign)


def breaker_of(cache: DiskPipelineCache, url: str) -> Breaker:
    """Return what knows whether the drivers of this machine leave the store at a URL alone."""
    return Breaker(cache, blake3(url.encode()).hexdigest()[:16])
