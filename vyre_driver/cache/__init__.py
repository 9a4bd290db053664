"""Verified bytes that outlive the process: entries under strong keys, in files."""

from vyre_driver.cache.directory import CacheLookup
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.entry import PipelineEntry, Verdict

__all__ = ["CacheLookup", "DiskPipelineCache", "PipelineEntry", "Verdict"]
