"""Which device a user means."""

from __future__ import annotations

import pytest
from literals import device, refusal

from vyre_driver.errors import DeviceNotFound, SoftwareDeviceRefused
from vyre_driver.vulkan.devices import DeviceType
from vyre_driver.vulkan.selection import rank_devices, select_device

SOFTWARE = device(index=0, name="llvmpipe", device_type=DeviceType.CPU, device_uuid=bytes(15) + b"\x0a", pci=None)
BIG = device(index=1, name="Example GPU 9000", device_uuid=bytes(15) + b"\x0b", pci=(0, 0x65, 0, 0))
SMALL = device(
    index=2, name="Example iGPU", device_type=DeviceType.INTEGRATED, device_uuid=bytes(15) + b"\x0c", pci=(1, 2, 3, 4)
)
DEVICES = (SOFTWARE, BIG, SMALL)

UUID = "000000000000000000000000000000"
LISTED = {
    SOFTWARE.index: f"0 'llvmpipe' uuid:{UUID}0a",
    BIG.index: f"1 'Example GPU 9000' uuid:{UUID}0b",
    SMALL.index: f"2 'Example iGPU' uuid:{UUID}0c",
}
SOFTWARE_MESSAGE = (
    "the only device that fits, 'llvmpipe', is a CPU (software) device and none was allowed. "
    "Fix: pass allow_software=True, give --allow-software, or set VYRE_ALLOW_SOFTWARE=1."
)


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (1, 1),
        (2, 2),
        ("1", 1),
        ("02", 2),
        (f"uuid:{UUID}0b", 1),
        (f"UUID: {UUID}0B ", 1),
        ("uuid:00000000-0000-0000-0000-00000000000c", 2),
        ("pci:0000:65:00.0", 1),
        ("pci:65:00.0", 1),
        ("PCI:0001:02:03.4", 2),
        ("name:gpu 9000", 1),
        ("name:IGPU", 2),
        (" Name : example gpu", 1),
        ("type:discrete", 1),
        ("type:Integrated", 2),
    ],
)
def test_a_device_is_found_by_what_names_it(wanted: str | int, index: int) -> None:
    assert select_device(DEVICES, wanted) is DEVICES[index]


@pytest.mark.parametrize(
    "wanted",
    [
        3,
        -1,
        "3",
        "99999999999999999999",
        "uuid:00",
        "pci:0000:66:00.0",
        "pci:02:03.4",
        "name:other",
        "type:virtual",
        "type:gpu",
    ],
)
def test_a_name_that_fits_no_device_is_refused_with_those_there_are(wanted: str | int) -> None:
    listed = ", ".join(LISTED.values())
    message = f"{wanted!r} names no device; there are 3 ({listed}). Fix: name one of those."
    assert refusal(lambda: select_device(DEVICES, wanted)) == (DeviceNotFound, 2002, message)


@pytest.mark.parametrize(
    ("wanted", "indices"), [("name:example", [1, 2]), ("name:l", [0, 1, 2]), ("type:discrete", [1, 3]), ("name:9000", [1, 3])]
)
def test_a_name_that_fits_several_devices_is_refused_with_those(wanted: str, indices: list[int]) -> None:
    twin = device(index=3, name="9000", device_uuid=bytes(16), pci=None)
    listed = ", ".join({**LISTED, 3: f"3 '9000' uuid:{UUID}00"}[index] for index in indices)
    message = f"{wanted!r} names {len(indices)} devices ({listed}). Fix: name one of them by uuid:, pci: or its index."
    assert refusal(lambda: select_device((*DEVICES, twin), wanted)) == (DeviceNotFound, 2002, message)


def test_several_devices_are_refused_before_one_of_them_is_called_software() -> None:
    message = f"'name:l' names 2 devices ({LISTED[0]}, {LISTED[1]}). Fix: name one of them by uuid:, pci: or its index."
    assert refusal(lambda: select_device(DEVICES[:2], "name:l")) == (DeviceNotFound, 2002, message)


@pytest.mark.parametrize(
    "wanted", ["", "gpu", "uuid:", "pci:", "name:", "name:  ", "type:", "index:1", "-1", "1.0", "uuid", ":", "²"]
)
def test_a_text_that_names_nothing_is_refused(wanted: str) -> None:
    message = f"{wanted!r} does not say which device. Fix: write uuid:, pci:, name: or type: and a value, or an index."
    assert refusal(lambda: select_device(DEVICES, wanted)) == (DeviceNotFound, 2002, message)


@pytest.mark.parametrize("wanted", [None, 0, "0", "name:llvmpipe", "type:cpu", f"uuid:{UUID}0a"])
def test_a_cpu_device_is_refused_where_none_was_allowed(wanted: str | int | None) -> None:
    assert refusal(lambda: select_device((SOFTWARE,), wanted)) == (SoftwareDeviceRefused, 2003, SOFTWARE_MESSAGE)


@pytest.mark.parametrize("wanted", [None, 0, "0", "name:llvmpipe", "type:cpu", f"uuid:{UUID}0a"])
def test_a_cpu_device_is_chosen_where_one_was_allowed(wanted: str | int | None) -> None:
    assert select_device((SOFTWARE,), wanted, allow_software=True) is SOFTWARE


def test_a_cpu_device_is_not_chosen_beside_a_gpu_even_where_allowed() -> None:
    assert select_device(DEVICES, allow_software=True) is BIG


def test_the_best_kind_of_device_is_chosen_when_none_is_named() -> None:
    best_first = ["DISCRETE", "INTEGRATED", "VIRTUAL", "OTHER", "CPU"]
    left = [device(index=at, device_type=kind) for at, kind in enumerate(DeviceType)]
    order = []
    while left:
        chosen = select_device(left, allow_software=True)
        order.append(chosen.device_type.name)
        left.remove(chosen)
    assert order == best_first


def test_among_equals_the_first_is_chosen() -> None:
    equals = [device(index=at) for at in range(3)]
    assert select_device(equals) is equals[0]


@pytest.mark.parametrize("wanted", [None, 0, "name:any"])
def test_where_there_is_no_device_at_all_none_is_found(wanted: str | int | None) -> None:
    assert refusal(lambda: select_device((), wanted))[:2] == (DeviceNotFound, 2002)


def test_devices_are_ranked_as_they_are_taken_and_each_says_why() -> None:
    other = device(index=3)
    fix = "pass allow_software=True, give --allow-software, or set VYRE_ALLOW_SOFTWARE=1"
    assert [(one.device.index, one.rank, one.why) for one in rank_devices((*DEVICES, other))] == [
        (1, 1, "taken when none is named: the first of type discrete"),
        (3, 2, "behind device 1 of the same type, which the loader lists first"),
        (2, 3, "behind device 1: discrete goes before integrated"),
        (0, None, f"not taken: a CPU (software) device, and none was allowed; {fix}"),
    ]


def test_a_cpu_device_that_is_allowed_is_ranked_too() -> None:
    assert [(one.rank, one.why) for one in rank_devices(DEVICES[:2], allow_software=True)] == [
        (1, "taken when none is named: the first of type discrete"),
        (2, "behind device 1: discrete goes before cpu"),
    ]
    assert rank_devices((SOFTWARE,), allow_software=True)[0].why == (
        "taken when none is named: the first of type cpu, which was allowed"
    )


def test_the_first_in_the_ranking_is_the_one_that_is_selected() -> None:
    kinds = [device(index=at, device_type=kind) for at, kind in enumerate(DeviceType)]
    for allowed in (False, True):
        assert rank_devices(kinds, allow_software=allowed)[0].device is select_device(kinds, allow_software=allowed)
    assert rank_devices(()) == ()
