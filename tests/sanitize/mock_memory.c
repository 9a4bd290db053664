/* Memory and buffers of a mock device; the memory may be pages of the process, or one that others see through a descriptor. */
#include "mock.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define OF_PAGES VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT
#define OF_FD VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT

static atomic_llong imports;
static atomic_uint page_types = MOCK_PAGE_TYPES;

int64_t mock_imports(void) { return atomic_load(&imports); }

void mock_allow_page_types(uint32_t types) { atomic_store(&page_types, types); }

static void check_pages(const void *pages) { CHECK((uintptr_t)pages % MOCK_PAGE_BYTES == 0, "pages begin within a page"); }

static void import(mock_memory *memory, const VkMemoryAllocateInfo *info, const VkImportMemoryHostPointerInfoEXT *pointer) {
  check_pages(pointer->pHostPointer);
  CHECK(pointer->handleType == OF_PAGES, "pages are imported as something else");
  CHECK(memory->size && memory->size % MOCK_PAGE_BYTES == 0, "pages end within a page");
  CHECK(atomic_load(&page_types) >> info->memoryTypeIndex & 1, "pages are imported as a type that they may not be");
  memory->kind = OF_PAGES;
  memory->bytes = pointer->pHostPointer;
  atomic_fetch_add(&imports, 1);
}

static void make_shared(mock_memory *memory, const VkExportMemoryAllocateInfo *info) {
  CHECK(info->handleTypes == OF_FD, "memory is for something else than a descriptor");
  memory->kind = OF_FD;
  memory->fd = memfd_create("mock", MFD_CLOEXEC);
  CHECK(memory->fd >= 0 && ftruncate(memory->fd, (off_t)memory->size) == 0, "there is no memory to share");
  memory->bytes = mmap(NULL, memory->size, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
  CHECK(memory->bytes != MAP_FAILED, "there is no memory to share");
}

static VkResult allocate(VkDevice d, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *a, VkDeviceMemory *out) {
  (void)a;
  VkResult failure = mock_failure("vkAllocateMemory");
  if (failure != VK_SUCCESS) return failure;
  mock_memory *made = mock_make(sizeof *made, DEVICE(d));
  made->size = info->allocationSize;
  for (const VkBaseInStructure *next = info->pNext; next; next = next->pNext) {
    if (next->sType == VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO) make_shared(made, (const void *)next);
    if (next->sType == VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT) import(made, info, (const void *)next);
    if (next->sType == VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO) {
      made->only_for = ((const VkMemoryDedicatedAllocateInfo *)next)->buffer;
      CHECK(((mock_buffer *)made->only_for)->size == made->size, "memory of one buffer has another size");
    }
  }
  CHECK(made->kind != OF_FD || made->only_for, "exported memory is not one buffer's alone, which some devices want");
  if (!made->bytes) made->bytes = mock_zeros(made->size);
  *out = (VkDeviceMemory)made;
  return VK_SUCCESS;
}

static VkResult get_memory_fd(VkDevice d, const VkMemoryGetFdInfoKHR *info, int *fd) {
  (void)d;
  const mock_memory *memory = (const mock_memory *)info->memory;
  CHECK(memory->kind == OF_FD && info->handleType == OF_FD, "memory is exported that was not allocated for it");
  VkResult failure = mock_failure("vkGetMemoryFdKHR");
  if (failure != VK_SUCCESS) return failure;
  *fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, 0);
  return *fd < 0 ? VK_ERROR_TOO_MANY_OBJECTS : VK_SUCCESS;
}

static VkResult host_pointer_properties(
    VkDevice d, VkExternalMemoryHandleTypeFlagBits kind, const void *pages, VkMemoryHostPointerPropertiesEXT *out) {
  (void)d;
  CHECK(kind == OF_PAGES, "pages are imported as something else");
  check_pages(pages);
  mock_touch(pages);
  VkResult failure = mock_failure("vkGetMemoryHostPointerPropertiesEXT");
  if (failure == VK_SUCCESS) out->memoryTypeBits = atomic_load(&page_types);
  return failure;
}

static void free_memory(VkDevice d, VkDeviceMemory handle, const VkAllocationCallbacks *a) {
  (void)a;
  if (!handle) return;
  mock_memory *memory = (mock_memory *)handle;
  mock_check_unused(DEVICE(d), &memory->uses, "memory is freed that is in use");
  if (memory->kind == OF_PAGES) {
    mock_touch(memory->bytes);
    mock_touch(memory->bytes + memory->size - 1); /* they have to be there until now */
    atomic_fetch_sub(&imports, 1);
  } else if (memory->kind == OF_FD) {
    munmap(memory->bytes, memory->size);
    close(memory->fd);
  } else {
    free(memory->bytes);
  }
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
  VkResult failure = mock_failure("vkCreateBuffer");
  if (failure != VK_SUCCESS) return failure;
  mock_buffer *made = mock_make(sizeof *made, DEVICE(d));
  made->size = info->size;
  for (const VkBaseInStructure *next = info->pNext; next; next = next->pNext) {
    const VkExternalMemoryBufferCreateInfo *external = (const VkExternalMemoryBufferCreateInfo *)next;
    if (next->sType == VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO) made->kinds = external->handleTypes;
  }
  *out = (VkBuffer)made;
  return VK_SUCCESS;
}

static void buffer_requirements(VkDevice d, VkBuffer buffer, VkMemoryRequirements *out) {
  (void)d;
  const mock_buffer *of = (const mock_buffer *)buffer;
  *out = (VkMemoryRequirements){of->size, 16, of->kinds == OF_PAGES ? 1 | MOCK_PAGE_TYPES : 1};
}

static VkResult bind_memory(VkDevice d, VkBuffer buffer, VkDeviceMemory handle, VkDeviceSize offset) {
  (void)d;
  mock_memory *memory = (mock_memory *)handle;
  mock_buffer *to = (mock_buffer *)buffer;
  CHECK(offset % 16 == 0 && offset <= memory->size && to->size <= memory->size - offset, "memory is too small");
  to->offset = offset;
  CHECK(memory->kind == to->kinds, "a buffer is not for memory of that kind");
  CHECK(!memory->only_for || memory->only_for == buffer, "memory is another buffer's alone");
  VkResult failure = mock_failure("vkBindBufferMemory");
  if (failure != VK_SUCCESS) return failure;
  to->memory = memory;
  return VK_SUCCESS;
}

static void destroy_buffer(VkDevice d, VkBuffer buffer, const VkAllocationCallbacks *a) {
  (void)a;
  if (buffer) mock_check_unused(DEVICE(d), &((mock_buffer *)buffer)->uses, "a buffer is destroyed that is in use");
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
