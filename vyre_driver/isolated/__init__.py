"""Drivers whose device is open in a child process, which a shader or the Vulkan driver may kill (docs/isolated.md)."""
