#include "mock_driver.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COPIES 64
#define BLOB_BYTES 100
#define CHECK(rule, text) \
  do { \
    if (!(rule)) { \
      fprintf(stderr, "mock driver: %s\n", text); \
      abort(); \
    } \
  } while (0)

typedef struct mock_device mock_device;

typedef struct mock_physical {
  void *key;
} mock_physical;

typedef struct mock_instance {
  void *key;
  mock_physical physical;
} mock_instance;

typedef struct mock_memory {
  unsigned char *bytes;
  VkDeviceSize size;
  bool mapped;
  bool exported;
} mock_memory;

typedef struct mock_buffer {
  mock_memory *memory;
  VkDeviceSize size;
} mock_buffer;

typedef struct mock_fence {
  bool pending, signalled; /* under the device's lock */
} mock_fence;

typedef struct mock_copy {
  mock_buffer *from, *to; /* from NULL: a fill with word */
  VkBufferCopy region;
  uint32_t word;
} mock_copy;

typedef struct mock_pool mock_pool;

typedef struct mock_commands {
  void *key; /* the loader's, which puts it there */
  mock_device *device;
  mock_pool *pool;
  struct mock_commands *next;
  bool pending;
  bool is_ordered; /* a barrier came since the last copy */
  const void *pipeline, *set; /* bound, or NULL */
  uint32_t copy_count;
  mock_copy copies[MAX_COPIES];
} mock_commands;

struct mock_pool {
  mock_commands *first; /* under its user's lock, as Vulkan wants it */
};

typedef struct mock_job {
  mock_commands *commands;
  mock_fence *fence;
  struct mock_job *next;
} mock_job;

struct mock_device {
  void *key;
  struct {
    void *key;
  } queue;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t worker;
  mock_job *first, **last;
  bool lost, held, closing;
  uint32_t unfinished; /* jobs; under the lock */
  atomic_int children;
};

static atomic_llong objects;
static _Thread_local bool refuses;

void mock_refuse(bool on) { refuses = on; }

int64_t mock_objects(void) { return atomic_load(&objects); }

static void *make(size_t size, mock_device *owner) {
  void *made = calloc(1, size);
  CHECK(made, "out of memory");
  atomic_fetch_add_explicit(&objects, 1, memory_order_relaxed);
  if (owner) atomic_fetch_add_explicit(&owner->children, 1, memory_order_relaxed);
  return made;
}

static void drop(void *thing, mock_device *owner) {
  if (!thing) return;
  atomic_fetch_sub_explicit(&objects, 1, memory_order_relaxed);
  if (owner) atomic_fetch_sub_explicit(&owner->children, 1, memory_order_relaxed);
  free(thing);
}

#define DEVICE(handle) ((mock_device *)(handle))

static void run(const mock_copy *copy) {
  unsigned char *to = copy->to->memory->bytes + copy->region.dstOffset;
  if (copy->from) memmove(to, copy->from->memory->bytes + copy->region.srcOffset, copy->region.size);
  for (VkDeviceSize i = 0; !copy->from && i < copy->region.size; i += 4) memcpy(to + i, &copy->word, 4);
}

/* Reads a byte of what must be there still. */
static void touch(const void *thing) { (void)*(const volatile unsigned char *)thing; }

static void *work(void *argument) {
  mock_device *device = argument;
  pthread_mutex_lock(&device->lock);
  while (true) {
    while (!device->closing && (!device->first || device->held)) pthread_cond_wait(&device->changed, &device->lock);
    mock_job *job = device->first;
    if (!job) break;
    device->first = job->next;
    if (!device->first) device->last = &device->first;
    pthread_mutex_unlock(&device->lock);
    if (job->commands && job->commands->pipeline) {
      touch(job->commands->pipeline);
      touch(job->commands->set);
    }
    for (uint32_t i = 0; job->commands && i < job->commands->copy_count; i++) run(&job->commands->copies[i]);
    pthread_mutex_lock(&device->lock);
    if (job->commands) job->commands->pending = false;
    job->fence->pending = false;
    job->fence->signalled = true;
    device->unfinished--;
    pthread_cond_broadcast(&device->changed);
    free(job);
  }
  pthread_mutex_unlock(&device->lock);
  return NULL;
}

static VkResult create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *a, VkInstance *out) {
  (void)info, (void)a;
  if (refuses) return VK_ERROR_OUT_OF_HOST_MEMORY;
  mock_instance *made = make(sizeof *made, NULL);
  made->key = made->physical.key = made;
  *out = (VkInstance)made;
  return VK_SUCCESS;
}

static void destroy_instance(VkInstance handle, const VkAllocationCallbacks *a) {
  (void)a;
  drop(handle, NULL);
}

static VkResult enumerate(VkInstance handle, uint32_t *count, VkPhysicalDevice *out) {
  if (out && *count) out[0] = (VkPhysicalDevice)&((mock_instance *)handle)->physical;
  *count = 1;
  return VK_SUCCESS;
}

static void properties(VkPhysicalDevice handle, VkPhysicalDeviceProperties *out) {
  (void)handle;
  memset(out, 0, sizeof *out);
  out->apiVersion = VK_API_VERSION_1_3;
}

static void properties2(VkPhysicalDevice handle, VkPhysicalDeviceProperties2 *out) {
  properties(handle, &out->properties);
  for (VkBaseOutStructure *next = out->pNext; next; next = next->pNext) {
    VkPhysicalDeviceIDProperties *identity = (VkPhysicalDeviceIDProperties *)next;
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES) memset(identity->deviceUUID, 7, VK_UUID_SIZE);
  }
}

static void features(VkPhysicalDevice handle, VkPhysicalDeviceFeatures *out) {
  (void)handle;
  memset(out, 0, sizeof *out);
  out->shaderFloat64 = out->shaderInt64 = VK_TRUE;
}

static void features2(VkPhysicalDevice handle, VkPhysicalDeviceFeatures2 *out) { features(handle, &out->features); }

static void memory_properties(VkPhysicalDevice handle, VkPhysicalDeviceMemoryProperties *out) {
  (void)handle;
  memset(out, 0, sizeof *out);
  out->memoryTypeCount = out->memoryHeapCount = 1;
  out->memoryHeaps[0] = (VkMemoryHeap){1 << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
  out->memoryTypes[0].propertyFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                      VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
}

static VkResult create_device(
    VkPhysicalDevice physical, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *a, VkDevice *out) {
  (void)physical, (void)info, (void)a;
  if (refuses) return VK_ERROR_OUT_OF_HOST_MEMORY;
  mock_device *made = make(sizeof *made, NULL);
  made->key = made->queue.key = made;
  made->last = &made->first;
  pthread_mutex_init(&made->lock, NULL);
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&made->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  CHECK(pthread_create(&made->worker, NULL, work, made) == 0, "no thread");
  *out = (VkDevice)made;
  return VK_SUCCESS;
}

static void destroy_device(VkDevice handle, const VkAllocationCallbacks *a) {
  (void)a;
  mock_device *device = DEVICE(handle);
  pthread_mutex_lock(&device->lock);
  CHECK(!device->first || device->lost, "the device is destroyed with work in its queue");
  device->closing = true;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->lock);
  pthread_join(device->worker, NULL);
  CHECK(atomic_load(&device->children) == 0, "objects outlive their device");
  pthread_mutex_destroy(&device->lock);
  pthread_cond_destroy(&device->changed);
  drop(device, NULL);
}

static void get_queue(VkDevice handle, uint32_t family, uint32_t index, VkQueue *out) {
  CHECK(family == MOCK_FAMILY && index == 0, "the device was made with another queue");
  *out = (VkQueue)&DEVICE(handle)->queue;
}

void mock_lose(VkDevice handle) {
  mock_device *device = DEVICE(handle);
  pthread_mutex_lock(&device->lock);
  device->lost = true;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->lock);
}

void mock_hold(VkDevice handle, bool on) {
  mock_device *device = DEVICE(handle);
  pthread_mutex_lock(&device->lock);
  device->held = on;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->lock);
}

static VkResult queue_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence) {
  mock_device *device = *(mock_device **)queue;
  CHECK(fence && (count == 0 || (count == 1 && infos->commandBufferCount == 1)), "a submission has one command buffer at most");
  mock_job *job = calloc(1, sizeof *job);
  CHECK(job, "out of memory");
  *job = (mock_job){count ? (mock_commands *)infos->pCommandBuffers[0] : NULL, (mock_fence *)fence, NULL};
  pthread_mutex_lock(&device->lock);
  bool lost = device->lost;
  if (!lost) {
    CHECK(!job->fence->pending && !job->fence->signalled, "a fence is submitted that is not reset");
    CHECK(!job->commands || !job->commands->pending, "a command buffer is submitted that is running");
    job->fence->pending = true;
    if (job->commands) job->commands->pending = true;
    *device->last = job;
    device->last = &job->next;
    device->unfinished++;
    pthread_cond_broadcast(&device->changed);
  }
  pthread_mutex_unlock(&device->lock);
  if (lost) free(job);
  return lost ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
}

static VkResult device_wait_idle(VkDevice d) {
  mock_device *device = DEVICE(d);
  pthread_mutex_lock(&device->lock);
  while (!device->lost && device->unfinished) pthread_cond_wait(&device->changed, &device->lock);
  bool lost = device->lost;
  pthread_mutex_unlock(&device->lock);
  return lost ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
}

static VkResult create_fence(VkDevice d, const VkFenceCreateInfo *info, const VkAllocationCallbacks *a, VkFence *out) {
  (void)info, (void)a;
  *out = (VkFence)make(sizeof(mock_fence), DEVICE(d));
  return VK_SUCCESS;
}

/* Under Vulkan's rule a fence in use may be neither reset nor destroyed; on a lost device it may. */
static void check_idle(mock_device *device, const bool *pending, const char *text) {
  pthread_mutex_lock(&device->lock);
  while (device->lost && *pending) pthread_cond_wait(&device->changed, &device->lock);
  CHECK(!*pending, text);
  pthread_mutex_unlock(&device->lock);
}

static void destroy_fence(VkDevice d, VkFence fence, const VkAllocationCallbacks *a) {
  (void)a;
  check_idle(DEVICE(d), &((mock_fence *)fence)->pending, "a fence is destroyed that is in use");
  drop(fence, DEVICE(d));
}

static VkResult reset_fences(VkDevice d, uint32_t count, const VkFence *fences) {
  for (uint32_t i = 0; i < count; i++) {
    mock_fence *fence = (mock_fence *)fences[i];
    check_idle(DEVICE(d), &fence->pending, "a fence is reset that is in use");
    pthread_mutex_lock(&DEVICE(d)->lock);
    fence->signalled = false;
    pthread_mutex_unlock(&DEVICE(d)->lock);
  }
  return VK_SUCCESS;
}

static VkResult fence_status(VkDevice d, VkFence fence) {
  pthread_mutex_lock(&DEVICE(d)->lock);
  bool lost = DEVICE(d)->lost, signalled = ((mock_fence *)fence)->signalled;
  pthread_mutex_unlock(&DEVICE(d)->lock);
  return lost ? VK_ERROR_DEVICE_LOST : signalled ? VK_SUCCESS : VK_NOT_READY;
}

static VkResult wait_fences(VkDevice d, uint32_t count, const VkFence *fences, VkBool32 all, uint64_t timeout_ns) {
  (void)all;
  mock_device *device = DEVICE(d);
  struct timespec end;
  CHECK(count == 1, "a wait is for one fence");
  clock_gettime(CLOCK_MONOTONIC, &end);
  uint64_t ns = timeout_ns > UINT64_C(60000000000) ? UINT64_C(60000000000) : timeout_ns;
  ns += (uint64_t)end.tv_nsec;
  end.tv_sec += (time_t)(ns / 1000000000);
  end.tv_nsec = (long)(ns % 1000000000);
  int timed_out = 0;
  pthread_mutex_lock(&device->lock);
  const mock_fence *fence = (const mock_fence *)fences[0];
  while (!device->lost && !fence->signalled && !timed_out) {
    timed_out = pthread_cond_timedwait(&device->changed, &device->lock, &end);
  }
  VkResult result = device->lost ? VK_ERROR_DEVICE_LOST : fence->signalled ? VK_SUCCESS : VK_TIMEOUT;
  pthread_mutex_unlock(&device->lock);
  CHECK(result != VK_TIMEOUT || timeout_ns != UINT64_MAX, "a wait for ever hangs");
  return result;
}

static VkResult allocate(VkDevice d, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *a, VkDeviceMemory *out) {
  (void)a;
  mock_memory *made = make(sizeof *made, DEVICE(d));
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
  drop(memory, DEVICE(d));
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
  mock_buffer *made = make(sizeof *made, DEVICE(d));
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

static void update_sets(
    VkDevice d, uint32_t writes, const VkWriteDescriptorSet *write, uint32_t copies, const VkCopyDescriptorSet *copy) {
  (void)d, (void)copies, (void)copy;
  for (uint32_t i = 0; i < writes; i++) {
    const VkDescriptorBufferInfo *info = write[i].pBufferInfo;
    VkDeviceSize size = ((mock_buffer *)info->buffer)->size;
    CHECK(info->offset < size, "a range begins past its buffer");
    CHECK(info->range == VK_WHOLE_SIZE || info->range <= size - info->offset, "a range ends past its buffer");
  }
}

#define PLAIN(name, Type) \
  static VkResult create_##name(VkDevice d, const Vk##Type##CreateInfo *info, const VkAllocationCallbacks *a, Vk##Type *out) { \
    (void)info, (void)a; \
    *out = (Vk##Type)make(16, DEVICE(d)); \
    return VK_SUCCESS; \
  } \
  static void destroy_##name(VkDevice d, Vk##Type thing, const VkAllocationCallbacks *a) { \
    (void)a; \
    drop((void *)thing, DEVICE(d)); \
  }
PLAIN(module, ShaderModule)
PLAIN(set_layout, DescriptorSetLayout)
PLAIN(pipeline_layout, PipelineLayout)
PLAIN(cache, PipelineCache)
PLAIN(descriptor_pool, DescriptorPool)

static VkResult allocate_sets(VkDevice d, const VkDescriptorSetAllocateInfo *info, VkDescriptorSet *out) {
  (void)d;
  CHECK(info->descriptorSetCount == 1, "one set comes from a pool");
  *out = (VkDescriptorSet)info->descriptorPool;
  return VK_SUCCESS;
}

static VkResult reset_descriptor_pool(VkDevice d, VkDescriptorPool pool, VkDescriptorPoolResetFlags flags) {
  (void)d, (void)flags;
  memset((void *)pool, 0, 16);
  return VK_SUCCESS;
}

static void destroy_buffer(VkDevice d, VkBuffer buffer, const VkAllocationCallbacks *a) {
  (void)a;
  drop(buffer, DEVICE(d));
}

static VkResult cache_data(VkDevice d, VkPipelineCache cache, size_t *size, void *out) {
  (void)d, (void)cache;
  if (out) memset(out, 9, *size);
  VkResult result = out && *size < BLOB_BYTES ? VK_INCOMPLETE : VK_SUCCESS;
  *size = BLOB_BYTES;
  return result;
}

static VkResult create_pipelines(
    VkDevice d, VkPipelineCache cache, uint32_t count, const VkComputePipelineCreateInfo *infos,
    const VkAllocationCallbacks *a, VkPipeline *out) {
  (void)cache, (void)a;
  for (const VkBaseInStructure *next = infos->pNext; next; next = next->pNext) {
    const VkPipelineCreationFeedbackCreateInfo *feedback = (const VkPipelineCreationFeedbackCreateInfo *)next;
    if (next->sType == VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO) {
      feedback->pPipelineCreationFeedback->flags = VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT;
    }
  }
  for (uint32_t i = 0; i < count; i++) out[i] = (VkPipeline)make(16, DEVICE(d));
  return VK_SUCCESS;
}

static void destroy_pipeline(VkDevice d, VkPipeline pipeline, const VkAllocationCallbacks *a) {
  (void)a;
  drop((void *)pipeline, DEVICE(d));
}

static VkResult create_pool(VkDevice d, const VkCommandPoolCreateInfo *info, const VkAllocationCallbacks *a, VkCommandPool *out) {
  (void)a;
  CHECK(info->flags & VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, "what is recorded again cannot be reset");
  CHECK(info->queueFamilyIndex == MOCK_FAMILY, "a pool is for another queue");
  *out = (VkCommandPool)make(sizeof(mock_pool), DEVICE(d));
  return VK_SUCCESS;
}

static VkResult allocate_commands(VkDevice d, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out) {
  CHECK(info->commandBufferCount == 1 && info->commandPool, "one command buffer comes from a pool");
  mock_commands *made = make(sizeof *made, DEVICE(d));
  made->device = DEVICE(d);
  made->pool = (mock_pool *)info->commandPool;
  made->next = made->pool->first;
  made->pool->first = made;
  *out = (VkCommandBuffer)made;
  return VK_SUCCESS;
}

static void free_commands(VkDevice d, VkCommandPool pool, uint32_t count, const VkCommandBuffer *buffers) {
  for (uint32_t i = 0; i < count; i++) {
    mock_commands *commands = (mock_commands *)buffers[i], **at = &commands->pool->first;
    CHECK(commands->pool == (mock_pool *)pool, "a command buffer is freed into another pool");
    check_idle(DEVICE(d), &commands->pending, "a command buffer is freed that is in use");
    while (*at != commands) at = &(*at)->next;
    *at = commands->next;
    drop(commands, DEVICE(d));
  }
}

static void destroy_pool(VkDevice d, VkCommandPool handle, const VkAllocationCallbacks *a) {
  (void)a;
  mock_pool *pool = (mock_pool *)handle;
  while (pool->first) {
    VkCommandBuffer first = (VkCommandBuffer)pool->first;
    free_commands(d, handle, 1, &first);
  }
  drop(pool, DEVICE(d));
}

static VkResult reset_pool(VkDevice d, VkCommandPool handle, VkCommandPoolResetFlags flags) {
  (void)flags;
  for (mock_commands *one = ((mock_pool *)handle)->first; one; one = one->next) {
    check_idle(DEVICE(d), &one->pending, "a command pool is reset whose work is running");
    one->copy_count = 0;
  }
  return VK_SUCCESS;
}

static VkResult begin_commands(VkCommandBuffer buffer, const VkCommandBufferBeginInfo *info) {
  (void)info;
  mock_commands *commands = (mock_commands *)buffer;
  CHECK(commands->key, "a command buffer is recorded that the loader has not seen");
  check_idle(commands->device, &commands->pending, "a command buffer is recorded that is in use");
  commands->copy_count = 0;
  commands->is_ordered = false;
  commands->pipeline = commands->set = NULL;
  return VK_SUCCESS;
}

static VkResult end_commands(VkCommandBuffer buffer) {
  (void)buffer;
  return VK_SUCCESS;
}

static void bind_pipeline(VkCommandBuffer buffer, VkPipelineBindPoint point, VkPipeline pipeline) {
  CHECK(point == VK_PIPELINE_BIND_POINT_COMPUTE, "a pipeline is bound that is not for compute");
  ((mock_commands *)buffer)->pipeline = (const void *)pipeline;
  touch((const void *)pipeline);
}

static void bind_sets(
    VkCommandBuffer buffer, VkPipelineBindPoint point, VkPipelineLayout layout, uint32_t first, uint32_t count,
    const VkDescriptorSet *sets, uint32_t offset_count, const uint32_t *offsets) {
  (void)offsets;
  CHECK(point == VK_PIPELINE_BIND_POINT_COMPUTE && !first && count == 1 && !offset_count, "a set is bound elsewhere");
  ((mock_commands *)buffer)->set = (const void *)*sets;
  touch((const void *)layout);
  touch((const void *)*sets);
}

static void push(
    VkCommandBuffer buffer, VkPipelineLayout layout, VkShaderStageFlags stages, uint32_t offset, uint32_t size, const void *data) {
  (void)buffer;
  touch((const void *)layout);
  CHECK(stages == VK_SHADER_STAGE_COMPUTE_BIT && !offset && size && size % 4 == 0, "push constants are not those of the layout");
  for (uint32_t i = 0; i < size; i++) touch((const unsigned char *)data + i);
}

static void dispatch(VkCommandBuffer buffer, uint32_t x, uint32_t y, uint32_t z) {
  CHECK(x && y && z, "a dispatch of nothing");
  CHECK(!((mock_commands *)buffer)->pipeline || ((mock_commands *)buffer)->is_ordered, "a dispatch waits for nothing before it");
}

static void note(VkCommandBuffer buffer, mock_copy copy) {
  mock_commands *commands = (mock_commands *)buffer;
  CHECK(commands->copy_count < MAX_COPIES, "too many copies");
  CHECK(commands->is_ordered, "a copy does not wait for what is before it");
  CHECK(copy.region.size && copy.region.dstOffset + copy.region.size <= copy.to->size, "a copy ends past its buffer");
  CHECK(!copy.from || copy.region.srcOffset + copy.region.size <= copy.from->size, "a copy begins past its buffer");
  commands->copies[commands->copy_count++] = copy;
  commands->is_ordered = false;
}

static void copy(VkCommandBuffer buffer, VkBuffer from, VkBuffer to, uint32_t count, const VkBufferCopy *regions) {
  CHECK(count == 1, "a copy has one region");
  note(buffer, (mock_copy){(mock_buffer *)from, (mock_buffer *)to, *regions, 0});
}

static void fill(VkCommandBuffer buffer, VkBuffer to, VkDeviceSize offset, VkDeviceSize size, uint32_t word) {
  CHECK((offset | size) % 4 == 0, "a fill is not of words");
  note(buffer, (mock_copy){NULL, (mock_buffer *)to, {0, offset, size}, word});
}

static void reset_queries(VkCommandBuffer buffer, VkQueryPool pool, uint32_t first, uint32_t count) {
  (void)buffer, (void)pool, (void)first, (void)count;
}

static void write_timestamp(VkCommandBuffer buffer, VkPipelineStageFlagBits stage, VkQueryPool pool, uint32_t query) {
  (void)buffer, (void)stage, (void)pool, (void)query;
}

static void barrier(
    VkCommandBuffer buffer, VkPipelineStageFlags from, VkPipelineStageFlags to, VkDependencyFlags flags, uint32_t memories,
    const VkMemoryBarrier *memory, uint32_t buffers, const VkBufferMemoryBarrier *of_buffers, uint32_t images,
    const VkImageMemoryBarrier *of_images) {
  (void)from, (void)to, (void)flags, (void)memories, (void)memory, (void)buffers, (void)of_buffers, (void)images;
  (void)of_images;
  ((mock_commands *)buffer)->is_ordered = true;
}

#define NAMED(vulkan, ours) \
  if (strcmp(name, "vk" #vulkan) == 0) return (PFN_vkVoidFunction)(PFN_vk##vulkan)ours;

PFN_vkVoidFunction mock_instance_proc(VkInstance instance, const char *name) {
  (void)instance;
  NAMED(CreateInstance, create_instance)
  NAMED(DestroyInstance, destroy_instance)
  NAMED(EnumeratePhysicalDevices, enumerate)
  NAMED(GetPhysicalDeviceProperties, properties)
  NAMED(GetPhysicalDeviceProperties2, properties2)
  NAMED(GetPhysicalDeviceFeatures, features)
  NAMED(GetPhysicalDeviceFeatures2, features2)
  NAMED(GetPhysicalDeviceMemoryProperties, memory_properties)
  NAMED(CreateDevice, create_device)
  return NULL;
}

PFN_vkVoidFunction mock_device_proc(VkDevice device, const char *name) {
  (void)device;
  NAMED(DestroyDevice, destroy_device)
  NAMED(GetDeviceQueue, get_queue)
  NAMED(QueueSubmit, queue_submit)
  NAMED(CreateFence, create_fence)
  NAMED(DestroyFence, destroy_fence)
  NAMED(ResetFences, reset_fences)
  NAMED(GetFenceStatus, fence_status)
  NAMED(WaitForFences, wait_fences)
  NAMED(DeviceWaitIdle, device_wait_idle)
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
  NAMED(UpdateDescriptorSets, update_sets)
  NAMED(CreateShaderModule, create_module)
  NAMED(DestroyShaderModule, destroy_module)
  NAMED(CreateDescriptorSetLayout, create_set_layout)
  NAMED(DestroyDescriptorSetLayout, destroy_set_layout)
  NAMED(CreatePipelineLayout, create_pipeline_layout)
  NAMED(DestroyPipelineLayout, destroy_pipeline_layout)
  NAMED(CreatePipelineCache, create_cache)
  NAMED(DestroyPipelineCache, destroy_cache)
  NAMED(GetPipelineCacheData, cache_data)
  NAMED(CreateComputePipelines, create_pipelines)
  NAMED(DestroyPipeline, destroy_pipeline)
  NAMED(CreateDescriptorPool, create_descriptor_pool)
  NAMED(DestroyDescriptorPool, destroy_descriptor_pool)
  NAMED(ResetDescriptorPool, reset_descriptor_pool)
  NAMED(AllocateDescriptorSets, allocate_sets)
  NAMED(CmdBindPipeline, bind_pipeline)
  NAMED(CmdBindDescriptorSets, bind_sets)
  NAMED(CmdPushConstants, push)
  NAMED(CreateCommandPool, create_pool)
  NAMED(DestroyCommandPool, destroy_pool)
  NAMED(ResetCommandPool, reset_pool)
  NAMED(AllocateCommandBuffers, allocate_commands)
  NAMED(FreeCommandBuffers, free_commands)
  NAMED(BeginCommandBuffer, begin_commands)
  NAMED(EndCommandBuffer, end_commands)
  NAMED(CmdDispatch, dispatch)
  NAMED(CmdCopyBuffer, copy)
  NAMED(CmdFillBuffer, fill)
  NAMED(CmdPipelineBarrier, barrier)
  NAMED(CmdResetQueryPool, reset_queries)
  NAMED(CmdWriteTimestamp, write_timestamp)
  return NULL;
}
