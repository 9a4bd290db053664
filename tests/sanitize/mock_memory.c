/* Memory and buffers of a mock device. */
#include "mock.h"

#include <fcntl.h>

static VkResult allocate(VkDevice d, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *a, VkDeviceMemory *out) {
  (void)a;
  mock_memory *made = mock_make(sizeof *made, DEVICE(d));
  made->size = info->allocationSize;
  made->bytes = calloc(1, made->size);
  for (const VkBaseInStructure *next = info->pNext; next; next = next->pNext) {
    if (next->sType == VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO) made->exported = true;
  }
  *out = (VkDeviceMemory)made;
  return VK_SUCCESS;
}

static VkResult get_memory_fd(VkDevice d, const VkMemoryGetFdInfoKHR *info, int *fd) {
  (void)d;
  CHECK(((const mock_memory *)info->memory)->exported, "memory is exported that was not allocated for it");
  *fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  return *fd < 0 ? VK_ERROR_TOO_MANY_OBJECTS : VK_SUCCESS;
}

static VkResult host_pointer_properties(
    VkDevice d, VkExternalMemoryHandleTypeFlagBits kind, const void *pages, VkMemoryHostPointerPropertiesEXT *out) {
  (void)d, (void)pages;
  CHECK(kind == VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT, "pages are imported as something else");
  out->memoryTypeBits = 1;
  return VK_SUCCESS;
}

static void free_memory(VkDevice d, VkDeviceMemory memory, const VkAllocationCallbacks *a) {
  (void)a;
  if (!memory) return;
  free(((mock_memory *)memory)->bytes);
  mock_drop(memory, DEVICE(d));
}

static VkResult map_memory(
    VkDevice d, VkDeviceMemory handle, VkDeviceSize offset, VkDeviceSize size, VkMemoryMapFlags flags, void **out) {
  (void)d, (void)size, (void)flags;
  mock_memory *memory = (mock_memory *)handle;
  CHECK(!memory->mapped, "memory is mapped that is mapped");
  memory->mapped = true;
  *out = memory->bytes + offset;
  return VK_SUCCESS;
}

static void unmap_memory(VkDevice d, VkDeviceMemory memory) {
  (void)d;
  ((mock_memory *)memory)->mapped = false;
}

static VkResult create_buffer(VkDevice d, const VkBufferCreateInfo *info, const VkAllocationCallbacks *a, VkBuffer *out) {
  (void)a;
  mock_buffer *made = mock_make(sizeof *made, DEVICE(d));
  made->size = info->size;
  *out = (VkBuffer)made;
  return VK_SUCCESS;
}

static void buffer_requirements(VkDevice d, VkBuffer buffer, VkMemoryRequirements *out) {
  (void)d;
  *out = (VkMemoryRequirements){((mock_buffer *)buffer)->size, 16, 1};
}

static VkResult bind_memory(VkDevice d, VkBuffer buffer, VkDeviceMemory memory, VkDeviceSize offset) {
  (void)d;
  CHECK(offset == 0 && ((mock_memory *)memory)->size >= ((mock_buffer *)buffer)->size, "memory is too small");
  ((mock_buffer *)buffer)->memory = (mock_memory *)memory;
  return VK_SUCCESS;
}

static void destroy_buffer(VkDevice d, VkBuffer buffer, const VkAllocationCallbacks *a) {
  (void)a;
  mock_drop(buffer, DEVICE(d));
}

PFN_vkVoidFunction mock_memory_proc(const char *name) {
  NAMED(AllocateMemory, allocate)
  NAMED(FreeMemory, free_memory)
  NAMED(GetMemoryFdKHR, get_memory_fd)
  NAMED(GetMemoryHostPointerPropertiesEXT, host_pointer_properties)
  NAMED(MapMemory, map_memory)
  NAMED(UnmapMemory, unmap_memory)
  NAMED(CreateBuffer, create_buffer)
  NAMED(DestroyBuffer, destroy_buffer)
  NAMED(GetBufferMemoryRequirements, buffer_requirements)
  NAMED(BindBufferMemory, bind_memory)
  return NULL;
}
