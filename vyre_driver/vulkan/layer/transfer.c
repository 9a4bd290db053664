/* What the layer records itself: copies and fills of parts of buffers, also beside a dispatch of kompute's, and single dispatches.

   kompute copies whole buffers only, and makes a pool, a command buffer and an operation for each dispatch. What is recorded here comes from a pool of our own on kompute's device, and goes to its queue
   through the same fences as kompute's work. Each region waits for all before it, of whichever submission.

   A command buffer that the layer allocates has not passed through the loader, which keeps a pointer to its dispatch table in each:
   its callback puts it there (loader and layer interface, "Creating New Dispatchable Objects"). */
#include "intervals.h"

/* Of a copy beside others. An H200 moves 70 GB/s, both ways together, in turns of 256 and 512 KiB, and 63 of 1 MiB, 53 of 8 MiB,
   23 of 128 KiB. */
#define TURN_BYTES (UINT64_C(1) << 18)

static VKAPI_ATTR void VKAPI_CALL get_device_queue(VkDevice handle, uint32_t family, uint32_t index, VkQueue *out) {
  vyre_device *device = vyre_find_device(handle);
  device->vk.GetDeviceQueue(handle, family, index, out);
  device->queue_family = family;
  vyre_take_copy_queues(device);
  atomic_store_explicit(&device->queue, *out, memory_order_release); /* kompute has one */
}

static bool fits(vyre_device *device, VkBuffer buffer, uint64_t offset, uint64_t bytes) {
  uint64_t size = vyre_buffer_bytes(device, buffer);
  return offset <= size && bytes <= size - offset;
}

static bool overlap(const vyre_region *region) {
  uint64_t low = region->from_offset < region->to_offset ? region->from_offset : region->to_offset;
  uint64_t high = region->from_offset < region->to_offset ? region->to_offset : region->from_offset;
  return region->from == region->to && high - low < region->bytes;
}

const char *vyre_fault_of(vyre_device *device, const vyre_region *region) {
  bool is_fill = !region->from;
  if (!vyre_buffer_bytes(device, region->to)) return "is written to a buffer that the device does not have";
  if (!is_fill && !vyre_buffer_bytes(device, region->from)) return "is copied from a buffer that the device does not have";
  if (!region->bytes) return "has 0 bytes";
  if (!fits(device, region->to, region->to_offset, region->bytes)) return "ends past the buffer that is written";
  if (is_fill) return (region->to_offset | region->bytes) % 4 ? "is a fill that begins or ends within a 32-bit word" : NULL;
  if (!fits(device, region->from, region->from_offset, region->bytes)) return "ends past the buffer that is copied from";
  return overlap(region) ? "is copied onto itself" : NULL;
}

static bool meet(VkBuffer a, uint64_t a_offset, uint64_t a_bytes, VkBuffer b, uint64_t b_offset, uint64_t b_bytes) {
  return a == b && a_offset < b_offset + b_bytes && b_offset < a_offset + a_bytes;
}

/* Whether one of two regions writes what the other reads or writes; a fill reads no buffer. */
static bool touch(const vyre_region *a, const vyre_region *b) {
  return meet(a->to, a->to_offset, a->bytes, b->to, b->to_offset, b->bytes) ||
         meet(a->to, a->to_offset, a->bytes, b->from, b->from_offset, b->bytes) ||
         meet(a->from, a->from_offset, a->bytes, b->to, b->to_offset, b->bytes);
}

/* One barrier for as many as do not touch each other. */
void vyre_record_regions(vyre_device *device, VkCommandBuffer buffer, const vyre_region *regions, uint32_t count) {
  uint32_t first = 0; /* since the last barrier */
  for (uint32_t i = 0; i < count; i++) {
    const vyre_region *one = &regions[i];
    VkBufferCopy copy = {one->from_offset, one->to_offset, one->bytes};
    bool must_wait = i == 0;
    for (uint32_t k = first; k < i && !must_wait; k++) must_wait = touch(one, &regions[k]);
    if (must_wait) {
      vyre_order(device, buffer);
      first = i;
    }
    if (one->from) {
      device->vk.CmdCopyBuffer(buffer, one->from, one->to, 1, &copy);
    } else {
      device->vk.CmdFillBuffer(buffer, one->to, one->to_offset, one->bytes, one->word);
    }
  }
}

/* Under transfer_lock. */
static void put_back(vyre_device *device, VkCommandBuffer commands) {
  if (device->idle_transfer_count < VYRE_IDLE_TRANSFERS) {
    device->idle_transfers[device->idle_transfer_count++] = commands;
  } else {
    vyre_label(device, commands, 0);
    device->vk.FreeCommandBuffers(device->handle, device->transfer_pool, 1, &commands);
  }
}

static uint32_t label_of(const vyre_dispatch *dispatch, const vyre_region *regions, uint32_t count) {
  if (dispatch) return dispatch->label;
  return count == 0 ? 0 : regions->from ? VYRE_LABEL_COPY : VYRE_LABEL_FILL;
}

/* Under transfer_lock. */
static VkResult take_commands(vyre_device *device, VkCommandBuffer *out) {
  VkCommandPoolCreateInfo pool = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
      .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
      .queueFamilyIndex = device->queue_family};
  VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandBufferCount = 1};
  VkCommandBuffer made;
  VkResult result = VK_SUCCESS;
  if (device->idle_transfer_count) {
    *out = device->idle_transfers[--device->idle_transfer_count];
    return VK_SUCCESS;
  }
  if (!device->set_loader_data) return VK_ERROR_INITIALIZATION_FAILED;
  if (!device->transfer_pool) result = device->vk.CreateCommandPool(device->handle, &pool, NULL, &device->transfer_pool);
  if (result != VK_SUCCESS) {
    device->transfer_pool = VK_NULL_HANDLE;
    return result;
  }
  info.commandPool = device->transfer_pool;
  result = device->vk.AllocateCommandBuffers(device->handle, &info, &made);
  if (result != VK_SUCCESS) return result;
  result = device->set_loader_data(device->handle, made);
  if (result == VK_SUCCESS) {
    *out = made;
  } else {
    device->vk.FreeCommandBuffers(device->handle, device->transfer_pool, 1, &made);
  }
  return result;
}

static uint64_t turns_of(const vyre_region *region) {
  return region->from ? (region->bytes + TURN_BYTES - 1) / TURN_BYTES : 1; /* a fill needs no bus */
}

static void record_turn(vyre_device *device, VkCommandBuffer commands, const vyre_region *region, uint64_t turn) {
  uint64_t done = turn * TURN_BYTES, left = region->bytes - done;
  VkBufferCopy copy = {region->from_offset + done, region->to_offset + done, left < TURN_BYTES ? left : TURN_BYTES};
  if (region->from) {
    device->vk.CmdCopyBuffer(commands, region->from, region->to, 1, &copy);
  } else {
    device->vk.CmdFillBuffer(commands, region->to, region->to_offset, region->bytes, region->word);
  }
}

/* Without barriers, in turns, so that all of them end at about the same time: of n turns one makes the k-th in round k * most / n. */
static void record_beside(vyre_device *device, VkCommandBuffer commands, const vyre_region *regions, uint32_t count) {
  uint64_t most = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (turns_of(&regions[i]) > most) most = turns_of(&regions[i]);
  }
  for (uint64_t round = 0; round < most; round++) {
    for (uint32_t i = 0; i < count; i++) {
      uint64_t before = round * turns_of(&regions[i]) / most, after = (round + 1) * turns_of(&regions[i]) / most;
      if (after > before) record_turn(device, commands, &regions[i], before);
    }
  }
}

static void record_dispatch(vyre_device *device, VkCommandBuffer commands, const vyre_dispatch *dispatch) {
  const vyre_bound *bound = &dispatch->bound;
  const uint32_t *groups = dispatch->groups;
  device->vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, bound->pipeline);
  if (bound->set) {
    device->vk.CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, bound->layout, 0, 1, &bound->set, 0, NULL);
  }
  if (dispatch->push_bytes) {
    device->vk.CmdPushConstants(
        commands, bound->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, dispatch->push_bytes, dispatch->push);
  }
  device->vk.CmdDispatch(commands, groups[0], groups[1], groups[2]);
}

static void record_step(vyre_device *device, VkCommandBuffer commands, const vyre_dispatch *dispatch) {
  const vyre_copies *copies = &dispatch->copies;
  vyre_record_regions(device, commands, copies->before, copies->before_count);
  vyre_order(device, commands);
  vyre_count(device, VYRE_BARRIERS_ADDED, 1);
  if (dispatch->bound.pipeline) record_dispatch(device, commands, dispatch);
  record_beside(device, commands, dispatch->beside, dispatch->beside_count);
  vyre_record_regions(device, commands, copies->after, copies->after_count);
}

/* Inside vyre_enter; recording takes memory of the pool. What fails is remembered, and leaves no command buffer taken. */
static VkResult record(
    vyre_device *device, const vyre_dispatch *dispatch, const vyre_region *regions, uint32_t count, bool device_only,
    VkCommandBuffer *out) {
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  VkCommandBuffer commands;
  pthread_mutex_lock(&device->transfer_lock);
  VkResult result = take_commands(device, &commands);
  if (result == VK_SUCCESS) {
    result = device->vk.BeginCommandBuffer(commands, &begin);
    if (result == VK_SUCCESS) {
      if (dispatch) record_step(device, commands, dispatch);
      vyre_record_regions(device, commands, regions, count);
      if (!device_only) vyre_show_host(device, commands);
      result = device->vk.EndCommandBuffer(commands);
    }
    if (result == VK_SUCCESS) {
      vyre_label(device, commands, label_of(dispatch, regions, count));
      *out = commands;
    } else {
      put_back(device, commands);
    }
  }
  pthread_mutex_unlock(&device->transfer_lock);
  return vyre_record(device, VYRE_CALL_SUBMIT, result, 0);
}

VkResult vyre_record_dispatch(vyre_device *device, const vyre_dispatch *dispatch, bool device_only, VkCommandBuffer *commands) {
  if (!vyre_enter(device)) return VK_ERROR_DEVICE_LOST;
  VkResult result = record(device, dispatch, NULL, 0, device_only, commands);
  vyre_leave(device);
  return result;
}

VkResult vyre_transfer(
    vyre_device *device, const vyre_region *regions, uint32_t count, bool device_only, VkCommandBuffer *commands, VkFence *out) {
  VkResult result = VK_SUCCESS;
  if (!vyre_enter(device)) return VK_ERROR_DEVICE_LOST;
  if (!*commands) result = record(device, NULL, regions, count, device_only, commands);
  if (result == VK_SUCCESS) result = vyre_submit_commands(device, *commands, out);
  vyre_leave(device);
  return result;
}

void vyre_drop_transfer(vyre_device *device, VkCommandBuffer commands) {
  if (!commands || !vyre_enter(device)) return; /* it went with the device */
  pthread_mutex_lock(&device->transfer_lock);
  put_back(device, commands);
  pthread_mutex_unlock(&device->transfer_lock);
  vyre_leave(device);
}

void vyre_transfer_close(vyre_device *device) {
  if (device->transfer_pool) device->vk.DestroyCommandPool(device->handle, device->transfer_pool, NULL);
}

PFN_vkVoidFunction vyre_transfer_hook(const char *name) {
  static const vyre_hook HOOKS[] = {VYRE_HOOK("vkGetDeviceQueue", get_device_queue)};
  return VYRE_FIND_HOOK(HOOKS, name);
}
