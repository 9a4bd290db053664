/* Pages of this process that a device copies from and to by itself, at the speed of the bus (VK_EXT_external_memory_host).

   The pages are ours and not the driver's: whoever looks at them after the device has gone still can. They are touched before
   they are imported, by several threads, because a driver that pins them would do that one by one. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "host_memory.h"

#include <string.h>
#include <sys/mman.h>

#include "host_copy.h"

#define HUGE_PAGE ((size_t)1 << 21)
#define PAGES_OF_HOST VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT

void *vyre_map_pages(size_t bytes) {
  size_t spare = bytes >= HUGE_PAGE ? HUGE_PAGE : 0;
  if (bytes > SIZE_MAX - spare) return NULL;
  char *all = mmap(NULL, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return NULL;
  if (!spare) {
    vyre_clear_bytes(all, bytes);
    return all;
  }
  size_t before = (HUGE_PAGE - (uintptr_t)all % HUGE_PAGE) % HUGE_PAGE;
  char *pages = all + before;
  if (before) (void)munmap(all, before);
  if (spare > before) (void)munmap(pages + bytes, spare - before);
  (void)madvise(pages, bytes, MADV_HUGEPAGE); /* fewer of them to pin; without it all is the same, slower */
  vyre_clear_bytes(pages, bytes);
  return pages;
}

void vyre_unmap_pages(void *pages, size_t bytes) { (void)munmap(pages, bytes); }

static bool is_switched_on(const vyre_config *config) {
  bool found = false;
  for (uint32_t i = 0; i < config->extension_count; i++) {
    found |= !strcmp(config->extensions[i], VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  }
  return found;
}

void vyre_describe_import(vyre_device *device, const vyre_instance *instance, VkPhysicalDevice physical) {
  VkPhysicalDeviceExternalMemoryHostPropertiesEXT import = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
  VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &import};
  if (!device->owned || !instance->properties2 || !is_switched_on(&device->config)) return;
  instance->properties2(physical, &properties);
  device->import_alignment = import.minImportedHostPointerAlignment;
}

uint64_t vyre_import_alignment(const vyre_device *device) {
  return device->vk.GetMemoryHostPointerPropertiesEXT ? device->import_alignment : 0;
}

/* The first type that pages and buffer both allow, one that the host reads through its caches before others. */
static bool find_type(const vyre_device *device, uint32_t allowed, uint32_t *type) {
  uint32_t best = allowed & device->readback_types ? allowed & device->readback_types : allowed & device->coherent_types;
  if (!best) return false;
  *type = (uint32_t)__builtin_ctz(best);
  return true;
}

static VkResult import(vyre_device *device, void *pages, uint64_t bytes, VkBuffer buffer, VkDeviceMemory *out) {
  VkMemoryHostPointerPropertiesEXT seen = {.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
  VkMemoryRequirements needs;
  VkImportMemoryHostPointerInfoEXT pointer = {
      .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT, .handleType = PAGES_OF_HOST, .pHostPointer = pages};
  VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .pNext = &pointer, .allocationSize = bytes};
  device->vk.GetBufferMemoryRequirements(device->handle, buffer, &needs);
  VkResult result = device->vk.GetMemoryHostPointerPropertiesEXT(device->handle, PAGES_OF_HOST, pages, &seen);
  if (result != VK_SUCCESS) return result;
  if (needs.size > bytes || !find_type(device, needs.memoryTypeBits & seen.memoryTypeBits, &info.memoryTypeIndex)) {
    return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  }
  result = vyre_injected(VYRE_CALL_ALLOCATE);
  if (result == VK_SUCCESS) result = device->vk.AllocateMemory(device->handle, &info, NULL, out);
  if (result != VK_SUCCESS) return result;
  result = device->vk.BindBufferMemory(device->handle, buffer, *out, 0);
  if (result != VK_SUCCESS) device->vk.FreeMemory(device->handle, *out, NULL);
  return result;
}

static bool remember(vyre_device *device, VkBuffer buffer, uint64_t bytes, VkDeviceMemory memory) {
  if (!vyre_remember_buffer(device, buffer, bytes)) return false;
  pthread_mutex_lock(&device->memory_lock);
  bool known = vyre_map_put(&device->imports, VYRE_HANDLE(buffer), (uintptr_t)memory);
  pthread_mutex_unlock(&device->memory_lock);
  if (!known) vyre_forget_buffer(device, buffer);
  return known;
}

static VkResult make(vyre_device *device, void *pages, uint64_t bytes, VkBuffer *out) {
  VkExternalMemoryBufferCreateInfo external = {
      .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO, .handleTypes = PAGES_OF_HOST};
  VkBufferCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .pNext = &external, .size = bytes,
      .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT};
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkBuffer buffer;
  VkResult result = vyre_injected(VYRE_CALL_CREATE_BUFFER);
  if (result == VK_SUCCESS) result = device->vk.CreateBuffer(device->handle, &info, NULL, &buffer);
  if (result != VK_SUCCESS) return result;
  result = import(device, pages, bytes, buffer, &memory);
  if (result == VK_SUCCESS && !remember(device, buffer, bytes, memory)) {
    device->vk.FreeMemory(device->handle, memory, NULL);
    result = VK_ERROR_OUT_OF_HOST_MEMORY;
  }
  if (result == VK_SUCCESS) {
    *out = buffer;
  } else {
    device->vk.DestroyBuffer(device->handle, buffer, NULL);
  }
  return result;
}

VkResult vyre_import_pages(vyre_device *device, void *pages, uint64_t bytes, VkBuffer *out) {
  if (!vyre_enter(device)) return VK_ERROR_DEVICE_LOST;
  VkResult result = vyre_record(device, VYRE_CALL_ALLOCATE, make(device, pages, bytes, out), bytes);
  vyre_leave(device);
  return result;
}

/* Of a device that is going: its work may write to the pages until then. */
static void wait_for_end(vyre_device *device, VkBuffer buffer) {
  uintptr_t memory;
  pthread_mutex_lock(&device->memory_lock);
  while (vyre_map_get(&device->imports, VYRE_HANDLE(buffer), &memory)) {
    pthread_cond_wait(&device->imports_gone, &device->memory_lock);
  }
  pthread_mutex_unlock(&device->memory_lock);
}

void vyre_drop_import(vyre_device *device, VkBuffer buffer) {
  uintptr_t memory = 0;
  if (!vyre_enter(device)) {
    wait_for_end(device, buffer);
    return;
  }
  pthread_mutex_lock(&device->memory_lock);
  bool known = vyre_map_take(&device->imports, VYRE_HANDLE(buffer), &memory);
  pthread_mutex_unlock(&device->memory_lock);
  if (known) {
    vyre_forget_buffer(device, buffer);
    device->vk.DestroyBuffer(device->handle, buffer, NULL);
    device->vk.FreeMemory(device->handle, (VkDeviceMemory)memory, NULL);
  }
  vyre_leave(device);
}

void vyre_imports_close(vyre_device *device) {
  uintptr_t bytes;
  pthread_mutex_lock(&device->memory_lock);
  for (size_t i = 0; i < device->imports.capacity; i++) {
    if (device->imports.keys[i] == 0) continue;
    (void)vyre_map_take(&device->buffer_bytes, device->imports.keys[i], &bytes);
    device->vk.DestroyBuffer(device->handle, (VkBuffer)(uintptr_t)device->imports.keys[i], NULL);
    device->vk.FreeMemory(device->handle, (VkDeviceMemory)device->imports.values[i], NULL);
  }
  vyre_map_free(&device->imports);
  pthread_cond_broadcast(&device->imports_gone);
  pthread_mutex_unlock(&device->memory_lock);
}
