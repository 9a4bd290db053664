/* The descriptor holds the memory, and so does what imports it: vkFreeMemory leaves them theirs (Vulkan 1.3,
   VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT). An exported block is the one buffer's alone, since some devices demand it. */
#include "exports.h"

const void *vyre_chain_buffer_export(vyre_export_chain *chain, const void *next) {
  chain->buffer = (VkExternalMemoryBufferCreateInfo){
      .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
      .pNext = next,
      .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
  return &chain->buffer;
}

const void *vyre_chain_memory_export(vyre_export_chain *chain, VkBuffer buffer, const void *next) {
  chain->memory.dedicated = (VkMemoryDedicatedAllocateInfo){
      .sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO, .pNext = next, .buffer = buffer};
  chain->memory.exported = (VkExportMemoryAllocateInfo){
      .sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
      .pNext = &chain->memory.dedicated,
      .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
  return &chain->memory.exported;
}

VkResult vyre_export_storage(vyre_device *device, int *fd) {
  const vyre_thread *thread = vyre_this_thread();
  *fd = -1;
  if (!vyre_enter(device)) return VK_ERROR_DEVICE_LOST;
  VkResult result = vyre_injected(VYRE_CALL_EXPORT);
  PFN_vkGetMemoryFdKHR get = (PFN_vkGetMemoryFdKHR)device->next(device->handle, "vkGetMemoryFdKHR");
  if (result == VK_SUCCESS && !get) result = VK_ERROR_EXTENSION_NOT_PRESENT;
  if (result == VK_SUCCESS) {
    VkMemoryGetFdInfoKHR info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
        .memory = thread->storage_memory,
        .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    result = get(device->handle, &info, fd);
  }
  vyre_leave(device);
  return vyre_record(device, VYRE_CALL_EXPORT, result, thread->storage_bytes);
}
