"""The target of a tuning record: a kernel's code and constants, a device model and driver, and a size class.

The identity is what a record is found by; upstream's key, under which it stands in the file, has room for less.

Source: spec items 2.1 and 2.4.
"""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from blake3 import blake3

from vyre_driver.autotune.columns import candidate_of, columns_of
from vyre_driver.autotune.store.record import AutotuneKey, AutotuneRecord
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.identity.keys import layout_digest, shader_digest, tuning_identity
from vyre_driver.specialization.values import SpecMap
from vyre_driver.upstream.keys import SpecCacheKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.autotune.search.space import Candidate, TuningSpace
    from vyre_driver.autotune.store.records import Size, TuningRecords
    from vyre_driver.spirv.module import SpirvModule
    from vyre_driver.vulkan.devices import PhysicalDevice

_SHARED_NAMES = frozenset({"<source>", "<bytes>", "program"})
"""Names that all modules of text or bytes without one, and all programs, have."""


@dataclass(frozen=True, slots=True)
class TuningTarget:
    """A kernel on a device, as far as a choice of constants depends on it.

    ``code`` and ``layout`` are 32-byte digests of the program or modules and of how they are bound; ``fixed`` are the values
    of the constants that are not tuned, an axis of the space that has one of them does not count as tuned.
    """

    kernel: str
    code: bytes
    layout: bytes
    space: TuningSpace
    device: PhysicalDevice
    fixed: SpecMap = field(default_factory=SpecMap)
    ulp_budget: int = 0

    def __post_init__(self) -> None:
        """Check that a record has room for what may be tuned; raises InvalidTuningSpace."""
        columns_of(self.space, self.space.preferred)

    @classmethod
    def of_modules(
        cls, kernel: str, modules: Sequence[SpirvModule], space: TuningSpace, device: PhysicalDevice, fixed: SpecMap
    ) -> TuningTarget:
        """Return the target of a kernel that is made of these modules, in this order; raises as ``SpirvModule.runnable``."""
        plans = [BindingPlan.from_reflection(one.runnable.reflection) for one in modules]
        layout = b"".join(layout_digest(plan) for plan in plans)
        code = b"".join(shader_digest(one.runnable.code) for one in modules)
        return cls(kernel, blake3(code).digest(), blake3(layout).digest(), space, device, fixed)

    def known(self, records: TuningRecords, size: Size = ()) -> Candidate | None:
        """Return the best choice known for a class of sizes, None if none is, or the device would not take it."""
        record = records.best(self, size)
        return None if record is None else candidate_of(self.space, record, self.device.limits)

    def accepts(self, record: AutotuneRecord) -> bool:
        """Whether the record's choice is one of the space, whose values and rule may have changed, and does on this device."""
        return candidate_of(self.space, record, self.device.limits) is not None

    @property
    def key(self) -> AutotuneKey:
        """Upstream's key, of the preferred workgroup; the adapter is ``vulkan-`` and the ids of vendor and device in hex."""
        shader, binding = (int.from_bytes(one[:8], "little") for one in (self.code, self.layout))
        spec = SpecCacheKey.new(shader, binding, self.space.preferred.workgroup_size, self.fixed)
        return AutotuneKey.new(spec, f"vulkan-{self.device.vendor_id:04x}-{self.device.device_id:04x}")

    def identity(self, size: str = "") -> str:
        """Return the identity of a record for a class of sizes, as ``AutotuneRecord.size`` has it."""
        constants = [axis.constant for axis in self.space.axes if axis.constant not in self.fixed]
        return tuning_identity(self.code, constants, self.fixed, self.device, ulp_budget=self.ulp_budget, size=size)

    @property
    def title(self) -> str:
        """The kernel's name in records: its own, with the first 8 hex digits of its code where other kernels share that."""
        return f"{self.kernel} {self.code.hex()[:8]}" if self.kernel in _SHARED_NAMES else self.kernel

    def record(self, best: Candidate, samples: int, median_ns: int, size: str = "", timings: str = "") -> AutotuneRecord:
        """Return the record of a choice that was measured just now, so many times, with this median.

        ``timings`` are those of its search, as ``AutotuneRecord.timings`` has them.
        """
        device = self.device
        return AutotuneRecord(
            *columns_of(self.space, best),
            dt.datetime.now(tz=dt.timezone.utc).date().isoformat(),
            self.identity(size),
            samples,
            median_ns,
            int(time.time()),
            self.title,
            device.name,
            f"{device.driver_name} {device.driver_info}".strip(),
            size,
            timings,
        )
