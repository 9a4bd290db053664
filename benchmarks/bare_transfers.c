/* What a bus gives: copies between host and device in C, without any layer, by the device and by threads of the host.

   bare_transfers DEVICE_INDEX QUEUE_FAMILY BYTES: for each line that it reads it prints the microseconds of one turn, or -1 where
   the device cannot. A line is one of

     write MEMORY QUEUE   the device copies from MEMORY of the host ("cached": allocated; "imported": of this process,
     read MEMORY QUEUE    VK_EXT_external_memory_host) to its own, or back, on QUEUE ("compute", "transfer": a family for that alone)
     both MEMORY          both at once, on two queues of that family
     store THREADS        threads copy from this process's memory to the device's, mapped
     load THREADS         the same, back: what nobody should do
     gather THREADS       to memory of the host that the device copies from
     scatter THREADS      from there to this process's memory
     fresh THREADS        the same, to memory that was not touched before
     touch THREADS        writes one byte a page of such memory */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <vulkan/vulkan.h>

#define MOST_THREADS 64
#define ALIGNMENT 65536
#define PAGE 4096

typedef struct {
  VkBuffer buffer;
  char *mapped;
} memory;

typedef struct {
  VkQueue queue;
  VkCommandPool pool;
  VkCommandBuffer commands;
  VkFence fence;
} lane;

static VkPhysicalDevice physical;
static VkDevice device;
static uint32_t compute_family, transfer_family = UINT32_MAX;
static size_t bytes;
static bool has_import;
static char *plain;

static void check(VkResult result, const char *call) {
  if (result == VK_SUCCESS) return;
  fprintf(stderr, "%s returned %d\n", call, result);
  exit(1);
}
#define CHECK(call) check(call, #call)

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static char *pages(size_t count) {
  char *found = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) check(VK_ERROR_OUT_OF_HOST_MEMORY, "mmap");
  return found;
}

static void find_transfer_family(void) {
  VkQueueFamilyProperties all[16];
  uint32_t count = 16;
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, all);
  for (uint32_t i = 0; i < count; i++) {
    VkQueueFlags flags = all[i].queueFlags & (VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT);
    if (flags == VK_QUEUE_TRANSFER_BIT && all[i].queueCount >= 2 && transfer_family == UINT32_MAX) transfer_family = i;
  }
}

static void open_device(uint32_t index) {
  VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
  VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
  VkInstance instance;
  CHECK(vkCreateInstance(&instance_info, NULL, &instance));
  VkPhysicalDevice all[16];
  uint32_t count = 16;
  VkResult listed = vkEnumeratePhysicalDevices(instance, &count, all);
  if (listed < 0 || index >= count) check(VK_ERROR_INITIALIZATION_FAILED, "vkEnumeratePhysicalDevices");
  physical = all[index];
  static VkExtensionProperties extensions[1024];
  uint32_t known = 1024;
  vkEnumerateDeviceExtensionProperties(physical, NULL, &known, extensions);
  for (uint32_t i = 0; i < known; i++) has_import |= !strcmp(extensions[i].extensionName, "VK_EXT_external_memory_host");
  find_transfer_family();
  const float priorities[2] = {1, 1};
  VkDeviceQueueCreateInfo queues[2] = {
      {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueFamilyIndex = compute_family, .queueCount = 1,
       .pQueuePriorities = priorities},
      {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueFamilyIndex = transfer_family, .queueCount = 2,
       .pQueuePriorities = priorities}};
  const char *names[] = {"VK_EXT_external_memory_host"};
  VkDeviceCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = transfer_family == UINT32_MAX ? 1 : 2,
      .pQueueCreateInfos = queues, .enabledExtensionCount = has_import, .ppEnabledExtensionNames = names};
  CHECK(vkCreateDevice(physical, &info, NULL, &device));
}

static lane make_lane(uint32_t family, uint32_t number) {
  lane made;
  vkGetDeviceQueue(device, family, number, &made.queue);
  VkCommandPoolCreateInfo pool = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
      .queueFamilyIndex = family};
  CHECK(vkCreateCommandPool(device, &pool, NULL, &made.pool));
  VkCommandBufferAllocateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = made.pool, .commandBufferCount = 1};
  CHECK(vkAllocateCommandBuffers(device, &info, &made.commands));
  VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  CHECK(vkCreateFence(device, &fence, NULL, &made.fence));
  return made;
}

static uint32_t type_with(uint32_t allowed, VkMemoryPropertyFlags wanted) {
  VkPhysicalDeviceMemoryProperties properties;
  vkGetPhysicalDeviceMemoryProperties(physical, &properties);
  for (uint32_t i = 0; i < properties.memoryTypeCount; i++) {
    if (allowed >> i & 1 && (properties.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
  }
  return UINT32_MAX;
}

/* Without memory where the device has no such type, or cannot import the pointer. */
static memory make_memory(VkMemoryPropertyFlags wanted, char *imported) {
  memory made = {VK_NULL_HANDLE, NULL};
  VkExternalMemoryBufferCreateInfo external = {
      .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
      .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT};
  VkBufferCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .pNext = imported ? &external : NULL, .size = bytes,
      .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT};
  VkBuffer buffer;
  CHECK(vkCreateBuffer(device, &info, NULL, &buffer));
  VkMemoryRequirements needs;
  vkGetBufferMemoryRequirements(device, buffer, &needs);
  uint32_t allowed = needs.memoryTypeBits;
  VkImportMemoryHostPointerInfoEXT pointer = {
      .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
      .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT, .pHostPointer = imported};
  if (imported) {
    VkMemoryHostPointerPropertiesEXT properties = {.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    PFN_vkGetMemoryHostPointerPropertiesEXT ask =
        (PFN_vkGetMemoryHostPointerPropertiesEXT)vkGetDeviceProcAddr(device, "vkGetMemoryHostPointerPropertiesEXT");
    if (!ask || ask(device, pointer.handleType, imported, &properties) != VK_SUCCESS) return made;
    allowed &= properties.memoryTypeBits;
  }
  uint32_t type = type_with(allowed, wanted);
  if (type == UINT32_MAX) return made;
  VkMemoryAllocateInfo allocation = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .pNext = imported ? &pointer : NULL, .allocationSize = needs.size,
      .memoryTypeIndex = type};
  VkDeviceMemory block;
  if (vkAllocateMemory(device, &allocation, NULL, &block) != VK_SUCCESS) return made;
  CHECK(vkBindBufferMemory(device, buffer, block, 0));
  if (wanted & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT && !imported) {
    CHECK(vkMapMemory(device, block, 0, VK_WHOLE_SIZE, 0, (void **)&made.mapped));
  } else {
    made.mapped = imported;
  }
  made.buffer = buffer;
  return made;
}

static void submit(const lane *one, VkBuffer from, VkBuffer to) {
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  CHECK(vkBeginCommandBuffer(one->commands, &begin));
  VkBufferCopy region = {.size = bytes};
  vkCmdCopyBuffer(one->commands, from, to, 1, &region);
  CHECK(vkEndCommandBuffer(one->commands));
  VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &one->commands};
  CHECK(vkQueueSubmit(one->queue, 1, &info, one->fence));
}

static void finish(const lane *one) {
  CHECK(vkWaitForFences(device, 1, &one->fence, VK_TRUE, UINT64_MAX));
  CHECK(vkResetFences(device, 1, &one->fence));
}

typedef struct {
  char *to;
  const char *from;
  size_t bytes;
} part;

static void *copy_part(void *given) {
  const part *one = given;
  if (one->from) {
    memcpy(one->to, one->from, one->bytes);
  } else {
    for (size_t at = 0; at < one->bytes; at += PAGE) one->to[at] = 1;
  }
  return NULL;
}

static double copy_by_threads(char *to, const char *from, unsigned threads) {
  pthread_t running[MOST_THREADS];
  part parts[MOST_THREADS];
  if (threads < 1 || threads > MOST_THREADS) return -1;
  size_t each = (bytes / threads + PAGE - 1) / PAGE * PAGE;
  double began = now_us();
  for (unsigned i = 0; i < threads; i++) {
    size_t first = each * i < bytes ? each * i : bytes;
    size_t count = bytes - first < each ? bytes - first : each;
    parts[i] = (part){to + first, from ? from + first : NULL, count};
    if (pthread_create(&running[i], NULL, copy_part, &parts[i])) check(VK_ERROR_UNKNOWN, "pthread_create");
  }
  for (unsigned i = 0; i < threads; i++) pthread_join(running[i], NULL);
  return now_us() - began;
}

static memory local, cached, imported, visible;
static lane compute_lane, first_lane, second_lane;

static double copied_by_device(const char *what, const char *kind, const char *queue) {
  const memory *host = strcmp(kind, "imported") ? &cached : &imported;
  bool apart = !strcmp(queue, "transfer") || !strcmp(what, "both");
  if (!host->buffer || !local.buffer || (apart && transfer_family == UINT32_MAX)) return -1;
  const lane *one = apart ? &first_lane : &compute_lane;
  double began = now_us();
  if (!strcmp(what, "write") || !strcmp(what, "both")) submit(one, host->buffer, local.buffer);
  if (!strcmp(what, "read")) submit(one, local.buffer, host->buffer);
  if (!strcmp(what, "both")) {
    if (!visible.buffer || !cached.buffer || !imported.buffer) return -1;
    submit(&second_lane, visible.buffer, host == &cached ? imported.buffer : cached.buffer);
    finish(&second_lane);
  }
  finish(one);
  return now_us() - began;
}

static double copied_by_host(const char *what, unsigned threads) {
  char *staging = cached.mapped;
  if (!strcmp(what, "store")) return visible.mapped ? copy_by_threads(visible.mapped, plain, threads) : -1;
  if (!strcmp(what, "load")) return visible.mapped ? copy_by_threads(plain, visible.mapped, threads) : -1;
  if (!staging) return -1;
  if (!strcmp(what, "gather")) return copy_by_threads(staging, plain, threads);
  if (!strcmp(what, "scatter")) return copy_by_threads(plain, staging, threads);
  char *fresh = pages(bytes);
  double took = copy_by_threads(fresh, strcmp(what, "touch") ? staging : NULL, threads);
  munmap(fresh, bytes);
  return took;
}

int main(int count, char **arguments) {
  if (count != 4) return 2;
  compute_family = (uint32_t)atoi(arguments[2]);
  bytes = (size_t)strtoull(arguments[3], NULL, 10) / ALIGNMENT * ALIGNMENT;
  if (!bytes) return 2;
  open_device((uint32_t)atoi(arguments[1]));
  const VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  local = make_memory(VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, NULL);
  cached = make_memory(host | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, NULL);
  visible = make_memory(host | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, NULL);
  plain = pages(bytes);
  char *own = pages(bytes + ALIGNMENT);
  own += (ALIGNMENT - (uintptr_t)own % ALIGNMENT) % ALIGNMENT;
  memset(plain, 1, bytes);
  memset(own, 2, bytes);
  if (has_import) imported = make_memory(host, own);
  compute_lane = make_lane(compute_family, 0);
  if (transfer_family != UINT32_MAX) {
    first_lane = make_lane(transfer_family, 0);
    second_lane = make_lane(transfer_family, 1);
  }
  char what[16], kind[16], queue[16];
  for (char line[64]; fgets(line, sizeof line, stdin);) {
    int given = sscanf(line, "%15s %15s %15s", what, kind, queue);
    bool by_device = !strcmp(what, "write") || !strcmp(what, "read") || !strcmp(what, "both");
    double took = given < 2 ? -1 : by_device ? copied_by_device(what, kind, given == 3 ? queue : "") : copied_by_host(what, (unsigned)atoi(kind));
    printf("%.3f\n", took);
    fflush(stdout);
  }
  vkDeviceWaitIdle(device);
  return 0;
}
