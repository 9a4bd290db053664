"""The pipeline cache on disk: verified entries, one file each, under keys that cannot collide."""

from vyre_driver.cache.directory import CacheLookup
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.entry import PipelineEntry, Verdict

__all__ = ["CacheLookup", "DiskPipelineCache", "PipelineEntry", "Verdict"]
