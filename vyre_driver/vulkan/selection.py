"""Select the physical device that a user names: ``uuid:``, ``pci:``, ``name:``, ``type:``, an index, or the best one.

A name that fits several devices is refused, and a CPU device is only chosen where it was allowed: no silent substitutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.errors import DeviceNotFound, SoftwareDeviceRefused
from vyre_driver.vulkan.devices import DeviceType, enumerate_devices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.vulkan.devices import PhysicalDevice

# Best first; ties keep the loader's order.
_PREFERENCE = (DeviceType.DISCRETE, DeviceType.INTEGRATED, DeviceType.VIRTUAL, DeviceType.OTHER, DeviceType.CPU)

_INDEX_DIGITS = 10

_SOFTWARE_FIX = "pass allow_software=True, give --allow-software, or set VYRE_ALLOW_SOFTWARE=1"


def select_device(
    devices: Sequence[PhysicalDevice], wanted: str | int | None = None, *, allow_software: bool = False
) -> PhysicalDevice:
    """Return the one device that ``wanted`` names, or the best one when it is None.

    ``wanted`` is an index into ``devices``, or text: ``uuid:<32 hex digits>``, ``pci:<address>``, ``name:<part of the name>``,
    ``type:<discrete|integrated|virtual|cpu|other>``, or a decimal index. Case does not count.

    Raises
    ------
    DeviceNotFound
        If no device fits, or several do.
    SoftwareDeviceRefused
        If what fits is a CPU device and ``allow_software`` is False.
    """
    if wanted is None:
        allowed = [device for device in devices if allow_software or not device.is_software]
        if not devices:
            raise DeviceNotFound("there is no device", fix="install a Vulkan driver")
        if not allowed:
            raise _refused_software(devices[0])
        return min(allowed, key=_place)
    fitting = _fitting(devices, wanted)
    if len(fitting) != 1:
        raise _not_one(devices, fitting, wanted)
    if fitting[0].is_software and not allow_software:
        raise _refused_software(fitting[0])
    return fitting[0]


class RankedDevice(NamedTuple):
    """A device, its place among those that may be taken (from 1; None: it may not be), and why, in words."""

    device: PhysicalDevice
    rank: int | None
    why: str


def rank_devices(devices: Sequence[PhysicalDevice], *, allow_software: bool = False) -> tuple[RankedDevice, ...]:
    """Return the devices in the order in which they are taken when none is named; those that are not taken at the end."""
    order = sorted(devices, key=lambda device: (device.is_software and not allow_software, _place(device)))
    taken = [device for device in order if allow_software or not device.is_software]
    ranked = [RankedDevice(device, rank, _why(device, taken[0])) for rank, device in enumerate(taken, start=1)]
    refused = f"not taken: a CPU (software) device, and none was allowed; {_SOFTWARE_FIX}"
    return (*ranked, *(RankedDevice(device, None, refused) for device in order if device not in taken))


def _place(device: PhysicalDevice) -> int:
    return _PREFERENCE.index(device.device_type)


def _why(device: PhysicalDevice, first: PhysicalDevice) -> str:
    if device is first:
        allowed = ", which was allowed" if device.is_software else ""
        return f"taken when none is named: the first of type {_type_of(device)}{allowed}"
    if device.device_type is first.device_type:
        return f"behind device {first.index} of the same type, which the loader lists first"
    return f"behind device {first.index}: {_type_of(first)} goes before {_type_of(device)}"


def _type_of(device: PhysicalDevice) -> str:
    return device.device_type.name.lower()


def _fitting(devices: Sequence[PhysicalDevice], wanted: str | int) -> list[PhysicalDevice]:
    if not isinstance(wanted, (int, str)) or isinstance(wanted, bool):
        raise _no_device(wanted)
    if isinstance(wanted, int) or wanted.isdecimal():
        # A text of thousands of digits is not an index, and Python refuses to read it.
        return [device for device in devices if len(str(wanted)) < _INDEX_DIGITS and device.index == int(wanted)]
    kind, _, value = wanted.partition(":")
    value = value.strip().lower()
    match kind.strip().lower():
        case "uuid" if value:
            return [device for device in devices if device.device_uuid.hex() == value.replace("-", "")]
        case "pci" if value:
            return [device for device in devices if device.pci_address in {value, f"0000:{value}"}]
        case "name" if value:
            return [device for device in devices if value in device.name.lower()]
        case "type" if value:
            return [device for device in devices if device.device_type.name.lower() == value]
    raise _no_device(wanted)


def _no_device(wanted: object) -> DeviceNotFound:
    return DeviceNotFound(
        f"{wanted!r} does not say which device",
        fix="write uuid:, pci:, name: or type: and a value, or an index",
        wanted=wanted,
    )


def _not_one(devices: Sequence[PhysicalDevice], fitting: Sequence[PhysicalDevice], wanted: str | int) -> DeviceNotFound:
    named = fitting or devices
    listed = ", ".join(f"{device.index} {device.name!r} uuid:{device.device_uuid.hex()}" for device in named)
    if fitting:
        problem = f"{wanted!r} names {len(fitting)} devices ({listed})"
        fix = "name one of them by uuid:, pci: or its index"
    else:
        problem = f"{wanted!r} names no device; there are {len(devices)} ({listed})"
        fix = "name one of those"
    return DeviceNotFound(problem, fix=fix, wanted=wanted, devices=[device.name for device in named])


def _refused_software(device: PhysicalDevice) -> SoftwareDeviceRefused:
    return SoftwareDeviceRefused(
        f"the only device that fits, {device.name!r}, is a CPU (software) device and none was allowed",
        fix=_SOFTWARE_FIX,
        device=device.name,
    )


def devices() -> tuple[PhysicalDevice, ...]:
    """Return every Vulkan device of this machine in the loader's order, as facts: none is opened.

    Raises
    ------
    VulkanUnavailable
        If there is no loader, no driver, or no device.
    """
    return enumerate_devices()


def every_device(*, allow_software: bool) -> list[str | int]:
    """Name every GPU for ``Driver``, or the one CPU device that is allowed; raises VyreError where there is neither."""
    found = enumerate_devices()
    chosen = [one for one in found if not one.is_software] or [select_device(found, allow_software=allow_software)]
    uuids = [one.device_uuid for one in found]
    return [f"uuid:{one.device_uuid.hex()}" if uuids.count(one.device_uuid) == 1 else one.index for one in chosen]
