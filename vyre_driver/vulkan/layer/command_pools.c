/* Command pools that kompute has done with, kept to be handed out again with their command buffer.

   kompute makes a pool with one command buffer for each Sequence. Drivers take longer for that, for the first recording into it and
   for its end than for recording again into one that they have.

   Source: Vulkan 1.3, "Command Pools" and "Command Buffer Lifecycle": a pool is reset when none of its command buffers is
   pending, and they are in the initial state then, whatever became of what they refer to. */
#include <stdlib.h>

#include "layer.h"

struct vyre_command_pool {
  VkCommandPool handle;
  VkCommandPoolCreateFlags flags;
  uint32_t family;
  VkCommandBuffer spare; /* a primary one that kompute has freed; NULL: none */
  vyre_command_pool *next;
};

/* Under command_lock. NULL: it is not one that may be kept. */
static vyre_command_pool *find(const vyre_device *device, VkCommandPool pool) {
  uintptr_t found = 0;
  return vyre_map_get(&device->command_pools, VYRE_HANDLE(pool), &found) ? (vyre_command_pool *)found : NULL;
}

/* Under command_lock. */
static vyre_command_pool *take_idle(vyre_device *device, VkCommandPoolCreateFlags flags, uint32_t family) {
  for (vyre_command_pool **at = &device->idle_command_pools; *at; at = &(*at)->next) {
    vyre_command_pool *pool = *at;
    if (pool->flags != flags || pool->family != family) continue;
    if (!vyre_map_put(&device->command_pools, VYRE_HANDLE(pool->handle), (uintptr_t)pool)) return NULL;
    *at = pool->next;
    device->idle_command_pool_count--;
    return pool;
  }
  return NULL;
}

static void know(vyre_device *device, VkCommandPool handle, VkCommandPoolCreateFlags flags, uint32_t family) {
  vyre_command_pool *made = calloc(1, sizeof *made);
  if (!made) return;
  *made = (vyre_command_pool){.handle = handle, .flags = flags, .family = family};
  pthread_mutex_lock(&device->command_lock);
  bool known = vyre_map_put(&device->command_pools, VYRE_HANDLE(handle), (uintptr_t)made);
  pthread_mutex_unlock(&device->command_lock);
  if (!known) free(made);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_command_pool(
    VkDevice handle, const VkCommandPoolCreateInfo *info, const VkAllocationCallbacks *allocator, VkCommandPool *out) {
  vyre_device *device = vyre_find_device(handle);
  VkCommandPoolCreateInfo changed = *info;
  bool may_be_kept = !info->pNext && !allocator;
  changed.flags |= VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pthread_mutex_lock(&device->command_lock);
  vyre_command_pool *idle = may_be_kept ? take_idle(device, changed.flags, changed.queueFamilyIndex) : NULL;
  pthread_mutex_unlock(&device->command_lock);
  if (idle) {
    vyre_count(device, VYRE_COMMAND_POOLS_REUSED, 1);
    *out = idle->handle;
    return VK_SUCCESS;
  }
  VkResult result = device->vk.CreateCommandPool(handle, &changed, allocator, out);
  if (result != VK_SUCCESS) return result;
  vyre_count(device, VYRE_COMMAND_POOLS_CREATED, 1);
  if (may_be_kept) know(device, *out, changed.flags, changed.queueFamilyIndex);
  return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate_command_buffers(
    VkDevice handle, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out) {
  vyre_device *device = vyre_find_device(handle);
  VkCommandBuffer spare = NULL;
  if (info->commandBufferCount == 1 && info->level == VK_COMMAND_BUFFER_LEVEL_PRIMARY && !info->pNext) {
    pthread_mutex_lock(&device->command_lock);
    vyre_command_pool *pool = find(device, info->commandPool);
    if (pool) {
      spare = pool->spare;
      pool->spare = NULL;
    }
    pthread_mutex_unlock(&device->command_lock);
  }
  if (!spare) return device->vk.AllocateCommandBuffers(handle, info, out);
  *out = spare;
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL free_command_buffers(
    VkDevice handle, VkCommandPool pool_handle, uint32_t count, const VkCommandBuffer *buffers) {
  vyre_device *device = vyre_find_device(handle);
  for (uint32_t i = 0; i < count; i++) vyre_finish_work(device, buffers[i]);
  pthread_mutex_lock(&device->command_lock);
  for (uint32_t i = 0; i < count; i++) vyre_forget_commands(device, buffers[i]);
  vyre_command_pool *pool = find(device, pool_handle);
  bool is_kept = pool && !pool->spare && count == 1 && buffers[0];
  if (is_kept) pool->spare = buffers[0];
  pthread_mutex_unlock(&device->command_lock);
  if (!is_kept) device->vk.FreeCommandBuffers(handle, pool_handle, count, buffers);
}

/* Of a pool that was known; whether it is kept. */
static bool keep(vyre_device *device, vyre_command_pool *pool) {
  bool is_reset = pool->spare && device->vk.ResetCommandPool(device->handle, pool->handle, 0) == VK_SUCCESS;
  pthread_mutex_lock(&device->command_lock);
  bool is_kept = is_reset && device->idle_command_pool_count < VYRE_IDLE_COMMAND_POOLS;
  if (is_kept) {
    pool->next = device->idle_command_pools;
    device->idle_command_pools = pool;
    device->idle_command_pool_count++;
  }
  pthread_mutex_unlock(&device->command_lock);
  return is_kept;
}

static VKAPI_ATTR void VKAPI_CALL destroy_command_pool(
    VkDevice handle, VkCommandPool pool_handle, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  uintptr_t found = 0;
  pthread_mutex_lock(&device->command_lock);
  bool is_known = vyre_map_take(&device->command_pools, VYRE_HANDLE(pool_handle), &found);
  pthread_mutex_unlock(&device->command_lock);
  vyre_command_pool *pool = is_known ? (vyre_command_pool *)found : NULL;
  if (pool && keep(device, pool)) return;
  free(pool);
  device->vk.DestroyCommandPool(handle, pool_handle, allocator);
}

void vyre_command_pools_close(vyre_device *device) {
  while (device->idle_command_pools) {
    vyre_command_pool *pool = device->idle_command_pools;
    device->idle_command_pools = pool->next;
    device->vk.DestroyCommandPool(device->handle, pool->handle, NULL);
    free(pool);
  }
  for (size_t i = 0; i < device->command_pools.capacity; i++) {
    if (device->command_pools.keys[i]) free((void *)device->command_pools.values[i]);
  }
  vyre_map_free(&device->command_pools);
}

PFN_vkVoidFunction vyre_command_pool_hook(const char *name) {
  static const vyre_hook HOOKS[] = {
    VYRE_HOOK("vkCreateCommandPool", create_command_pool),
    VYRE_HOOK("vkAllocateCommandBuffers", allocate_command_buffers),
    VYRE_HOOK("vkFreeCommandBuffers", free_command_buffers),
    VYRE_HOOK("vkDestroyCommandPool", destroy_command_pool),
  };
  return VYRE_FIND_HOOK(HOOKS, name);
}
