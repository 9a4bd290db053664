"""A cache on the network, shared by machines: imported only where VYRE_CACHE_REMOTE names one."""
