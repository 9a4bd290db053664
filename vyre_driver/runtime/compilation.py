"""From a kernel's source to what pipelines are made of: the cache's entry, or one made now."""

from __future__ import annotations

import time
from pathlib import PurePath
from typing import TYPE_CHECKING

from vyre_driver.cache.entry import PipelineEntry, Verdict
from vyre_driver.lowering.source import UNNAMED_PROGRAM, PipelineSource
from vyre_driver.runtime.kernel_pipelines import CompiledKernel
from vyre_driver.runtime.pipelines import pipeline_key
from vyre_driver.runtime.trace import Trace
from vyre_driver.spirv.validator import check_valid
from vyre_driver.telemetry.events import EventKind
from vyre_driver.telemetry.stages import Stage
from vyre_driver.vulkan.blob import blob_fits

if TYPE_CHECKING:
    from vyre_driver.lowering.source import KernelSource
    from vyre_driver.runtime.context import Context


def name_in_profiles(source: KernelSource, key: str) -> str:
    """Return a kernel's name: of a file without its folders, and with the beginning of its key for code without a name."""
    if source.target is not None:
        return f"program {key[:8]}" if source.name == UNNAMED_PROGRAM else source.name
    return f"{source.name} {key[:8]}" if source.name.startswith("<") else PurePath(source.name).name.removesuffix(".spv")


def compile_source(context: Context, source: KernelSource, began: int | None = None) -> CompiledKernel:
    """Fetch the entry of a source; on a miss make one of the source's code, and store it.

    A blob the device did not write is left out. What the driver has not compiled yet is shown to the validator first, but for
    what was lowered and stored before: no caller wrote it. ``began`` is when compiling began, in ns of
    ``time.perf_counter_ns``.

    Raises
    ------
    InvalidModule
        If spirv-val is installed and refuses the code.
    CacheNotWarm
        If there is no entry, and nothing may be compiled.
    """
    began = time.perf_counter_ns() if began is None else began
    physical, timeline = context.device.physical, context.events.timeline
    key = pipeline_key(context.device, source)
    named = name_in_profiles(source, key.hex)
    looked = time.perf_counter_ns()
    lookup = context.cache.get(key)
    lookup_ns = time.perf_counter_ns() - looked
    found = EventKind.HIT if lookup.verdict is Verdict.HIT else EventKind.MISS
    context.events.emit(found, lookup_ns, key.hex, 1, lookup.reason, source.name)
    entry, reason = lookup.entry, lookup.reason
    if entry is None:
        lowering = timeline.now()
        entry, reason = context.first_pipelines.missed(key, reason, source.lower)
        timeline.add(Stage.LOWER, lowering, 0, named)
    elif entry.native and not blob_fits(entry.native, physical):
        entry = PipelineEntry(entry.manifest, entry.spirv)
    is_known_lowering = lookup.entry is not None and source.target is not None
    if not entry.native and not is_known_lowering:
        validating = timeline.now()
        check_valid(entry.spirv, source.capabilities, context.device.api_version, source.name)
        timeline.add(Stage.VALIDATE, validating, 0, named)
    if lookup.entry is None:
        storing = timeline.now()
        context.cache.put(key, entry, only_new=lookup.verdict is Verdict.MISS, kernel=source.name)
        timeline.add(Stage.STORE, storing, 0, named)
        if not entry.native:  # asked only now: what comes must not meet an entry without code
            context.first_pipelines.look_elsewhere(key, entry.spirv)
    words, size = source.specialization.words, source.subgroup_size
    roles = [one.role for one in source.plan.descriptors]
    traversals = tuple([one.consumes_input + one.produces_output for one in roles])
    pushed, limit = source.push_constant_bytes, source.loop_limit
    pipeline = PipelineSource(entry.spirv, words, pushed, entry.native, size, named, traversals, limit)
    compile_ns = time.perf_counter_ns() - began
    timeline.add(Stage.COMPILE, began, 0, named)
    trace = Trace(key.hex, lookup.verdict, reason, compile_ns, lookup_ns, 0, None, None)
    return CompiledKernel(source, key, pipeline, trace)
