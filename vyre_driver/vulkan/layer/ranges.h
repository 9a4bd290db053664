/* Bytes of buffers. */
#ifndef VYRE_RANGES_H
#define VYRE_RANGES_H

#include <stdint.h>
#include <vulkan/vulkan.h>

typedef struct vyre_range {
  uint64_t offset;
  uint64_t bytes;
} vyre_range;

typedef struct vyre_range_of {
  VkBuffer buffer;
  vyre_range range;
} vyre_range_of;

#endif
