/* The device's own clock, which it writes down before some work and after it.

   kompute would have it do so after each operation: then each waits for the one before, whatever it reads, and on an H200 takes 6 us
   longer. Each clock is two queries of one pool. Source: Vulkan 1.3, "Timestamp Queries". */
#include "layer.h"

static VkResult make_pool(vyre_device *device) {
  const VkQueryPoolCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = 2 * VYRE_CLOCKS};
  return device->clock_pool ? VK_SUCCESS : device->vk.CreateQueryPool(device->handle, &info, NULL, &device->clock_pool);
}

uint32_t vyre_take_clock(vyre_device *device) {
  uint32_t clock = 0;
  if (!vyre_enter(device)) return 0;
  pthread_mutex_lock(&device->command_lock);
  if (device->idle_clock_count) {
    clock = device->idle_clocks[--device->idle_clock_count];
  } else if (device->made_clocks < VYRE_CLOCKS && make_pool(device) == VK_SUCCESS) {
    clock = ++device->made_clocks;
  }
  pthread_mutex_unlock(&device->command_lock);
  vyre_leave(device);
  return clock;
}

void vyre_give_clock_back(vyre_device *device, uint32_t clock) {
  pthread_mutex_lock(&device->command_lock);
  device->idle_clocks[device->idle_clock_count++] = clock;
  pthread_mutex_unlock(&device->command_lock);
}

void vyre_start_clock(vyre_device *device, VkCommandBuffer commands, uint32_t clock) {
  uint32_t first = 2 * (clock - 1);
  device->vk.CmdResetQueryPool(commands, device->clock_pool, first, 2);
  device->vk.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, device->clock_pool, first);
}

void vyre_stop_clock(vyre_device *device, VkCommandBuffer commands, uint32_t clock) {
  device->vk.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, device->clock_pool, 2 * (clock - 1) + 1);
}

VkResult vyre_read_clock(vyre_device *device, uint32_t clock, uint64_t ticks[2]) {
  if (!vyre_enter(device)) return VK_ERROR_DEVICE_LOST;
  VkResult result = device->vk.GetQueryPoolResults(
      device->handle, device->clock_pool, 2 * (clock - 1), 2, 2 * sizeof *ticks, ticks, sizeof *ticks, VK_QUERY_RESULT_64_BIT);
  vyre_leave(device);
  return result;
}

void vyre_clocks_close(vyre_device *device) {
  if (device->clock_pool) device->vk.DestroyQueryPool(device->handle, device->clock_pool, NULL);
}
