/* What the layer records: copies, and dispatches with copies around and beside them. */
#ifndef VYRE_REGIONS_H
#define VYRE_REGIONS_H

#include <stdint.h>
#include <vulkan/vulkan.h>

/* Bytes copied, or filled with a 32-bit word. */
typedef struct vyre_region {
  VkBuffer from; /* NULL: a fill */
  uint64_t from_offset;
  VkBuffer to;
  uint64_t to_offset;
  uint64_t bytes;
  uint32_t word; /* of a fill */
} vyre_region;

/* What goes with a dispatch, in one operation. */
typedef struct vyre_copies {
  const vyre_region *before;
  uint32_t before_count;
  const vyre_region *after;
  uint32_t after_count;
} vyre_copies;

/* What an algorithm of kompute's binds; it destroys them. */
typedef struct vyre_bound {
  VkPipeline pipeline;
  VkPipelineLayout layout;
  VkDescriptorSetLayout set_layout;
  VkDescriptorSet set;
  VkDescriptorPool pool; /* of a set of the layer's own */
} vyre_bound;

/* A dispatch of it, the copies around that, and those that go on beside it and each other: none touches what another writes. */
typedef struct vyre_dispatch {
  vyre_bound bound; /* without a pipeline there are only the copies */
  uint32_t groups[3];
  const void *push; /* the whole of the layout's range, from byte 0 on */
  uint32_t push_bytes;
  vyre_copies copies;
  const vyre_region *beside;
  uint32_t beside_count;
  uint32_t label; /* of its intervals; 0: none */
} vyre_dispatch;

#endif
