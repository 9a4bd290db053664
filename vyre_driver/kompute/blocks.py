"""The memory of one device, in blocks: each is a tensor of kompute's, and buffers are ranges of them.

Vulkan promises 4,096 allocations in all, and one takes 100 us and more. So short buffers share blocks that grow with their
number; the first one is small, for every process pays it. Longer ones share blocks too, of which each is no longer than the
first buffer in it until there are many; buffers over 64 MiB have blocks of their own. Blocks of which nothing is used are kept
as long as a reserve of an eighth of what is used is not exceeded, and up to 256 MiB in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from vyre_driver.errors import DeviceOutOfMemory
from vyre_driver.kompute.results import no_room_error
from vyre_driver.kompute.unfinished import drop_ended
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.vulkan.devices import DeviceLimits
    from vyre_driver.vulkan.layer._layer import Allocation, Arena

_ONE_WORD = np.zeros(1, np.uint32)  # what kompute is asked for: the layer gives the tensor its length
_FIRST_BYTES = 1 << 21
_FIRST_PART = 64  # of the heap the first block is at most one of so many
_GROWTH = 32
_MOST_BYTES = 1 << 30  # of a block that is not asked for in one piece: making memory takes 22 ms a GiB on an H200
_STEP_BYTES = 1 << 16
_LEAST_STEP_BYTES = 256
_LONG_STEPS = 16  # parts of a power of two to which the lengths of long blocks are rounded, so that others fit later
_LARGEST = 3  # holders that an error names


class MemoryFacts(NamedTuple):
    """The memory of a driver's device: numbers of bytes, and of what they are in.

    ``by_name`` has how many buffers of each name there are, and their bytes. ``fragmentation`` is which part of the free memory
    in blocks is not in the longest free piece: 0 where it is one piece.
    """

    used: int
    reserved: int
    peak: int
    limit: int
    blocks: int
    staging: int
    fragmentation: float
    by_name: dict[str, tuple[int, int]]


class DeviceMemory:
    """What gives buffers their memory on one device, and takes it back when they go."""

    def __init__(self, device: KomputeDevice, heap_bytes: int, limit: int | None) -> None:
        """Have none yet; ``limit`` is the most that may be taken of the heap."""
        self._device = device
        self._is_one_heap = len(device.physical.memory_heaps) == 1
        self.limit: Final = heap_bytes if limit is None else min(limit, heap_bytes)
        self.storage = _layer.Arena(device.layer, is_staging=False)
        self.staging = self.storage if device.shares_memory else _layer.Arena(device.layer, is_staging=True)
        self._can_pin = _layer.can_pin(device.layer)
        for arena in {self.storage, self.staging}:
            device.keep_holder(arena)

    def take(self, byte_len: int, name: str) -> Allocation:
        """Return a buffer for kernels.

        Raises
        ------
        DeviceOutOfMemory
            If there is no room for it, also once all that can be let go is gone.
        DispatchFailed
            If the device fails otherwise; a subclass says why, as DeviceLost does.
        """
        taken = self.storage.take(byte_len, name) if byte_len <= self.limit - self.storage.byte_len else None
        return taken if type(taken) is _layer.Allocation else self._taken(self.storage, byte_len, name, taken)

    def take_staging(self, byte_len: int, name: str = "") -> Allocation:
        """Return a buffer of the host's memory, which the device copies from and to; raises as ``take``."""
        taken = self.staging.take(byte_len, name)
        return taken if type(taken) is _layer.Allocation else self._taken(self.staging, byte_len, name, taken)

    def export(self, byte_len: int, name: str) -> tuple[Allocation, _layer.ExportedMemory]:
        """Return a buffer that other APIs of the device are to see, with memory of its own; raises as ``take``."""
        device = self._device
        for _ in self._tries():
            if byte_len <= self.available:
                kind = device.api.tensor_types.host if device.shares_memory else device.api.tensor_types.storage
                return device.call_kompute(
                    "allocate a buffer",
                    lambda manager: self.storage.export(manager.tensor_t, (_ONE_WORD, kind), byte_len, name),  # noqa: B023
                )
        raise self.no_room(byte_len)

    @property
    def used(self) -> int:
        """The bytes of all buffers, without staging."""
        return self.storage.byte_len

    @property
    def available(self) -> int:
        """The bytes that are left of the limit."""
        return max(0, self.limit - self.used)

    @property
    def facts(self) -> MemoryFacts:
        """How much there is, who has it, and in how many blocks."""
        found = self.storage.facts
        free = found.reserved - found.used
        return MemoryFacts(
            used=self.used,
            reserved=found.reserved,
            peak=found.peak,
            limit=self.limit,
            blocks=found.blocks,
            staging=0 if self.staging is self.storage else self.staging.facts.reserved,
            fragmentation=1 - found.longest / free if free else 0.0,
            by_name=self.storage.by_name(),
        )

    def maps(self, byte_len: int) -> bool:
        """Whether the host is to see a block for so many bytes, where it can: it writes all but what movers bring."""
        return not self._can_pin or byte_len <= _layer.LONG_BYTES

    def trim(self) -> bool:
        """Give blocks back of which nothing is used, or only by work that has ended; return whether there were any."""
        self._let_go()
        arenas = {self.storage, self.staging}
        return sum([arena.trim() for arena in arenas]) > 0

    def no_room(self, byte_len: int) -> DeviceOutOfMemory:
        """Return the error of a buffer that does not fit."""
        holders = sorted(self.storage.by_name().items(), key=lambda item: -item[1][1])[:_LARGEST]
        return no_room_error(self._device.physical.name, byte_len, self.available, self.limit, holders)

    def _taken(self, arena: Arena, byte_len: int, name: str, taken: Allocation | _layer.Failure | None) -> Allocation:
        """Return a buffer for which no block has room: of a new one, or of what somebody lets go for it."""
        error: DeviceOutOfMemory | None = None
        for is_again in self._tries():
            if not self._is_within_limit(arena, byte_len):
                continue
            if is_again:
                taken = arena.take(byte_len, name)
            if taken is None:
                error = self._grow(arena, byte_len)
                taken = arena.take(byte_len, name, is_new=error is None, is_anywhere=error is not None)
            if isinstance(taken, _layer.Failure):
                if taken.call == _layer.CALLS[0]:
                    self._device.check_usable()
                raise self._device.error_of(taken)
            if taken is not None:
                return taken
        raise error or self.no_room(byte_len)

    def _is_within_limit(self, arena: Arena, byte_len: int) -> bool:
        return arena is not self.storage or byte_len <= self.available

    def _tries(self) -> Iterator[bool]:
        """Yield False, and then True if blocks could be given back: there may be room now."""
        self._let_go()
        yield False
        if self.trim():
            yield True

    def _let_go(self) -> None:
        """Free what only work holds that has ended."""
        self._device.movers.close_ended()
        drop_ended()

    def _grow(self, arena: Arena, byte_len: int) -> DeviceOutOfMemory | None:
        """Add a block with room for so many bytes; return the error where there is none."""
        device, error = self._device, None
        types = device.api.tensor_types
        kind = types.host if arena is self.staging else types.storage
        is_mapped = self.maps(byte_len)
        for block_bytes in self._block_sizes(arena, byte_len):
            try:
                device.call_kompute(
                    "allocate memory",
                    lambda manager: arena.add_block(manager.tensor_t, (_ONE_WORD, kind), block_bytes, byte_len, is_mapped),  # noqa: B023
                )
            except DeviceOutOfMemory as raised:
                error = raised
            else:
                return None
        return error or self.no_room(byte_len)

    def _block_sizes(self, arena: Arena, byte_len: int) -> list[int]:
        """Return how long a new block may be, the best first: what the arena grows by, and what is needed."""
        facts, least = arena.facts, _rounded(byte_len, _LEAST_STEP_BYTES)
        others = self.staging.facts.reserved if self._is_one_heap and self.staging is not self.storage else 0
        if arena is not self.storage:
            others = self.storage.facts.reserved if self._is_one_heap else 0
        if byte_len > _layer.LONG_BYTES:
            wanted = _rounded(byte_len, (1 << byte_len.bit_length()) // _LONG_STEPS)
        elif byte_len > _layer.SHORT_BYTES:
            is_many = facts.blocks >= self._device.physical.limits.max_memory_allocation_count // 2
            wanted = max(least, _rounded(facts.reserved // _GROWTH, _STEP_BYTES)) if is_many else least
        else:
            first = min(_FIRST_BYTES, self.limit // _FIRST_PART)
            wanted = max(least, _rounded(min(max(first, facts.in_short // _GROWTH), _MOST_BYTES), _STEP_BYTES))
        left = self.limit - facts.reserved - others
        sizes = [wanted] if wanted <= left else []
        if wanted != least and least <= left + _STEP_BYTES:  # the limit is one of buffers
            sizes.append(least)
        return sizes


def longest_buffer(limits: DeviceLimits) -> int:
    """Return how many bytes one buffer of a device may have: kompute counts them in a uint32."""
    return min(limits.max_storage_buffer_range, 2**32 - 4)


def _rounded(byte_len: int, step: int) -> int:
    return -(-byte_len // step) * step


def stand_in(device: KomputeDevice) -> Any:  # noqa: ANN401 -- kp has no types
    """Return a tensor without memory: kompute makes pipelines with it, whose buffers the layer binds."""
    kind = device.api.tensor_types.storage
    return device.call_kompute("make a pipeline", lambda manager: _layer.create_stand_in(manager.tensor_t, (_ONE_WORD, kind)))
