/* Our barriers in place of kompute's.

   kompute puts a barrier for each buffer from transfer writes to shader reads before a dispatch, none between two dispatches, none
   before a shader write, and none to the host on the buffer that the host reads: too many for speed, too few to be right. Its
   own are left out; here each operation waits for all before it, unless Python declared them independent by giving them
   one group.

   Source: Vulkan 1.3, "Synchronization and Cache Control"; a barrier reaches back over earlier submissions to its queue. */

#include "layer.h"

#define WORK_STAGES (VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT)
#define WRITES (VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT)
#define READS (VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT)

static void remember(vyre_device *device, VkCommandBuffer buffer, uintptr_t state) {
  pthread_mutex_lock(&device->command_lock);
  (void)vyre_map_put(&device->command_buffers, VYRE_HANDLE(buffer), state);
  pthread_mutex_unlock(&device->command_lock);
}

static uintptr_t recall(vyre_device *device, VkCommandBuffer buffer) {
  uintptr_t state = 0;
  pthread_mutex_lock(&device->command_lock);
  (void)vyre_map_get(&device->command_buffers, VYRE_HANDLE(buffer), &state);
  pthread_mutex_unlock(&device->command_lock);
  return state;
}

void vyre_order(vyre_device *device, VkCommandBuffer buffer) {
  VkMemoryBarrier barrier = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = WRITES, .dstAccessMask = WRITES | READS};
  device->vk.CmdPipelineBarrier(buffer, WORK_STAGES, WORK_STAGES, 0, 1, &barrier, 0, NULL, 0, NULL);
}

void vyre_show_host(vyre_device *device, VkCommandBuffer buffer) {
  VkMemoryBarrier barrier = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = WRITES, .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
  device->vk.CmdPipelineBarrier(buffer, WORK_STAGES, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
}

/* ``always``: what comes before is of this operation, so that its group makes no difference. */
static void order_after_earlier_work(vyre_device *device, VkCommandBuffer buffer, bool always) {
  uintptr_t state = recall(device, buffer);
  uint32_t group = vyre_this_thread()->group & ~VYRE_DEVICE_ONLY;
  if (!always && group != 0 && group == (state & ~(uintptr_t)VYRE_DEVICE_ONLY)) return;
  vyre_order(device, buffer);
  vyre_count(device, VYRE_BARRIERS_ADDED, 1);
  remember(device, buffer, (state & VYRE_DEVICE_ONLY) | group);
}

static VKAPI_ATTR VkResult VKAPI_CALL begin_command_buffer(
    VkCommandBuffer buffer, const VkCommandBufferBeginInfo *info) {
  vyre_device *device = vyre_find_device(buffer);
  vyre_thread *thread = vyre_this_thread();
  uint32_t clock = thread->starts_clock;
  thread->starts_clock = 0;
  remember(device, buffer, thread->device_only ? VYRE_DEVICE_ONLY : 0);
  VkResult result = device->vk.BeginCommandBuffer(buffer, info);
  if (result == VK_SUCCESS && clock) vyre_start_clock(device, buffer, clock);
  return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL end_command_buffer(VkCommandBuffer buffer) {
  vyre_device *device = vyre_find_device(buffer);
  if (!(recall(device, buffer) & VYRE_DEVICE_ONLY)) vyre_show_host(device, buffer);
  return device->vk.EndCommandBuffer(buffer);
}

static bool fit(vyre_device *device, const vyre_region *regions, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (vyre_fault_of(device, &regions[i])) return false;
  }
  return true;
}

/* The copies that go with it wait for all before them, whatever the group. Those that do not fit are left, for Python to see. */
static VKAPI_ATTR void VKAPI_CALL cmd_dispatch(VkCommandBuffer buffer, uint32_t x, uint32_t y, uint32_t z) {
  vyre_device *device = vyre_find_device(buffer);
  vyre_thread *thread = vyre_this_thread();
  vyre_copies copies = {0};
  const vyre_copies *given = thread->copies;
  if (given && fit(device, given->before, given->before_count) && fit(device, given->after, given->after_count)) {
    copies = *given;
    thread->copies = NULL;
  }
  vyre_record_regions(device, buffer, copies.before, copies.before_count);
  order_after_earlier_work(device, buffer, copies.before_count > 0);
  device->vk.CmdDispatch(buffer, x, y, z);
  vyre_record_regions(device, buffer, copies.after, copies.after_count);
  if (thread->stops_clock) vyre_stop_clock(device, buffer, thread->stops_clock);
  thread->stops_clock = 0;
}

static VKAPI_ATTR void VKAPI_CALL cmd_copy_buffer(
    VkCommandBuffer buffer, VkBuffer from, VkBuffer to, uint32_t count, const VkBufferCopy *regions) {
  vyre_device *device = vyre_find_device(buffer);
  order_after_earlier_work(device, buffer, false);
  device->vk.CmdCopyBuffer(buffer, from, to, count, regions);
}

/* Leaves kompute's own out. */
static VKAPI_ATTR void VKAPI_CALL cmd_pipeline_barrier(
    VkCommandBuffer buffer, VkPipelineStageFlags from, VkPipelineStageFlags to, VkDependencyFlags flags, uint32_t memory_count,
    const VkMemoryBarrier *memory, uint32_t buffer_count, const VkBufferMemoryBarrier *buffers, uint32_t image_count,
    const VkImageMemoryBarrier *images) {
  (void)buffer, (void)from, (void)to, (void)flags, (void)memory_count, (void)memory;
  (void)buffer_count, (void)buffers, (void)image_count, (void)images;
}

void vyre_forget_commands(vyre_device *device, VkCommandBuffer buffer) {
  uintptr_t group = 0;
  (void)vyre_map_take(&device->command_buffers, VYRE_HANDLE(buffer), &group);
}

void vyre_command_close(vyre_device *device) {
  vyre_map_free(&device->command_buffers);
  vyre_command_pools_close(device);
}

PFN_vkVoidFunction vyre_command_hook(const char *name) {
  static const vyre_hook HOOKS[] = {
    VYRE_HOOK("vkBeginCommandBuffer", begin_command_buffer),
    VYRE_HOOK("vkEndCommandBuffer", end_command_buffer),
    VYRE_HOOK("vkCmdDispatch", cmd_dispatch),
    VYRE_HOOK("vkCmdCopyBuffer", cmd_copy_buffer),
    VYRE_HOOK("vkCmdPipelineBarrier", cmd_pipeline_barrier),
  };
  PFN_vkVoidFunction found = VYRE_FIND_HOOK(HOOKS, name);
  return found ? found : vyre_command_pool_hook(name);
}
