/* Descriptor sets of the layer's own: other buffers for a pipeline that kompute has made.

   kompute makes a pipeline with all that belongs to it for each set of buffers. What one of its algorithms binds is enough to bind
   others: the objects that are shared get a user more, and the new set comes from a pool that is shared in turn. */
#include <stdlib.h>

#include "layer.h"
#include "shared.h"

/* Whether all are shared: each has a user more then. */
static bool keep(vyre_device *device, const vyre_bound *bound) {
  pthread_mutex_lock(&device->pipeline_lock);
  vyre_shared *pipeline = vyre_shared_find(device->pipelines, VYRE_HANDLE(bound->pipeline));
  vyre_shared *layout = vyre_shared_find(device->pipeline_layouts, VYRE_HANDLE(bound->layout));
  vyre_shared *set_layout = vyre_shared_find(device->set_layouts, VYRE_HANDLE(bound->set_layout));
  bool are_shared = pipeline && layout && set_layout;
  if (are_shared) {
    pipeline->users++;
    layout->users++;
    set_layout->users++;
  }
  pthread_mutex_unlock(&device->pipeline_lock);
  return are_shared;
}

static void drop(vyre_device *device, const vyre_bound *bound) {
  if (bound->pool) {
    (void)device->vk.ResetDescriptorPool(device->handle, bound->pool, 0); /* it cannot fail */
    vyre_release_shared(device, &device->descriptor_pools, &vyre_descriptor_pool_kind, VYRE_HANDLE(bound->pool));
  }
  vyre_release_shared(device, &device->pipelines, &vyre_pipeline_kind, VYRE_HANDLE(bound->pipeline));
  vyre_release_shared(device, &device->pipeline_layouts, &vyre_pipeline_layout_kind, VYRE_HANDLE(bound->layout));
  vyre_release_shared(device, &device->set_layouts, &vyre_set_layout_kind, VYRE_HANDLE(bound->set_layout));
}

bool vyre_keep_bound(vyre_device *device, const vyre_bound *bound, vyre_bound *kept) {
  *kept = *bound;
  kept->set = VK_NULL_HANDLE;
  kept->pool = VK_NULL_HANDLE;
  if (!bound->pipeline || !vyre_enter(device)) return false;
  bool is_kept = keep(device, bound);
  vyre_leave(device);
  return is_kept;
}

typedef struct bound_ending {
  vyre_ending ending;
  vyre_bound bound;
} bound_ending;

static void end_bound(vyre_device *device, vyre_ending *ending) {
  drop(device, &((bound_ending *)ending)->bound);
  free(ending);
}

void vyre_drop_bound(vyre_device *device, const vyre_bound *bound, uint64_t launch) {
  if (!vyre_enter(device)) return; /* it went with the device */
  bound_ending *later = vyre_has_launch_ended(device, launch) ? NULL : malloc(sizeof *later);
  if (later) *later = (bound_ending){{.launch = launch, .end = end_bound}, *bound};
  if (!later || !vyre_end_with_launch(device, &later->ending)) {
    free(later);
    while (vyre_wait_for_launch(device, launch, UINT64_MAX) == VK_TIMEOUT) continue;
    drop(device, bound);
  }
  vyre_leave(device);
}

static VkResult fill(vyre_device *device, const vyre_range_of *parts, uint32_t count, vyre_bound *bound) {
  VkResult result = vyre_injected(VYRE_CALL_BIND_BUFFERS);
  if (result == VK_SUCCESS) result = vyre_take_descriptor_pool(device, count, &bound->pool);
  if (result != VK_SUCCESS) return result;
  VkDescriptorSetAllocateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .descriptorPool = bound->pool, .descriptorSetCount = 1,
      .pSetLayouts = &bound->set_layout};
  result = device->vk.AllocateDescriptorSets(device->handle, &info, &bound->set);
  for (uint32_t i = 0; i < count && result == VK_SUCCESS; i++) {
    VkDescriptorBufferInfo buffer = {parts[i].buffer, parts[i].range.offset, parts[i].range.bytes};
    VkWriteDescriptorSet write = {
        .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .dstSet = bound->set, .dstBinding = i, .descriptorCount = 1,
        .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .pBufferInfo = &buffer};
    device->vk.UpdateDescriptorSets(device->handle, 1, &write, 0, NULL);
  }
  return result;
}

bool vyre_part_fits(vyre_device *device, const vyre_range_of *part) {
  if (!vyre_enter(device)) return true; /* its user hears of the device's end */
  uint64_t size = vyre_buffer_bytes(device, part->buffer);
  vyre_leave(device);
  return part->range.bytes && part->range.offset <= size && part->range.bytes <= size - part->range.offset;
}

VkResult vyre_bind_buffers(
    vyre_device *device, const vyre_bound *like, const vyre_range_of *parts, uint32_t count, vyre_bound *out) {
  if (!vyre_enter(device)) return VK_ERROR_DEVICE_LOST;
  vyre_bound made = *like;
  made.set = VK_NULL_HANDLE;
  made.pool = VK_NULL_HANDLE;
  VkResult result = keep(device, like) ? VK_SUCCESS : VK_ERROR_INITIALIZATION_FAILED;
  if (result == VK_SUCCESS) {
    result = fill(device, parts, count, &made);
    if (result == VK_SUCCESS) {
      vyre_count(device, VYRE_PIPELINES_SHARED, 1);
      *out = made;
    } else {
      drop(device, &made);
    }
  }
  vyre_leave(device);
  return vyre_record(device, VYRE_CALL_BIND_BUFFERS, result, 0);
}
