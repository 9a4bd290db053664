/* Pages of this process that a device copies from and to by itself. */
#ifndef VYRE_HOST_MEMORY_H
#define VYRE_HOST_MEMORY_H

#include "layer.h"

/* Zeros, from the beginning of a huge page on where they fill one, and resident; NULL: no memory. */
void *vyre_map_pages(size_t bytes);
void vyre_unmap_pages(void *pages, size_t bytes);

/* What the pages' bytes are rounded up to; 0: the device cannot import any. */
uint64_t vyre_import_alignment(const vyre_device *device);
void vyre_describe_import(vyre_device *device, const vyre_instance *instance, VkPhysicalDevice physical);

/* Makes a buffer of pages, which must stay until vyre_drop_import has returned: it waits for a device that is being destroyed. */
VkResult vyre_import_pages(vyre_device *device, void *pages, uint64_t bytes, VkBuffer *out);
void vyre_drop_import(vyre_device *device, VkBuffer buffer);
void vyre_imports_close(vyre_device *device);

#endif
