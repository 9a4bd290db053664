/* Memory that other APIs of the device, as CUDA, see too: exported as an opaque file descriptor. */
#ifndef VYRE_EXPORTS_H
#define VYRE_EXPORTS_H

#include "layer.h"

/* What is chained before *next, to make a buffer and then its memory. */
typedef union vyre_export_chain {
  VkExternalMemoryBufferCreateInfo buffer;
  struct {
    VkMemoryDedicatedAllocateInfo dedicated;
    VkExportMemoryAllocateInfo exported;
  } memory;
} vyre_export_chain;
const void *vyre_chain_buffer_export(vyre_export_chain *chain, const void *next);
const void *vyre_chain_memory_export(vyre_export_chain *chain, VkBuffer buffer, const void *next);
/* A descriptor, which the caller closes, of the memory of the thread's exported storage buffer; a failure is remembered. */
VkResult vyre_export_storage(vyre_device *device, int *fd);

#endif
