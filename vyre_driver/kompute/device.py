"""One Vulkan device, opened through kompute under the layer."""

from __future__ import annotations

import functools
import itertools
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from vyre_driver import settings
from vyre_driver.errors import DispatchFailed, ForkError, UnsupportedFeature, VyreError
from vyre_driver.kompute._kp import load_kompute
from vyre_driver.kompute.blocks import DeviceMemory, longest_buffer, stand_in
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.kompute.first import end_first, submit_first
from vyre_driver.kompute.movers import Movers
from vyre_driver.kompute.owner import NO_OWNER, DeviceOwner
from vyre_driver.kompute.poller import Poller
from vyre_driver.kompute.results import FIXES, VK_SUCCESS, failure_error, lost_error, opening_error
from vyre_driver.kompute.submission import Submission
from vyre_driver.kompute.unfinished import drop_ended
from vyre_driver.process.call_lock import refused
from vyre_driver.vulkan.devices import DeviceType
from vyre_driver.vulkan.layer import _layer
from vyre_driver.vulkan.layer.enable import STATISTICS_FEATURE, create_under_layer, layer_config, layer_missing, wanted_features

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.errors import BackendError
    from vyre_driver.kompute.exports import Export
    from vyre_driver.vulkan.devices import PhysicalDevice

_Made = TypeVar("_Made")
_ROBUST_ACCESS = "robustBufferAccess"

BACKEND_ID = "kompute"
_SHARED_MEMORY = frozenset({DeviceType.CPU, DeviceType.INTEGRATED})


class KomputeDevice:
    """A kompute Manager on one physical device, and the bytes allocated through it.

    ``lock`` is held around every call into kompute. Use after ``close`` or in a forked child is an error. ``generation`` counts
    the devices that this process has opened, from 1.
    """

    backend_id = BACKEND_ID
    allocate: Callable[[int, int, Any, str], Any] | None = None
    """What gives the memory of a resident buffer, where that is not a ``TensorBuffer``."""

    def __init__(self, physical: PhysicalDevice, owner: DeviceOwner = NO_OWNER, *, robust: str | None = None) -> None:
        """Open the device on its queue family for compute; ``robust`` names what asks for robust access, if not the setting.

        Raises
        ------
        BackendUnavailable
            If kp cannot be imported, or the Vulkan loader does not load the layer.
        ForkError
            In a process forked after a device was opened, if this one is hardware: its driver would hang or crash.
        UnsupportedFeature
            If the device has no queue for compute, or cannot give the robust access that was asked for.
        DispatchFailed
            If kompute cannot open the device, or opens another one, or it takes no work (DeviceLost if it is lost).
        DeviceOutOfMemory
            If there is no memory for its first work.
        InvalidSetting
            If VYRE_ROBUST_ACCESS, VYRE_PIPELINE_STATISTICS or VYRE_MEMORY_LIMIT is not valid.
        """
        if physical.device_type is not DeviceType.CPU:
            check_not_forked(f"the driver of {physical.name!r}")
        family = physical.compute_family
        if family is None:
            raise UnsupportedFeature(f"{physical.name!r} has no queue for compute", fix="choose another device")
        self.physical = physical
        self.driver, self.timeline = owner.driver, owner.timeline
        self.make_room, self.loop_limit = owner.make_room, owner.loop_limit
        self.api = load_kompute()
        self.lock = threading.RLock()
        is_set = settings.switch(settings.ROBUST_ACCESS)
        self._robust = f"{settings.ROBUST_ACCESS.variable} is on" if is_set else robust
        self._wants_statistics = settings.switch(settings.PIPELINE_STATISTICS)
        limit = settings.byte_size(settings.MEMORY_LIMIT)
        self._family, self._pid, self.generation = family.index, os.getpid(), next(_generations)
        self.moved = _layer.MovedBytes()
        self.poller = Poller()
        self.never = Deadline(None, physical.name)
        self._holders: set[weakref.ref[object]] = set()
        self._let_go = self._holders.discard
        self._exports: set[weakref.ref[Export]] = set()
        heaps = physical.memory_heaps
        self.shares_memory = physical.device_type in _SHARED_MEMORY
        self._heap_bytes = heaps[0][0] if len(heaps) == 1 else physical.device_local_bytes
        self.longest_buffer = longest_buffer(physical.limits)
        self._is_lost_at_end = False
        self.features = frozenset(self._wanted_features())
        self._manager, self.layer = self._open()
        self.in_use, self.movers = _layer.DeviceUse(self.layer, self._raise_why), Movers(self)
        self.memory = DeviceMemory(self, self._heap_bytes, limit)
        _note_open(self)
        _opened_in.add(os.getpid())
        self.api_version = min(physical.loader_version, physical.api_version)
        self._check_features()
        self._first = submit_first(self)

    def _wanted_features(self) -> tuple[str, ...]:
        robust = (_ROBUST_ACCESS,) if self._robust and _ROBUST_ACCESS in self.physical.features else ()
        told = wanted_features(self.physical, (STATISTICS_FEATURE,)) if self._wants_statistics else ()
        return (*wanted_features(self.physical), *robust, *told)

    def _check_features(self) -> None:
        """A safety that was asked for and is not there must not be missed silently."""
        if self._robust and _ROBUST_ACCESS not in self.features:
            self.close()
            raise UnsupportedFeature(
                f"{self._robust}, and {_ROBUST_ACCESS} is not available on {self.physical.name!r}",
                fix="choose another device, or switch it off",
                feature=_ROBUST_ACCESS,
            )

    def _open(self) -> tuple[Any, _layer.LayerDevice]:
        """Return kompute's Manager and the layer's device; under the layer the instance lists the chosen device alone."""
        config, name = layer_config(self.physical, tuple(self.features)), self.physical.name
        version = self.physical.loader_version
        try:
            manager, layer = create_under_layer(config, version, self.api.manager, 0, [self._family], [])
        except RuntimeError as error:
            raise opening_error(name, error) from error
        if layer is None:
            manager.destroy()
            raise layer_missing(name)
        if layer.device_uuid != self.physical.device_uuid:
            opened = manager.get_device_properties()["device_name"]
            manager.destroy()
            raise DispatchFailed(
                f"kompute opened {opened!r} where {name!r} was asked for: the loader's order changed",
                fix="hide the other devices (VK_DRIVER_FILES, MESA_VK_DEVICE_SELECT)",
                opened=opened,
            )
        return manager, layer

    @property
    def manager(self) -> Any:  # noqa: ANN401 -- kp has no types
        """The kompute Manager; raises as ``check_usable``."""
        self.check_usable()
        return self._manager

    def check_usable(self) -> None:
        """Check that the device may be used: kompute would crash on a closed one, and hang in a fork.

        Raises
        ------
        ForkError
            In a process forked after the device was opened.
        DeviceLost
            Once the device was lost.
        DispatchFailed
            If the device is closed.
        """
        self.in_use.check_usable()

    def _raise_why(self) -> None:
        """Raise why the device cannot be used, if it cannot."""
        if os.getpid() != self._pid:
            raise ForkError(
                f"{self.physical.name!r} was opened in process {self._pid} and is used in its fork {os.getpid()}",
                fix="open the driver after the fork, or start processes with the spawn method",
            )
        if self.in_use.closed:
            raise DispatchFailed(f"{self.physical.name!r} is closed", fix="make a new Driver")
        if self.is_lost:
            raise lost_error(self.physical.name, self.generation)

    @property
    def is_lost(self) -> bool:
        """Whether the device stopped answering, as far as the layer has seen."""
        return self._is_lost_at_end or self.layer.is_lost

    @property
    def has_ended_well(self) -> bool:
        """Whether the device is gone, and all work on it had ended before."""
        return not self.layer.is_alive and not self.is_lost

    @property
    def is_timed(self) -> bool:
        """Whether the device's own clock can be asked how long work took: the queue has timestamps."""
        family = self.physical.compute_family
        return family is not None and family.timestamp_valid_bits > 0 and self.physical.limits.timestamp_period_ns > 0

    def call_kompute(self, what: str, call: Callable[[Any], _Made], refusal: type[BackendError] = DispatchFailed) -> _Made:
        """Return ``call(manager)``, made under the lock; raise what it failed with.

        Raises
        ------
        DeviceOutOfMemory
            If the layer recorded that memory ran out.
        KernelCompileFailed
            If the layer recorded that no pipeline could be created.
        DispatchFailed
            If the layer recorded another failure, or kompute alone raised one and ``refusal`` is not another class.
        DeviceLost
            If the layer recorded that the device was lost.
        """
        with self.lock, self.in_use:
            made, error, failure = _layer.call_and_note(call, self._manager)
        if error is None and failure is None:
            return made
        if isinstance(error, VyreError):
            raise error
        if failure is not None:
            raise self.error_of(failure) from error
        raise refusal(f"kompute could not {what} on {self.physical.name!r} ({error})", fix=FIXES[refusal]) from error

    def raise_failure(self, failure: _layer.Failure | None) -> None:
        """Raise what the layer noted, if anything: DeviceOutOfMemory, DispatchFailed, DeviceLost."""
        if failure is not None:
            raise self.error_of(failure)

    def check_result(self, result: int) -> None:
        """Check that the VkResult of a wait is not a failure; raise DeviceLost or DispatchFailed otherwise."""
        if result < VK_SUCCESS:
            raise self.error_of_result(result)

    def error_of_result(self, result: int) -> BackendError:
        """Return the error that a VkResult below 0 of a wait stands for."""
        return self.error_of(_layer.Failure("wait", result, 0))

    def error_of(self, failure: _layer.Failure) -> BackendError:
        """Return the error that a call stands for which the layer has seen fail."""
        return failure_error(failure, self.physical.name, self.memory.available, self.generation)

    def fail(self, call: str, result: int) -> NoReturn:
        """Raise the error of a call of the layer's that gave a VkResult below 0."""
        raise self.error_of(_layer.Failure(call, result, 0))

    def check_available(self, byte_len: int) -> None:
        """Check that buffers of so many bytes fit into what is left of the device's memory.

        Raises DeviceOutOfMemory.
        """
        if byte_len > self.memory.available:
            raise self.memory.no_room(byte_len)

    @functools.cached_property
    def stand_in(self) -> Any:  # noqa: ANN401 -- kp has no types
        """A tensor without memory, with which kompute makes pipelines."""
        return stand_in(self)

    @property
    def allocated(self) -> int:
        """The bytes of all buffers, without staging memory."""
        return self.memory.used

    def keep_holder(self, holder: object) -> None:
        """Remember what holds an object of kompute's, and never lets go of it, as long as it lives, for ``abandon``."""
        self._holders.add(weakref.ref(holder, self._let_go))

    def note_export(self, export: Export) -> None:
        """Remember memory that others look at: it stays after ``close``, with the VkDevice, until they let go of it."""
        self._exports.add(weakref.ref(export, self._exports.discard))

    def abandon(self) -> None:
        """In a forked child: never destroy what was inherited, for a fork does not copy the device's threads and locks."""
        self.lock = threading.RLock()  # a thread that a fork does not copy may have held it
        self.poller.abandon()
        for held in (self, self._manager, *self.holders()):
            _layer.leak(held)

    def holders(self) -> list[object]:
        """Return what was given to ``keep_holder`` and lives."""
        return [one for one in [kept() for kept in tuple(self._holders)] if one is not None]

    def report(self) -> dict[str, object]:
        """Return the features that are on and the layer's counters, as plain data."""
        return {"features": sorted(self.features), "counters": self.counters()}

    def counters(self) -> dict[str, int]:
        """Return the layer's counters."""
        end_first(self._first)
        return self.layer.counters()

    def close(self) -> None:
        """Destroy the device and all that was made on it, after its work has ended; in a forked child, nothing.

        Nobody may use it from the first moment on. A call that Ctrl-C ended is finished by the next one; where nothing is left
        to do it does nothing, and beside one in another thread it waits for that.

        Raises
        ------
        DispatchFailed
            In the middle of a call on the same thread, which it would have to wait for; the device stays open.
        """
        if os.getpid() != self._pid:
            return
        if self.in_use.is_mine:
            raise refused(f"{self.physical.name!r}", "to be closed", "a call that uses it")
        self.in_use.close()
        with self.lock:
            manager = self._manager
            if manager is None:
                return
            self.movers.close()
            # kompute would free command buffers that are still read. A handler may have closed the device just before.
            if self.layer.wait_idle() and self.layer.is_alive:
                self._is_lost_at_end = True
            for holder in self.holders():
                if isinstance(holder, Submission):
                    holder.note_end()
            drop_ended()
            looked_at = [export for export in [one() for one in tuple(self._exports)] if export is not None]
            for export in looked_at:
                export.kept = manager  # its destructor is ``destroy``, once nobody looks any more
            if not looked_at:
                manager.destroy()  # does nothing where it was interrupted just after, or closed by a handler meanwhile
            self._manager = None


# By generation.
_OPEN: dict[int, weakref.ref[KomputeDevice]] = {}
_generations = itertools.count(1)


# Processes, of this one and those it was forked from, that have opened a device.
_opened_in: set[int] = set()


def check_not_forked(what: str = "a GPU's driver") -> None:
    """Check that this process was not forked from one that had opened a device; raise ForkError otherwise."""
    forked_from = _opened_in - {os.getpid()}
    if forked_from:
        raise ForkError(
            f"process {os.getpid()} was forked from {forked_from.pop()}, which had opened a device; {what} cannot be used "
            "again after that",
            fix="start processes with the spawn method, or fork before the first Driver",
        )


def _note_open(device: KomputeDevice) -> None:
    """Remember a device, and forget those that are gone."""
    for number in [number for number, one in list(_OPEN.items()) if one() is None]:
        _OPEN.pop(number, None)
    _OPEN[device.generation] = weakref.ref(device)


def _abandon_all() -> None:
    if _opened_in:
        _layer.skip_exit_handlers()
    _layer.abandon_unfinished()
    for one in list(_OPEN.values()):
        device = one()
        if device is not None:
            device.abandon()


os.register_at_fork(before=_layer.prepare_fork, after_in_parent=_layer.end_fork, after_in_child=_abandon_all)
