/* The memory that kompute allocates, a tensor at a time, and what is bound of it.

   A tensor of kompute's is a block, to which buffers of ours are bound (arena.c): kompute is asked for one word, and the layer gives
   its buffer the block's length, so that neither numpy nor kompute fills or copies an array of that. */
#include <string.h>

#include "exports.h"

/* The memory of a tensor that has none: all that is asked of it is to be one, where kompute makes a pipeline. */
#define NO_MEMORY ((VkDeviceMemory)~(uintptr_t)0)

static VKAPI_ATTR VkResult VKAPI_CALL allocate_memory(
    VkDevice handle, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *allocator, VkDeviceMemory *out) {
  vyre_device *device = vyre_find_device(handle);
  VkMemoryAllocateInfo changed = *info;
  vyre_thread *thread = vyre_this_thread();
  vyre_export_chain chain;
  *out = thread->is_stand_in ? NO_MEMORY : VK_NULL_HANDLE;
  if (*out) return VK_SUCCESS;
  if (thread->export_next) {
    changed.pNext = vyre_chain_memory_export(&chain, thread->export_next, info->pNext);
    thread->export_next = VK_NULL_HANDLE;
  }
  VkResult result = device->vk.AllocateMemory(handle, &changed, allocator, out);
  if (result != VK_SUCCESS) *out = VK_NULL_HANDLE;
  pthread_mutex_lock(&device->memory_lock);
  bool known = result == VK_SUCCESS && vyre_map_put(&device->memory, VYRE_HANDLE(*out), info->memoryTypeIndex);
  pthread_mutex_unlock(&device->memory_lock);
  if (result == VK_SUCCESS && !known) {
    device->vk.FreeMemory(handle, *out, allocator);
    *out = VK_NULL_HANDLE;
    result = VK_ERROR_OUT_OF_HOST_MEMORY;
  }
  if (result != VK_SUCCESS) return vyre_record(device, VYRE_CALL_ALLOCATE, result, info->allocationSize);
  thread->storage_bytes = info->allocationSize;
  thread->storage_types = UINT32_C(1) << info->memoryTypeIndex;
  vyre_count(device, VYRE_MEMORY_ALLOCATED, 1);
  vyre_made(VYRE_MEMORY, VYRE_HANDLE(*out));
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL free_memory(
    VkDevice handle, VkDeviceMemory memory, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  uintptr_t type;
  if (!memory || memory == NO_MEMORY) return;
  vyre_unmade(VYRE_MEMORY, VYRE_HANDLE(memory));
  pthread_mutex_lock(&device->memory_lock);
  (void)vyre_map_take(&device->memory, VYRE_HANDLE(memory), &type);
  pthread_mutex_unlock(&device->memory_lock);
  device->vk.FreeMemory(handle, memory, allocator);
}

/* All of it, since Vulkan maps memory once: kompute knows of one word. */
static VKAPI_ATTR VkResult VKAPI_CALL map_memory(
    VkDevice handle, VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize size, VkMemoryMapFlags flags, void **out) {
  vyre_device *device = vyre_find_device(handle);
  (void)offset, (void)size; /* 0, and that word */
  VkResult result = memory ? vyre_injected(VYRE_CALL_MAP) : VK_ERROR_MEMORY_MAP_FAILED;
  if (result == VK_SUCCESS) result = device->vk.MapMemory(handle, memory, 0, VK_WHOLE_SIZE, flags, out);
  if (result == VK_SUCCESS) vyre_this_thread()->mapped = *out;
  return vyre_record(device, VYRE_CALL_MAP, result, 0);
}

static VKAPI_ATTR void VKAPI_CALL unmap_memory(VkDevice handle, VkDeviceMemory memory) {
  if (memory) vyre_find_device(handle)->vk.UnmapMemory(handle, memory);
}

/* kompute flushes one word before it unmaps, which is no multiple of what devices flush; its memory is coherent. */
static VKAPI_ATTR VkResult VKAPI_CALL flush_memory(VkDevice handle, uint32_t count, const VkMappedMemoryRange *ranges) {
  (void)handle, (void)count, (void)ranges;
  return VK_SUCCESS;
}

bool vyre_remember_buffer(vyre_device *device, VkBuffer buffer, uint64_t bytes) {
  pthread_mutex_lock(&device->memory_lock);
  bool known = vyre_map_put(&device->buffer_bytes, VYRE_HANDLE(buffer), (uintptr_t)bytes);
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
  pthread_mutex_unlock(&device->memory_lock);
}

/* kompute ignores these results and goes on with null handles; a driver would crash on them. */
static VKAPI_ATTR VkResult VKAPI_CALL create_buffer(
    VkDevice handle, const VkBufferCreateInfo *info, const VkAllocationCallbacks *allocator, VkBuffer *out) {
  vyre_device *device = vyre_find_device(handle);
  *out = VK_NULL_HANDLE;
  vyre_thread *thread = vyre_this_thread();
  VkBufferCreateInfo changed = *info;
  vyre_export_chain chain;
  if (thread->buffer_bytes) changed.size = thread->buffer_bytes;
  /* kompute does not ask for it where a tensor has no staging buffer. */
  changed.usage |= VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (thread->want_export) changed.pNext = vyre_chain_buffer_export(&chain, info->pNext);
  VkResult result = device->vk.CreateBuffer(handle, &changed, allocator, out);
  if (result != VK_SUCCESS) *out = VK_NULL_HANDLE;
  if (result == VK_SUCCESS && !vyre_remember_buffer(device, *out, changed.size)) {
    device->vk.DestroyBuffer(handle, *out, allocator);
    *out = VK_NULL_HANDLE;
    result = VK_ERROR_OUT_OF_HOST_MEMORY;
  }
  thread->storage_buffer = *out;
  if (result == VK_SUCCESS) vyre_made(VYRE_BUFFER, VYRE_HANDLE(*out));
  return vyre_record(device, VYRE_CALL_CREATE_BUFFER, result, changed.size);
}

static VKAPI_ATTR void VKAPI_CALL destroy_buffer(
    VkDevice handle, VkBuffer buffer, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  vyre_unmade(VYRE_BUFFER, VYRE_HANDLE(buffer));
  if (buffer) vyre_forget_buffer(device, buffer);
  device->vk.DestroyBuffer(handle, buffer, allocator);
}

/* In the place of kompute's tensor. Where the buffer has not so many bytes Python drops what was made. */
static bool bind_part(vyre_device *device, VkDescriptorBufferInfo *info, uint32_t binding) {
  vyre_thread *thread = vyre_this_thread();
  vyre_range_of part = binding < thread->part_count ? thread->parts[binding] : (vyre_range_of){0};
  uint64_t size = vyre_buffer_bytes(device, part.buffer);
  if (!part.range.bytes || part.range.offset > size || part.range.bytes > size - part.range.offset) {
    thread->parts_missed++;
    return false;
  }
  *info = (VkDescriptorBufferInfo){part.buffer, part.range.offset, part.range.bytes};
  thread->parts_written++;
  return true;
}

static VKAPI_ATTR void VKAPI_CALL update_descriptor_sets(
    VkDevice handle, uint32_t write_count, const VkWriteDescriptorSet *writes, uint32_t copy_count,
    const VkCopyDescriptorSet *copies) {
  vyre_device *device = vyre_find_device(handle);
  bool is_one = write_count == 1 && writes->descriptorCount == 1 && writes->descriptorType == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  if (!is_one || !vyre_this_thread()->parts) {
    device->vk.UpdateDescriptorSets(handle, write_count, writes, copy_count, copies);
    return;
  }
  VkWriteDescriptorSet write = *writes;
  VkDescriptorBufferInfo info = *writes->pBufferInfo;
  if (!bind_part(device, &info, write.dstBinding)) return;
  write.pBufferInfo = &info;
  device->vk.UpdateDescriptorSets(handle, 1, &write, copy_count, copies);
}

static VKAPI_ATTR void VKAPI_CALL get_buffer_requirements(
    VkDevice handle, VkBuffer buffer, VkMemoryRequirements *out) {
  vyre_device *device = vyre_find_device(handle);
  if (!buffer) {
    memset(out, 0, sizeof *out);
    return;
  }
  device->vk.GetBufferMemoryRequirements(handle, buffer, out);
  vyre_thread *thread = vyre_this_thread();
  if (thread->want_export) thread->export_next = buffer; /* kompute allocates what it has asked about */
  thread->alignment = out->alignment;
  /* kompute takes the first type that will do. */
  if (out->memoryTypeBits & thread->wanted_types) out->memoryTypeBits &= thread->wanted_types;
}

static VKAPI_ATTR VkResult VKAPI_CALL bind_buffer_memory(
    VkDevice handle, VkBuffer buffer, VkDeviceMemory memory, VkDeviceSize offset) {
  vyre_device *device = vyre_find_device(handle);
  if (memory == NO_MEMORY) return VK_SUCCESS;
  VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  if (buffer && memory) result = device->vk.BindBufferMemory(handle, buffer, memory, offset);
  if (result == VK_SUCCESS) vyre_this_thread()->storage_memory = memory;
  return vyre_record(device, VYRE_CALL_BIND, result, 0);
}

/* Buffers of ours that somebody still holds, and what kompute has left. */
void vyre_memory_close(vyre_device *device) {
  for (size_t i = 0; i < device->buffer_bytes.capacity; i++) {
    if (device->buffer_bytes.keys[i]) device->vk.DestroyBuffer(device->handle, (VkBuffer)(uintptr_t)device->buffer_bytes.keys[i], NULL);
  }
  for (size_t i = 0; i < device->memory.capacity; i++) {
    if (device->memory.keys[i]) device->vk.FreeMemory(device->handle, (VkDeviceMemory)(uintptr_t)device->memory.keys[i], NULL);
  }
  vyre_map_free(&device->memory);
  vyre_map_free(&device->buffer_bytes);
  vyre_arenas_close(device);
}

PFN_vkVoidFunction vyre_memory_hook(const char *name) {
  static const vyre_hook HOOKS[] = {
    VYRE_HOOK("vkAllocateMemory", allocate_memory),
    VYRE_HOOK("vkFreeMemory", free_memory),
    VYRE_HOOK("vkMapMemory", map_memory),
    VYRE_HOOK("vkUnmapMemory", unmap_memory),
    VYRE_HOOK("vkFlushMappedMemoryRanges", flush_memory),
    VYRE_HOOK("vkCreateBuffer", create_buffer),
    VYRE_HOOK("vkDestroyBuffer", destroy_buffer),
    VYRE_HOOK("vkUpdateDescriptorSets", update_descriptor_sets),
    VYRE_HOOK("vkGetBufferMemoryRequirements", get_buffer_requirements),
    VYRE_HOOK("vkBindBufferMemory", bind_buffer_memory),
  };
  return VYRE_FIND_HOOK(HOOKS, name);
}
