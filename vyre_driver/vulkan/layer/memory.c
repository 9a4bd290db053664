/* Device memory: freed blocks are kept by type and size class, within a bound, and given back under pressure.

   kompute allocates two blocks for each tensor and frees them with it. A block stays mapped while it is kept: mapping is most of
   what a small tensor costs. */
#include <stdlib.h>
#include <string.h>

#include "exports.h"

#define MAX_IDLE_BLOCKS 512

struct vyre_memory_block {
  VkDeviceMemory handle;
  VkDeviceSize bytes;
  uint32_t type;
  bool pooled;    /* of a size class, without extension structures: may be kept */
  char *mapped;   /* NULL: not mapped */
  vyre_memory_block *next;
};

/* Eighths of a power of two: at most one eighth is wasted above 2 KiB, at most one half below. */
static VkDeviceSize size_class(VkDeviceSize bytes) {
  VkDeviceSize power = 256;
  while (power < bytes) power <<= 1;
  if (power <= 2048) return power;
  VkDeviceSize step = power >> 4;
  return (bytes + step - 1) / step * step;
}

static vyre_memory_block *take_idle(vyre_device *device, VkDeviceSize bytes, uint32_t type) {
  vyre_memory_block **at = &device->idle_memory;
  while (*at && ((*at)->bytes != bytes || (*at)->type != type)) at = &(*at)->next;
  vyre_memory_block *found = *at;
  if (found) {
    *at = found->next;
    found->next = NULL;
    vyre_count(device, VYRE_MEMORY_CACHED_BYTES, -(int64_t)bytes);
  }
  return found;
}

/* Under memory_lock. Keeps the most recently freed blocks that fit into both bounds and returns the others, to be freed; a block that
   does not fit costs no other its place. */
static vyre_memory_block *cut_idle(vyre_device *device, uint64_t keep_bytes) {
  uint64_t kept = 0, count = 0;
  vyre_memory_block **at = &device->idle_memory, *rest = NULL;
  while (*at) {
    vyre_memory_block *block = *at;
    if (block->bytes <= keep_bytes - kept && count < MAX_IDLE_BLOCKS) {
      kept += block->bytes;
      count++;
      at = &block->next;
      continue;
    }
    *at = block->next;
    block->next = rest;
    rest = block;
    vyre_count(device, VYRE_MEMORY_CACHED_BYTES, -(int64_t)block->bytes);
  }
  return rest;
}

static void free_blocks(vyre_device *device, vyre_memory_block *block) {
  while (block) {
    vyre_memory_block *next = block->next;
    device->vk.FreeMemory(device->handle, block->handle, NULL); /* unmaps it too */
    free(block);
    block = next;
  }
}

static void trim(vyre_device *device, uint64_t keep_bytes) {
  pthread_mutex_lock(&device->memory_lock);
  vyre_memory_block *rest = cut_idle(device, keep_bytes);
  pthread_mutex_unlock(&device->memory_lock);
  if (rest) vyre_count(device, VYRE_MEMORY_FLUSHES, 1);
  free_blocks(device, rest);
}

void vyre_trim_memory(vyre_device *device, uint64_t keep_bytes) {
  if (!vyre_enter(device)) return;
  trim(device, keep_bytes);
  vyre_leave(device);
}

static void count_live(vyre_device *device, int64_t bytes) {
  vyre_count(device, VYRE_MEMORY_LIVE_BYTES, bytes);
  unsigned long long live = atomic_load(&device->counters[VYRE_MEMORY_LIVE_BYTES]);
  unsigned long long peak = atomic_load(&device->counters[VYRE_MEMORY_PEAK_BYTES]);
  while (live > peak && !atomic_compare_exchange_weak(&device->counters[VYRE_MEMORY_PEAK_BYTES], &peak, live)) {
  }
}

static VkResult allocate_block(
    vyre_device *device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *allocator, VkDeviceMemory *out) {
  VkResult result = vyre_injected(VYRE_CALL_ALLOCATE);
  if (result != VK_SUCCESS) return result;
  result = device->vk.AllocateMemory(device->handle, info, allocator, out);
  if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_TOO_MANY_OBJECTS) {
    trim(device, 0);
    result = device->vk.AllocateMemory(device->handle, info, allocator, out);
  }
  return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate_memory(
    VkDevice handle, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *allocator, VkDeviceMemory *out) {
  vyre_device *device = vyre_find_device(handle);
  VkMemoryAllocateInfo changed = *info;
  vyre_thread *thread = vyre_this_thread();
  vyre_export_chain chain;
  if (thread->export_next) {
    changed.pNext = vyre_chain_memory_export(&chain, thread->export_next, info->pNext);
    thread->export_next = VK_NULL_HANDLE;
    thread->exported_bytes = info->allocationSize;
  }
  bool pooled = changed.pNext == NULL;
  if (pooled) changed.allocationSize = size_class(info->allocationSize);
  *out = VK_NULL_HANDLE;
  pthread_mutex_lock(&device->memory_lock);
  vyre_memory_block *block = pooled ? take_idle(device, changed.allocationSize, info->memoryTypeIndex) : NULL;
  if (block && !vyre_map_put(&device->memory, VYRE_HANDLE(block->handle), (uintptr_t)block)) {
    block->next = device->idle_memory;
    device->idle_memory = block;
    block = NULL;
  }
  pthread_mutex_unlock(&device->memory_lock);
  if (block) {
    vyre_count(device, VYRE_MEMORY_REUSED, 1);
    count_live(device, (int64_t)block->bytes);
    *out = block->handle;
    vyre_made(VYRE_MEMORY, VYRE_HANDLE(*out));
    return VK_SUCCESS;
  }
  block = calloc(1, sizeof *block);
  VkResult result = block ? allocate_block(device, &changed, allocator, out) : VK_ERROR_OUT_OF_HOST_MEMORY;
  if (result != VK_SUCCESS) {
    free(block);
    *out = VK_NULL_HANDLE;
    return vyre_record(device, VYRE_CALL_ALLOCATE, result, info->allocationSize);
  }
  *block = (vyre_memory_block){.handle = *out, .bytes = changed.allocationSize, .type = info->memoryTypeIndex, .pooled = pooled};
  pthread_mutex_lock(&device->memory_lock);
  bool known = vyre_map_put(&device->memory, VYRE_HANDLE(*out), (uintptr_t)block);
  pthread_mutex_unlock(&device->memory_lock);
  if (!known) {
    device->vk.FreeMemory(handle, *out, allocator);
    free(block);
    *out = VK_NULL_HANDLE;
    return vyre_record(device, VYRE_CALL_ALLOCATE, VK_ERROR_OUT_OF_HOST_MEMORY, info->allocationSize);
  }
  vyre_count(device, VYRE_MEMORY_ALLOCATED, 1);
  count_live(device, (int64_t)block->bytes);
  vyre_made(VYRE_MEMORY, VYRE_HANDLE(*out));
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL free_memory(
    VkDevice handle, VkDeviceMemory memory, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  uintptr_t found = 0;
  if (!memory) return;
  vyre_unmade(VYRE_MEMORY, VYRE_HANDLE(memory));
  pthread_mutex_lock(&device->memory_lock);
  bool known = vyre_map_take(&device->memory, VYRE_HANDLE(memory), &found);
  vyre_memory_block *block = (vyre_memory_block *)found;
  vyre_memory_block *rest = NULL;
  bool pooled = known && block->pooled;
  if (known) count_live(device, -(int64_t)block->bytes);
  if (pooled) {
    /* From here on another thread may take the block. */
    block->next = device->idle_memory;
    device->idle_memory = block;
    vyre_count(device, VYRE_MEMORY_CACHED_BYTES, (int64_t)block->bytes);
    rest = cut_idle(device, device->config.memory_cache_bytes);
  }
  pthread_mutex_unlock(&device->memory_lock);
  if (!pooled) {
    device->vk.FreeMemory(handle, memory, allocator);
    if (known) free(block);
  }
  free_blocks(device, rest);
}

/* A kept block stays mapped. Vulkan lets one thread at a time map a block, so the block needs no lock of its own. */
static VkResult map_block(vyre_device *device, vyre_memory_block *block) {
  void *base = NULL;
  if (block->mapped) return VK_SUCCESS;
  VkResult result = device->vk.MapMemory(device->handle, block->handle, 0, VK_WHOLE_SIZE, 0, &base);
  if (result == VK_SUCCESS) block->mapped = base;
  return result;
}

static vyre_memory_block *find_block(vyre_device *device, VkDeviceMemory memory) {
  uintptr_t found = 0;
  pthread_mutex_lock(&device->memory_lock);
  (void)vyre_map_get(&device->memory, VYRE_HANDLE(memory), &found);
  pthread_mutex_unlock(&device->memory_lock);
  return (vyre_memory_block *)found;
}

void *vyre_map_storage(vyre_device *device) {
  const vyre_thread *thread = vyre_this_thread();
  if (!thread->storage_memory || !atomic_load(&device->alive)) return NULL;
  vyre_memory_block *block = find_block(device, thread->storage_memory);
  bool mappable = block && block->pooled && device->upload_types >> block->type & 1;
  return mappable && map_block(device, block) == VK_SUCCESS ? block->mapped : NULL;
}

static VKAPI_ATTR VkResult VKAPI_CALL map_memory(
    VkDevice handle, VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize size, VkMemoryMapFlags flags, void **out) {
  vyre_device *device = vyre_find_device(handle);
  if (!memory) return vyre_record(device, VYRE_CALL_MAP, VK_ERROR_MEMORY_MAP_FAILED, 0);
  VkResult result = vyre_injected(VYRE_CALL_MAP);
  if (result != VK_SUCCESS) return vyre_record(device, VYRE_CALL_MAP, result, 0);
  vyre_memory_block *block = find_block(device, memory);
  if (!block || !block->pooled) {
    return vyre_record(device, VYRE_CALL_MAP, device->vk.MapMemory(handle, memory, offset, size, flags, out), 0);
  }
  result = map_block(device, block);
  if (result == VK_SUCCESS) *out = block->mapped + offset;
  return vyre_record(device, VYRE_CALL_MAP, result, 0);
}

static VKAPI_ATTR void VKAPI_CALL unmap_memory(VkDevice handle, VkDeviceMemory memory) {
  vyre_device *device = vyre_find_device(handle);
  if (!memory) return;
  const vyre_memory_block *block = find_block(device, memory);
  if (!block || !block->pooled) device->vk.UnmapMemory(handle, memory);
}

bool vyre_remember_buffer(vyre_device *device, VkBuffer buffer, uint64_t bytes, uint64_t exact) {
  uintptr_t taken;
  pthread_mutex_lock(&device->memory_lock);
  bool known = vyre_map_put(&device->buffer_bytes, VYRE_HANDLE(buffer), (uintptr_t)bytes);
  if (known && exact && !vyre_map_put(&device->exact_bytes, VYRE_HANDLE(buffer), (uintptr_t)exact)) {
    known = false;
    (void)vyre_map_take(&device->buffer_bytes, VYRE_HANDLE(buffer), &taken);
  }
  pthread_mutex_unlock(&device->memory_lock);
  return known;
}

uint64_t vyre_buffer_bytes(vyre_device *device, VkBuffer buffer) {
  uintptr_t bytes = 0;
  pthread_mutex_lock(&device->memory_lock);
  if (buffer) (void)vyre_map_get(&device->buffer_bytes, VYRE_HANDLE(buffer), &bytes);
  pthread_mutex_unlock(&device->memory_lock);
  return bytes;
}

void vyre_forget_buffer(vyre_device *device, VkBuffer buffer) {
  uintptr_t taken;
  pthread_mutex_lock(&device->memory_lock);
  (void)vyre_map_take(&device->buffer_bytes, VYRE_HANDLE(buffer), &taken);
  (void)vyre_map_take(&device->exact_bytes, VYRE_HANDLE(buffer), &taken);
  pthread_mutex_unlock(&device->memory_lock);
}

/* kompute ignores these results and goes on with null handles; a driver would crash on them. */
static VKAPI_ATTR VkResult VKAPI_CALL create_buffer(
    VkDevice handle, const VkBufferCreateInfo *info, const VkAllocationCallbacks *allocator, VkBuffer *out) {
  vyre_device *device = vyre_find_device(handle);
  *out = VK_NULL_HANDLE;
  VkResult result = vyre_injected(VYRE_CALL_CREATE_BUFFER);
  vyre_thread *thread = vyre_this_thread();
  bool is_storage = info->usage & VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  VkBufferCreateInfo changed = *info;
  vyre_export_chain chain;
  /* kompute does not ask for it where a tensor has no staging buffer. */
  if (is_storage) changed.usage |= VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (is_storage && thread->want_export) changed.pNext = vyre_chain_buffer_export(&chain, info->pNext);
  if (result == VK_SUCCESS) result = device->vk.CreateBuffer(handle, &changed, allocator, out);
  uint64_t exact = is_storage ? thread->exact_bytes : 0;
  if (result == VK_SUCCESS && !vyre_remember_buffer(device, *out, info->size, exact <= info->size ? exact : 0)) {
    device->vk.DestroyBuffer(handle, *out, allocator);
    *out = VK_NULL_HANDLE;
    result = VK_ERROR_OUT_OF_HOST_MEMORY;
  }
  *(is_storage ? &thread->storage_buffer : &thread->staging_buffer) = *out;
  if (result == VK_SUCCESS) vyre_made(VYRE_BUFFER, VYRE_HANDLE(*out));
  return vyre_record(device, VYRE_CALL_CREATE_BUFFER, result, info->size);
}

static VKAPI_ATTR void VKAPI_CALL destroy_buffer(
    VkDevice handle, VkBuffer buffer, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  vyre_unmade(VYRE_BUFFER, VYRE_HANDLE(buffer));
  if (buffer) vyre_forget_buffer(device, buffer);
  device->vk.DestroyBuffer(handle, buffer, allocator);
}

/* kompute's buffers are whole 32-bit words, and the length a shader asks for would count the padding. */
static void see_exact_bytes(vyre_device *device, VkDescriptorBufferInfo *info) {
  uintptr_t exact = 0;
  pthread_mutex_lock(&device->memory_lock);
  if (vyre_map_get(&device->exact_bytes, VYRE_HANDLE(info->buffer), &exact)) info->range = exact;
  pthread_mutex_unlock(&device->memory_lock);
}

/* Where there is none that fits Python drops what was made. */
static void see_range(vyre_device *device, VkDescriptorBufferInfo *info, uint32_t binding) {
  vyre_thread *thread = vyre_this_thread();
  uint64_t size = vyre_buffer_bytes(device, info->buffer);
  vyre_range range = binding < thread->range_count ? thread->ranges[binding] : (vyre_range){0};
  if (!range.bytes || range.offset > size || range.bytes > size - range.offset) {
    thread->ranges_missed++;
    return;
  }
  info->offset = range.offset;
  info->range = range.bytes;
  thread->ranges_written++;
}

static VKAPI_ATTR void VKAPI_CALL update_descriptor_sets(
    VkDevice handle, uint32_t write_count, const VkWriteDescriptorSet *writes, uint32_t copy_count,
    const VkCopyDescriptorSet *copies) {
  vyre_device *device = vyre_find_device(handle);
  if (write_count == 1 && writes->descriptorCount == 1 && writes->descriptorType == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER) {
    VkWriteDescriptorSet write = *writes;
    VkDescriptorBufferInfo info = *writes->pBufferInfo;
    if (vyre_this_thread()->ranges) {
      see_range(device, &info, write.dstBinding);
    } else {
      see_exact_bytes(device, &info);
    }
    write.pBufferInfo = &info;
    device->vk.UpdateDescriptorSets(handle, 1, &write, copy_count, copies);
    return;
  }
  device->vk.UpdateDescriptorSets(handle, write_count, writes, copy_count, copies);
}

static VKAPI_ATTR void VKAPI_CALL get_buffer_requirements(
    VkDevice handle, VkBuffer buffer, VkMemoryRequirements *out) {
  vyre_device *device = vyre_find_device(handle);
  if (!buffer) {
    memset(out, 0, sizeof *out);
    return;
  }
  device->vk.GetBufferMemoryRequirements(handle, buffer, out);
  /* kompute takes the first type that will do. */
  vyre_thread *thread = vyre_this_thread();
  uint32_t better = 0;
  bool exported = thread->want_export && buffer == thread->storage_buffer;
  if (exported) thread->export_next = buffer; /* kompute allocates what it has asked about */
  if (thread->want_mapping && buffer == thread->storage_buffer && !exported) better = device->upload_types;
  if (thread->want_mapping && buffer == thread->staging_buffer) better = device->readback_types;
  if (out->memoryTypeBits & better) out->memoryTypeBits &= better;
}

static VKAPI_ATTR VkResult VKAPI_CALL bind_buffer_memory(
    VkDevice handle, VkBuffer buffer, VkDeviceMemory memory, VkDeviceSize offset) {
  vyre_device *device = vyre_find_device(handle);
  VkResult result = buffer && memory ? vyre_injected(VYRE_CALL_BIND) : VK_ERROR_OUT_OF_DEVICE_MEMORY;
  if (result == VK_SUCCESS) result = device->vk.BindBufferMemory(handle, buffer, memory, offset);
  vyre_thread *thread = vyre_this_thread();
  if (result == VK_SUCCESS && buffer == thread->storage_buffer) thread->storage_memory = memory;
  return vyre_record(device, VYRE_CALL_BIND, result, 0);
}

void vyre_memory_close(vyre_device *device) {
  trim(device, 0);
  for (size_t i = 0; i < device->memory.capacity; i++) {
    if (device->memory.keys[i] == 0) continue;
    vyre_memory_block *block = (vyre_memory_block *)device->memory.values[i];
    block->next = NULL;
    free_blocks(device, block);
  }
  vyre_map_free(&device->memory);
  vyre_map_free(&device->buffer_bytes);
  vyre_map_free(&device->exact_bytes);
}

PFN_vkVoidFunction vyre_memory_hook(const char *name) {
  static const vyre_hook HOOKS[] = {
    VYRE_HOOK("vkAllocateMemory", allocate_memory),
    VYRE_HOOK("vkFreeMemory", free_memory),
    VYRE_HOOK("vkMapMemory", map_memory),
    VYRE_HOOK("vkUnmapMemory", unmap_memory),
    VYRE_HOOK("vkCreateBuffer", create_buffer),
    VYRE_HOOK("vkDestroyBuffer", destroy_buffer),
    VYRE_HOOK("vkUpdateDescriptorSets", update_descriptor_sets),
    VYRE_HOOK("vkGetBufferMemoryRequirements", get_buffer_requirements),
    VYRE_HOOK("vkBindBufferMemory", bind_buffer_memory),
  };
  return VYRE_FIND_HOOK(HOOKS, name);
}
