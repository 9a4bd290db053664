"""Verified bytes that outlive the process: entries under strong keys, in files."""

from vyre_driver.cache.disk import CacheLookup, DiskPipelineCache
from vyre_driver.cache.entry import PipelineEntry, Verdict

__all__ = ["CacheLookup", "DiskPipelineCache", "PipelineEntry", "Verdict"]
