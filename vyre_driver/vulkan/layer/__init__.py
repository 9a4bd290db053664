"""The Vulkan layer, in C, under which kompute creates its device; and how it is enabled."""
