/* Plays the Vulkan loader, kompute and Python above the layer, from many threads, with the mock driver below.

   Usage: harness ROUNDS. Ends with status 0 and "done", or aborts; the sanitizer that it was built with watches. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exports.h"
#include "host_copy.h"
#include "layer.h"
#include "mock_driver.h"
#include "taken.h"

#define THREADS 8
#define DEVICES_OF_A_THREAD 17 /* 136 in all: past twice what a table begins with */
#define BUFFER_BYTES 1000
#define MAILBOX 4
#define ALL_HOOKS ((UINT32_C(1) << VYRE_HOOK_COUNT) - 1)
#define CHECK(rule) \
  do { \
    if (!(rule)) { \
      fprintf(stderr, "harness: line %d: %s\n", __LINE__, #rule); \
      abort(); \
    } \
  } while (0)

VkResult vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *version);

/* The layer lets the GIL go in a blocking wait; there is no Python here. */
int Py_IsInitialized(void) { return 0; }
int PyGILState_Check(void) { return 0; }
void *PyEval_SaveThread(void) { return NULL; }
void PyEval_RestoreThread(void *state) { (void)state; }

static VkNegotiateLayerInterface layer;
static uint64_t rounds;

/* Work that nobody has waited for, and what it runs on. */
typedef struct sequence {
  VkCommandPool pool;
  VkCommandBuffer commands;
  VkFence fence;
} sequence;

typedef struct tensor {
  VkBuffer buffer;
  VkDeviceMemory memory;
  unsigned char *bytes;
} tensor;

/* A copy of our own, that nobody has waited for. */
typedef struct transfer {
  VkCommandBuffer commands;
  VkFence fence;
} transfer;

typedef struct parcel {
  bool full;
  sequence work;
  transfer part;
  tensor from, to;
  unsigned char mark;
} parcel;

typedef struct app {
  VkInstance instance;
  VkDevice device;
  VkQueue queue;
  vyre_device *face; /* what Python holds */
  bool may_fail;     /* failures are injected, or the device is lost */
  pthread_mutex_t lock;
  parcel mailbox[MAILBOX];
#define X(name) PFN_vk##name name;
  VYRE_DEVICE_CALLS(X)
#undef X
} app;

static vyre_config config_of(uint64_t poll_ns, uint64_t cache_bytes) {
  vyre_config config = {.hooks = ALL_HOOKS, .api_version = VK_API_VERSION_1_3, .poll_ns = poll_ns};
  config.memory_cache_bytes = cache_bytes;
  config.features = UINT64_C(3) << vyre_feature_index("shaderFloat64");
  memset(config.device_uuid, 7, sizeof config.device_uuid);
  return config;
}

static VkResult open_instance(app *a) {
  VkLayerInstanceLink link = {NULL, mock_instance_proc, NULL};
  VkLayerInstanceCreateInfo chain = {.sType = VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO, .function = VK_LAYER_LINK_INFO};
  chain.u.pLayerInfo = &link;
  VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pNext = &chain};
  PFN_vkCreateInstance create = (PFN_vkCreateInstance)layer.pfnGetInstanceProcAddr(NULL, "vkCreateInstance");
  return create(&info, NULL, &a->instance);
}

#define OF_INSTANCE(a, name) ((PFN_vk##name)layer.pfnGetInstanceProcAddr((a)->instance, "vk" #name))

static void close_instance(app *a) { OF_INSTANCE(a, DestroyInstance)(a->instance, NULL); }

static VkPhysicalDevice open_armed_instance(app *a, uint64_t poll_ns, uint64_t cache_bytes) {
  static _Thread_local vyre_config config;
  config = config_of(poll_ns, cache_bytes);
  memset(a, 0, sizeof *a);
  vyre_this_thread()->failure.call = VYRE_CALL_NONE;
  pthread_mutex_init(&a->lock, NULL);
  vyre_arm(&config);
  CHECK(vyre_tell_loader("VK_LAYER_PATH", "/nowhere"));
  CHECK(open_instance(a) == VK_SUCCESS);
  uint32_t count = 1;
  VkPhysicalDevice physical;
  CHECK(OF_INSTANCE(a, EnumeratePhysicalDevices)(a->instance, &count, &physical) == VK_SUCCESS && count == 1);
  return physical;
}

/* The loader puts a pointer to its dispatch table into each dispatchable object. */
static VkResult set_loader_data(VkDevice device, void *object) {
  *(void **)object = *(void **)device;
  return VK_SUCCESS;
}

static VkResult open_device(app *a, VkPhysicalDevice physical) {
  VkLayerDeviceLink link = {NULL, mock_instance_proc, mock_device_proc};
  VkLayerDeviceCreateInfo data = {.sType = VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO, .function = VK_LOADER_DATA_CALLBACK};
  VkLayerDeviceCreateInfo chain = {.sType = VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO, .function = VK_LAYER_LINK_INFO};
  data.u.pfnSetDeviceLoaderData = set_loader_data;
  chain.pNext = &data;
  chain.u.pLayerInfo = &link;
  VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = &chain};
  return OF_INSTANCE(a, CreateDevice)(physical, &info, NULL, &a->device);
}

static void open_app(app *a, uint64_t poll_ns, uint64_t cache_bytes) {
  CHECK(open_device(a, open_armed_instance(a, poll_ns, cache_bytes)) == VK_SUCCESS);
  a->face = vyre_disarm();
  CHECK(a->face && vyre_is_alive(a->face) && !vyre_is_lost(a->face));
#define X(name) \
  a->name = (PFN_vk##name)layer.pfnGetDeviceProcAddr(a->device, "vk" #name); \
  CHECK(a->name || strstr(#name, "EXT")); /* the mock driver has no extensions */
  VYRE_DEVICE_CALLS(X)
#undef X
  a->GetDeviceQueue(a->device, MOCK_FAMILY, 0, &a->queue);
}

static void close_app(app *a) {
  VkResult idle = vyre_wait_idle(a->face);
  CHECK(idle == VK_SUCCESS || (idle == VK_ERROR_DEVICE_LOST && a->may_fail));
  a->DestroyDevice(a->device, NULL);
  close_instance(a);
  pthread_mutex_destroy(&a->lock);
  CHECK(!vyre_is_alive(a->face));
  vyre_release(a->face);
}

/* As kompute does, on with null handles after a failure; then nothing is left of it. Returns whether it is whole. */
static bool make_tensor(app *a, tensor *t) {
  VkBufferCreateInfo buffer = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = BUFFER_BYTES, .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
  VkMemoryAllocateInfo memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  VkMemoryRequirements needs;
  void *bytes = NULL;
  memset(t, 0, sizeof *t);
  vyre_watch();
  vyre_this_thread()->exact_bytes = BUFFER_BYTES - 1;
  (void)a->CreateBuffer(a->device, &buffer, NULL, &t->buffer);
  vyre_this_thread()->exact_bytes = 0;
  a->GetBufferMemoryRequirements(a->device, t->buffer, &needs);
  memory.allocationSize = needs.size;
  (void)a->AllocateMemory(a->device, &memory, NULL, &t->memory);
  (void)a->BindBufferMemory(a->device, t->buffer, t->memory, 0);
  VkResult mapped = a->MapMemory(a->device, t->memory, 0, BUFFER_BYTES, 0, &bytes);
  t->bytes = bytes;
  bool whole = vyre_this_thread()->failure.call == VYRE_CALL_NONE;
  CHECK(whole == (t->buffer && t->memory && mapped == VK_SUCCESS) || a->may_fail);
  whole = whole && mapped == VK_SUCCESS;
  if (!whole) {
    vyre_destroy_watched(a->face);
    memset(t, 0, sizeof *t);
  }
  vyre_this_thread()->watched = false;
  return whole;
}

static void drop_tensor(app *a, tensor *t) {
  if (t->bytes) a->UnmapMemory(a->device, t->memory);
  if (t->buffer) a->DestroyBuffer(a->device, t->buffer, NULL);
  a->FreeMemory(a->device, t->memory, NULL);
}

/* As a bound kernel runs from Python: in one part where another thread is in the way of the first. */
static void run_in_parts(app *a, VkCommandBuffer commands) {
  VkFence fence = VK_NULL_HANDLE;
  VkResult result = VK_SUCCESS;
  if (!vyre_begin_run(a->face, commands, &fence, &result)) {
    result = vyre_run_commands(a->face, commands, 100000, &fence);
  } else if (result == VK_SUCCESS) {
    result = vyre_end_run(a->face, 100000, &fence);
  }
  CHECK(result == VK_SUCCESS ? !fence : fence || a->may_fail);
  while (fence && (result = vyre_finish(a->face, &fence, 100000)) == VK_TIMEOUT) continue;
  if (fence) vyre_give_fence_back(a->face, fence);
}

/* A dispatch of the layer's own, of the pipeline that this thread made last; with copies beside it or without. */
static void dispatch_twice(app *a, uint32_t kind, const tensor *bound) {
  static const uint32_t pushed[3] = {1, 2, 3};
  const vyre_region copies[] = {{bound->buffer, 0, bound->buffer, 512, 64, 0}, {bound->buffer, 512, bound->buffer, 0, 64, 0}};
  vyre_dispatch what = {
      .bound = vyre_this_thread()->bound, .groups = {1, 2, 3}, .push = pushed, .push_bytes = kind & 1 ? sizeof pushed : 0};
  if (kind % 4 == 2) what.copies = (vyre_copies){copies, 1, copies + 1, 1};
  VkCommandBuffer commands = NULL;
  vyre_bound kept, other = {0};
  CHECK(vyre_keep_bound(a->face, &what.bound, &kept));
  const vyre_range_of part = {bound->buffer, {0, BUFFER_BYTES / 2}}, past = {bound->buffer, {8, UINT64_MAX}};
  CHECK(vyre_part_fits(a->face, &part) && !vyre_part_fits(a->face, &past));
  VkResult result = vyre_bind_buffers(a->face, &kept, &part, 1, &other);
  CHECK((result == VK_SUCCESS) == (other.set != VK_NULL_HANDLE) && (other.set || a->may_fail));
  vyre_drop_bound(a->face, &kept);
  if (!other.set) return;
  if (kind % 3) what.bound = other;
  result = vyre_record_dispatch(a->face, &what, kind % 2, &commands);
  CHECK((result == VK_SUCCESS) == (commands != NULL) && (commands || a->may_fail));
  for (int turn = 0; turn < 2 && commands; turn++) {
    VkFence fence = VK_NULL_HANDLE;
    CHECK(vyre_enter(a->face));
    result = vyre_submit_commands(a->face, commands, &fence);
    vyre_leave(a->face);
    CHECK((result == VK_SUCCESS) == (fence != VK_NULL_HANDLE) && (fence || a->may_fail));
    while (fence && vyre_wait_fence(a->face, fence, 100000) == VK_TIMEOUT) continue;
    if (fence) vyre_give_fence_back(a->face, fence);
  }
  if (commands) run_in_parts(a, commands);
  vyre_drop_transfer(a->face, commands);
  vyre_drop_bound(a->face, &other);
}

/* One kompute algorithm: an entry's blob goes in, the new one comes out. Refused, it forgets all that it has made. */
static void make_and_drop_pipeline(app *a, uint32_t kind, const tensor *bound) {
  static const char saved[64] = "blob";
  const uint32_t code[4] = {0x07230203, kind, kind * 3, kind * 5};
  VkShaderModuleCreateInfo shader = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof code, .pCode = code};
  VkDescriptorSetLayoutBinding binding = {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL};
  VkDescriptorSetLayoutCreateInfo set = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 1, .pBindings = &binding};
  VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 4};
  VkPipelineLayoutCreateInfo layout = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1, .pushConstantRangeCount = kind & 1};
  VkPipelineCacheCreateInfo cache = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  VkComputePipelineCreateInfo pipeline = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  VkShaderModule made_shader;
  VkDescriptorSetLayout made_set;
  VkPipelineLayout made_layout;
  VkPipelineCache made_cache;
  VkPipeline made;
  vyre_thread *thread = vyre_this_thread();
  layout.pPushConstantRanges = &range;
  vyre_watch();
  VkDescriptorPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = 1};
  VkDescriptorPool made_pool;
  CHECK(a->CreateDescriptorPool(a->device, &pool, NULL, &made_pool) == VK_SUCCESS);
  CHECK(a->CreateDescriptorSetLayout(a->device, &set, NULL, &made_set) == VK_SUCCESS);
  VkDescriptorSetAllocateInfo sets = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .descriptorPool = made_pool, .descriptorSetCount = 1,
      .pSetLayouts = &made_set};
  VkDescriptorSet made_descriptors;
  CHECK(a->AllocateDescriptorSets(a->device, &sets, &made_descriptors) == VK_SUCCESS);
  const vyre_range seen = {kind * 6, BUFFER_BYTES / 2};
  VkDescriptorBufferInfo info = {bound->buffer, 0, VK_WHOLE_SIZE};
  thread->ranges = kind % 3 ? &seen : NULL;
  thread->range_count = 1;
  thread->ranges_written = thread->ranges_missed = 0;
  VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .descriptorCount = 1, .pBufferInfo = &info};
  write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  a->UpdateDescriptorSets(a->device, 1, &write, 0, NULL);
  bool fits = kind * 6 <= BUFFER_BYTES / 2;
  CHECK(thread->ranges_written == (kind % 3 && fits) && thread->ranges_missed == (kind % 3 && !fits));
  thread->ranges = NULL;
  layout.pSetLayouts = &made_set;
  CHECK(a->CreateShaderModule(a->device, &shader, NULL, &made_shader) == VK_SUCCESS);
  CHECK(a->CreatePipelineLayout(a->device, &layout, NULL, &made_layout) == VK_SUCCESS);
  thread->blob_in = saved;
  thread->blob_in_bytes = sizeof saved;
  thread->want_blob = true;
  CHECK(a->CreatePipelineCache(a->device, &cache, NULL, &made_cache) == VK_SUCCESS);
  pipeline.stage = (VkPipelineShaderStageCreateInfo){
      .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .module = made_shader, .pName = "main"};
  pipeline.layout = made_layout;
  VkResult result = a->CreateComputePipelines(a->device, made_cache, 1, &pipeline, NULL, &made);
  CHECK((result == VK_SUCCESS) == (made != VK_NULL_HANDLE) && (made || a->may_fail));
  CHECK(!made || thread->pipeline.shared || thread->blob_out_bytes == 100);
  free(thread->blob_out);
  thread->blob_out = NULL;
  thread->blob_out_bytes = thread->blob_in_bytes = 0;
  thread->blob_in = NULL;
  thread->want_blob = false;
  if (!made) {
    vyre_destroy_watched(a->face);
    return;
  }
  thread->watched = false;
  CHECK(thread->bound.pipeline == made && thread->bound.layout == made_layout && thread->bound.set == made_descriptors);
  dispatch_twice(a, kind, bound);
  a->DestroyPipeline(a->device, made, NULL);
  a->DestroyPipelineCache(a->device, made_cache, NULL);
  a->DestroyPipelineLayout(a->device, made_layout, NULL);
  a->DestroyDescriptorSetLayout(a->device, made_set, NULL);
  a->DestroyShaderModule(a->device, made_shader, NULL);
  a->DestroyDescriptorPool(a->device, made_pool, NULL);
}

static void record(app *a, sequence *s, const tensor *from, const tensor *to) {
  VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = MOCK_FAMILY};
  VkCommandBufferAllocateInfo buffers = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandBufferCount = 1};
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  VkBufferCopy region = {0, 0, BUFFER_BYTES};
  memset(s, 0, sizeof *s);
  CHECK(a->CreateCommandPool(a->device, &pool, NULL, &s->pool) == VK_SUCCESS);
  buffers.commandPool = s->pool;
  CHECK(a->AllocateCommandBuffers(a->device, &buffers, &s->commands) == VK_SUCCESS);
  (void)set_loader_data(a->device, s->commands);
  CHECK(a->BeginCommandBuffer(s->commands, &begin) == VK_SUCCESS);
  /* Copies beside the last dispatch, over which the last copy goes; and some that do not fit. */
  const vyre_region regions[] = {
      {from->buffer, 3, to->buffer, 1, 500, 0}, {NULL, 0, to->buffer, 8, 400, 0}, {from->buffer, 990, to->buffer, 0, 11, 0}};
  const vyre_copies right = {regions, 2, regions, 1}, wrong = {regions, 1, regions + 2, 1};
  for (uint32_t group = 1; group <= 3; group++) {
    vyre_this_thread()->group = group;
    vyre_this_thread()->copies = group == 1 ? NULL : group == 2 ? &wrong : &right;
    a->CmdDispatch(s->commands, 1, 1, 1);
    CHECK(vyre_this_thread()->copies == (group == 2 ? &wrong : NULL));
    vyre_this_thread()->copies = NULL;
    vyre_this_thread()->group += group == 3;
    a->CmdCopyBuffer(s->commands, from->buffer, to->buffer, 1, &region);
  }
  vyre_this_thread()->group = 0;
  CHECK(a->EndCommandBuffer(s->commands) == VK_SUCCESS);
}

static void drop_sequence(app *a, sequence *s) {
  a->FreeCommandBuffers(a->device, s->pool, 1, &s->commands);
  a->DestroyCommandPool(a->device, s->pool, NULL);
}

/* kompute's eval(): a fence of its own each time; detached, the wait returns at once and the fence is Python's. */
static void eval(app *a, sequence *s, bool detach) {
  VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &s->commands};
  vyre_thread *thread = vyre_this_thread();
  VkFence fence;
  CHECK(a->CreateFence(a->device, &info, NULL, &fence) == VK_SUCCESS);
  thread->detached_fence = VK_NULL_HANDLE;
  thread->detach_waits = detach;
  VkResult result = a->QueueSubmit(a->queue, 1, &submit, fence);
  if (result == VK_SUCCESS) result = a->WaitForFences(a->device, 1, &fence, VK_TRUE, UINT64_MAX);
  CHECK(result == VK_SUCCESS || a->may_fail);
  a->DestroyFence(a->device, fence, NULL);
  thread->detach_waits = false;
  s->fence = thread->detached_fence;
  CHECK(!detach || s->fence || a->may_fail);
}

/* Python's wait, in slices; gives up after some, as a time-out does. */
static bool finish(app *a, sequence *s, int slices) {
  VkResult result = VK_SUCCESS;
  if (!s->fence) return true;
  do {
    result = vyre_wait_fence(a->face, s->fence, 100000);
  } while (result == VK_TIMEOUT && --slices);
  if (result == VK_SUCCESS) {
    vyre_give_fence_back(a->face, s->fence);
    s->fence = VK_NULL_HANDLE;
  }
  CHECK(result >= 0 || a->may_fail);
  return result == VK_SUCCESS;
}

static void submit_part(app *a, transfer *t, const vyre_region *regions, uint32_t count) {
  VkResult result = vyre_transfer(a->face, regions, count, false, &t->commands, &t->fence);
  CHECK((result == VK_SUCCESS) == (t->fence != VK_NULL_HANDLE) && (t->fence || a->may_fail));
}

/* Submits it again, as long as it is wanted, and lets it go. */
static void end_part(app *a, transfer *t, int times) {
  VkResult result = VK_SUCCESS;
  while (t->fence) {
    do {
      result = vyre_wait_fence(a->face, t->fence, 100000);
    } while (result == VK_TIMEOUT);
    CHECK(result == VK_SUCCESS || a->may_fail);
    vyre_give_fence_back(a->face, t->fence);
    t->fence = VK_NULL_HANDLE;
    if (times-- > 1) submit_part(a, t, NULL, 0);
  }
  vyre_drop_transfer(a->face, t->commands);
}

/* What the work copied, and what a transfer behind it filled and copied. */
static void check_bytes(const app *a, const parcel *p) {
  bool moved = p->part.commands;
  for (size_t i = 0; i < BUFFER_BYTES && !a->may_fail; i++) {
    CHECK(p->from.bytes[i] == (moved ? (unsigned char)~p->mark : p->mark));
    CHECK(p->to.bytes[i] == (moved && i >= 1 && i < 501 ? (unsigned char)~p->mark : p->mark));
  }
}

static void end_parcel(app *a, parcel *p) {
  bool whole = finish(a, &p->work, -1);
  if (p->part.commands && p->part.fence) {
    while (vyre_wait_fence(a->face, p->part.fence, 100000) == VK_TIMEOUT) continue;
  }
  if (whole) check_bytes(a, p);
  end_part(a, &p->part, p->mark % 3);
  if (p->work.fence) vyre_give_fence_back(a->face, p->work.fence);
  drop_sequence(a, &p->work);
  drop_tensor(a, &p->from);
  drop_tensor(a, &p->to);
}

/* The memory of the tensor that this thread made last. */
static void give_away(app *a) {
  int fd;
  VkResult result = vyre_export_storage(a->face, &fd);
  CHECK((result == VK_SUCCESS) == (fd >= 0) && (fd >= 0 || a->may_fail));
  CHECK(vyre_this_thread()->exported_bytes == BUFFER_BYTES);
  if (fd >= 0) close(fd);
}

/* One run: tensors, a pipeline, work that this thread or another ends. */
static void run_once(app *a, uint64_t number) {
  parcel p = {.full = true, .mark = (unsigned char)number};
  vyre_this_thread()->failure.call = VYRE_CALL_NONE;
  bool whole = make_tensor(a, &p.from);
  vyre_this_thread()->want_export = number % 5 == 0;
  whole = make_tensor(a, &p.to) && whole;
  if (whole && vyre_this_thread()->want_export) give_away(a);
  vyre_this_thread()->want_export = false;
  if (!whole) {
    CHECK(a->may_fail);
    drop_tensor(a, &p.from);
    drop_tensor(a, &p.to);
    return;
  }
  memset(p.from.bytes, p.mark, BUFFER_BYTES);
  make_and_drop_pipeline(a, (uint32_t)(number % 100), &p.from);
  record(a, &p.work, &p.from, &p.to);
  eval(a, &p.work, number % 4 != 0);
  uint32_t word = UINT32_C(0x01010101) * (unsigned char)~p.mark;
  const vyre_region part[] = {
      {VK_NULL_HANDLE, 0, p.from.buffer, 0, BUFFER_BYTES, word}, {p.from.buffer, 3, p.to.buffer, 1, 500, 0}};
  if (number % 3 == 0) submit_part(a, &p.part, part, 2);
  if (number % 4 == 1) (void)finish(a, &p.work, 1);
  if (number % 4 == 2) {
    pthread_mutex_lock(&a->lock);
    parcel other = a->mailbox[number / 4 % MAILBOX];
    a->mailbox[number / 4 % MAILBOX] = p;
    pthread_mutex_unlock(&a->lock);
    p = other;
  }
  if (p.full) end_parcel(a, &p);
  if (number % 8 == 0) {
    VkFence marker = VK_NULL_HANDLE;
    vyre_collect_abandoned(a->face);
    (void)vyre_submit_marker(a->face, &marker);
    if (marker && number % 16 == 0) {
      vyre_abandon_fence(a->face, marker);
      marker = VK_NULL_HANDLE;
    }
    while (marker && vyre_wait_fence(a->face, marker, 1000000) == VK_TIMEOUT) continue;
    if (marker) vyre_give_fence_back(a->face, marker);
  }
  if (number % 16 == 0) vyre_trim_memory(a->face, 4096);
  (void)vyre_counter_value(a->face, VYRE_MEMORY_LIVE_BYTES);
}

static void end_mailbox(app *a) {
  for (int i = 0; i < MAILBOX; i++) {
    if (a->mailbox[i].full) end_parcel(a, &a->mailbox[i]);
  }
}

static void on_threads(void *(*run)(void *), void *argument) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, run, argument) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void *run_many(void *argument) {
  for (uint64_t i = 0; i < rounds; i++) run_once(argument, i);
  return NULL;
}

static void many_threads_on_one_device(void) {
  app a;
  open_app(&a, 1000, 64 * 1024);
  on_threads(run_many, &a);
  end_mailbox(&a);
  close_app(&a);
}

static void *open_and_close(void *argument) {
  (void)argument;
  for (uint64_t i = 0; i < rounds / 20 + 1; i++) {
    app a, other;
    open_app(&a, 0, 0);
    open_app(&other, 1000, 1 << 20);
    for (uint64_t j = 0; j < 8; j++) run_once(j % 2 ? &a : &other, j);
    end_mailbox(&a);
    end_mailbox(&other);
    close_app(&a);
    close_app(&other);
  }
  return NULL;
}

static void devices_of_their_own_come_and_go(void) { on_threads(open_and_close, NULL); }

static void *fail_often(void *argument) {
  for (uint64_t i = 0; i < rounds; i++) {
    vyre_inject((int)(i % (VYRE_CALL_COUNT - 1)) + 1, i % 5 + 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    run_once(argument, i);
  }
  return NULL;
}

static void failures_are_injected(void) {
  app a;
  open_app(&a, 0, 64 * 1024);
  a.may_fail = true;
  on_threads(fail_often, &a);
  for (int call = 1; call < VYRE_CALL_COUNT; call++) vyre_inject(call, 0, 0);
  end_mailbox(&a);
  close_app(&a);
}

static void *lose_midway(void *argument) {
  app *a = argument;
  for (uint64_t i = 0; i < rounds; i++) {
    if (i == rounds / 2) mock_lose(a->device);
    run_once(a, i);
  }
  return NULL;
}

static void device_is_lost(void) {
  app a;
  open_app(&a, 1000, 64 * 1024);
  a.may_fail = true;
  on_threads(lose_midway, &a);
  CHECK(vyre_is_lost(a.face));
  end_mailbox(&a);
  close_app(&a);
}

typedef struct leftover {
  app *a;
  sequence *work;
  transfer *part;
} leftover;

static void *drop_late(void *argument) {
  leftover *left = argument;
  vyre_give_fence_back(left->a->face, left->part->fence);
  vyre_drop_transfer(left->a->face, left->part->commands);
  vyre_give_fence_back(left->a->face, left->work->fence);
  vyre_trim_memory(left->a->face, 0);
  return NULL;
}

static void *let_go(void *argument) {
  mock_hold(argument, false);
  return NULL;
}

/* kompute's Manager frees command buffers, then the device; Python drops its work before, meanwhile, or after. */
static void closed_with_work_running(void) {
  for (uint64_t i = 0; i < rounds / 10 + 3; i++) {
    app a;
    tensor from, to;
    sequence work[3];
    pthread_t dropping, releasing;
    open_app(&a, 0, 1 << 20);
    CHECK(make_tensor(&a, &from) && make_tensor(&a, &to));
    mock_hold(a.device, true);
    for (int j = 0; j < 3; j++) {
      record(&a, &work[j], &from, &to);
      eval(&a, &work[j], true);
    }
    transfer parts[20] = {0}; /* more than are kept idle */
    const vyre_region region = {from.buffer, 0, to.buffer, 1, 9, 0};
    for (int j = 0; j < 20; j++) submit_part(&a, &parts[j], &region, 1);
    CHECK(!finish(&a, &work[0], 2));
    leftover left = {&a, &work[1], &parts[0]};
    CHECK(pthread_create(&releasing, NULL, let_go, a.device) == 0);
    CHECK(pthread_create(&dropping, NULL, drop_late, &left) == 0);
    pthread_join(releasing, NULL);
    for (int j = 0; j < 3; j++) drop_sequence(&a, &work[j]);
    for (int j = 2; j < 20; j++) end_part(&a, &parts[j], 1);
    drop_tensor(&a, &from);
    drop_tensor(&a, &to);
    a.DestroyDevice(a.device, NULL);
    close_instance(&a);
    pthread_join(dropping, NULL);
    vyre_give_fence_back(a.face, work[2].fence);
    vyre_give_fence_back(a.face, parts[1].fence);
    vyre_drop_transfer(a.face, parts[1].commands);
    transfer late = {0};
    CHECK(vyre_transfer(a.face, &region, 1, false, &late.commands, &late.fence) == VK_ERROR_DEVICE_LOST && !late.commands);
    CHECK(vyre_wait_fence(a.face, work[2].fence, 0) == VK_ERROR_DEVICE_LOST);
    vyre_release(a.face);
    pthread_mutex_destroy(&a.lock);
  }
}

/* What C extensions share: handles of bound kernels. */
typedef struct handles {
  vyre_use use;
  vyre_taken taken[2];
  atomic_ullong calls;
} handles;

static void *call_until_refused(void *argument) {
  handles *shared = argument;
  uint64_t counts[VYRE_COUNTER_COUNT + 1];
  int status = VYRE_BOUND_SUCCESS;
  for (uint64_t i = 0; status >= VYRE_BOUND_SUCCESS; i++) {
    vyre_bound_kernel *kernel = &shared->taken[i / 8 % 2].handle;
    switch (i % 8) {
      case 1: status = vyre_bound_submit(kernel); break;
      case 3: status = vyre_bound_poll(kernel); break;
      case 5: status = vyre_bound_wait(kernel, 1000); break;
      case 7: status = vyre_bound_run(kernel, 1000); break;
      default: status = vyre_bound_run(kernel, UINT64_MAX);
    }
    CHECK(vyre_bound_counts(kernel, counts, VYRE_COUNTER_COUNT + 1) == VYRE_COUNTER_COUNT && !counts[VYRE_COUNTER_COUNT]);
    atomic_fetch_add(&shared->calls, 1);
  }
  return (void *)(intptr_t)status;
}

static void bound_kernels_run_until_the_device_is_lost_or_closed(bool is_lost) {
  app a;
  tensor from, to;
  transfer part = {0};
  handles shared = {.calls = 0};
  pthread_t threads[THREADS];
  open_app(&a, is_lost ? 0 : 1000, 1 << 20);
  CHECK(make_tensor(&a, &from) && make_tensor(&a, &to) && vyre_use_init(&shared.use));
  const vyre_region region = {from.buffer, 0, to.buffer, 1, 9, 0};
  submit_part(&a, &part, &region, 1);
  while (vyre_finish(a.face, &part.fence, 1000000) == VK_TIMEOUT) continue;
  CHECK(vyre_taken_init(&shared.taken[0], a.face, &shared.use, part.commands));
  CHECK(vyre_taken_init(&shared.taken[1], a.face, &shared.use, NULL));
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, call_until_refused, &shared) == 0);
  while (atomic_load(&shared.calls) < rounds) sched_yield();
  if (is_lost) mock_lose(a.device);
  if (!is_lost) vyre_use_close(&shared.use);
  for (int i = 0; i < THREADS; i++) {
    void *status;
    CHECK(pthread_join(threads[i], &status) == 0);
    CHECK((intptr_t)status == (is_lost ? VYRE_BOUND_DEVICE_LOST : VYRE_BOUND_CLOSED));
  }
  vyre_use_close(&shared.use);
  while (!vyre_use_wait(&shared.use, 1000000)) continue;
  CHECK(vyre_bound_run(&shared.taken[0].handle, 0) == VYRE_BOUND_CLOSED);
  if (is_lost) vyre_taken_end(&shared.taken[0]);
  drop_tensor(&a, &from);
  drop_tensor(&a, &to);
  (void)vyre_wait_idle(a.face);
  a.DestroyDevice(a.device, NULL);
  close_instance(&a);
  if (!is_lost) vyre_taken_end(&shared.taken[0]);
  vyre_taken_end(&shared.taken[1]);
  vyre_use_destroy(&shared.use);
  vyre_drop_transfer(a.face, part.commands);
  vyre_release(a.face);
  pthread_mutex_destroy(&a.lock);
}

typedef struct share {
  app *first;
  int count;
} share;

/* A thread's share of the devices: opened beside those of the others, used in turn, some closed and opened again meanwhile. */
static void *use_share(void *argument) {
  share *mine = argument;
  for (int i = 0; i < mine->count; i++) open_app(&mine->first[i], i % 2 ? 1000 : 0, 64 * 1024);
  for (uint64_t round = 0; round < rounds / 250 + 2; round++) {
    for (int i = 0; i < mine->count; i++) {
      run_once(&mine->first[i], round * 3 + (uint64_t)i);
      if ((round + (uint64_t)i) % 5) continue;
      end_mailbox(&mine->first[i]);
      close_app(&mine->first[i]);
      open_app(&mine->first[i], 0, 64 * 1024);
    }
  }
  return NULL;
}

static void hundreds_of_devices_are_open_at_once(void) {
  static app all[THREADS * DEVICES_OF_A_THREAD];
  share shares[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    shares[i] = (share){&all[i * DEVICES_OF_A_THREAD], DEVICES_OF_A_THREAD};
    CHECK(pthread_create(&threads[i], NULL, use_share, &shares[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < THREADS * DEVICES_OF_A_THREAD; i++) {
    end_mailbox(&all[i]);
    close_app(&all[i]);
  }
}

/* What the driver below refuses leaves nothing behind, and takes no room from what it makes later. */
static void instances_not_ours_pass_and_refused_ones_leave_nothing(void) {
  static app a[300];
  app refused = {0};
  for (int i = 0; i < 300; i++) {
    mock_refuse(true);
    CHECK(open_instance(&refused) == VK_ERROR_OUT_OF_HOST_MEMORY && !refused.instance);
    mock_refuse(false);
    CHECK(open_instance(&a[i]) == VK_SUCCESS);
  }
  for (int i = 0; i < 300; i++) CHECK(OF_INSTANCE(&a[i], GetPhysicalDeviceProperties));
  for (int i = 0; i < 300; i++) close_instance(&a[i]);
}

/* Where the loader tells its dispatch table, kompute gets a handle to ask for a queue and to destroy. */
static void refused_devices_leave_nothing(void) {
  void *table = NULL; /* stands for the loader's */
  for (int i = 0; i < 300; i++) {
    app a = {0};
    VkQueue queue = VK_NULL_HANDLE;
    VkPhysicalDevice physical = open_armed_instance(&a, 0, 0);
    bool told = i % 2;
    if (told) a.device = (VkDevice)&table;
    mock_refuse(true);
    VkResult result = open_device(&a, physical);
    mock_refuse(false);
    CHECK(vyre_this_thread()->refusal == (told ? VK_ERROR_OUT_OF_HOST_MEMORY : VK_SUCCESS));
    CHECK(result == (told ? VK_SUCCESS : VK_ERROR_OUT_OF_HOST_MEMORY));
    if (told) {
      ((PFN_vkGetDeviceQueue)layer.pfnGetDeviceProcAddr(a.device, "vkGetDeviceQueue"))(a.device, 0, 0, &queue);
      CHECK(queue && !layer.pfnGetDeviceProcAddr(a.device, "vkQueueSubmit"));
      ((PFN_vkDestroyDevice)layer.pfnGetDeviceProcAddr(a.device, "vkDestroyDevice"))(a.device, NULL);
      vyre_this_thread()->refusal = VK_SUCCESS;
    }
    CHECK(vyre_disarm() == NULL);
    close_instance(&a);
    pthread_mutex_destroy(&a.lock);
  }
}

static void *copy_long_arrays(void *unused) {
  const size_t sizes[] = {0, 5, ((size_t)1 << 23) - 1, ((size_t)9 << 20) + 4097};
  (void)unused;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    unsigned char *from = malloc(sizes[i] + 1), *to = malloc(sizes[i] + 8);
    CHECK(from && to);
    for (size_t at = 0; at < sizes[i]; at++) from[at] = (unsigned char)(at * 7 + at / 4096);
    memset(to, 0xA5, 3);
    to[3 + sizes[i]] = 0x5A;
    vyre_copy_bytes(to + 3, from, sizes[i]);
    CHECK(memcmp(to + 3, from, sizes[i]) == 0 && to[2] == 0xA5 && to[3 + sizes[i]] == 0x5A);
    vyre_copy_bytes(to + 1, to + 3, sizes[i]); /* they overlap */
    CHECK(memcmp(to + 1, from, sizes[i]) == 0);
    free(from);
    free(to);
  }
  return NULL;
}

static void long_arrays_are_copied_side_by_side(void) {
  for (uint64_t i = 0; i < rounds / 100 + 1; i++) {
    pthread_t beside[3];
    for (int j = 0; j < 3; j++) CHECK(pthread_create(&beside[j], NULL, copy_long_arrays, NULL) == 0);
    for (int j = 0; j < 3; j++) CHECK(pthread_join(beside[j], NULL) == 0);
  }
}

int main(int argc, char **argv) {
  layer.sType = LAYER_NEGOTIATE_INTERFACE_STRUCT;
  layer.loaderLayerInterfaceVersion = 2;
  CHECK(argc == 2 && vkNegotiateLoaderLayerInterfaceVersion(&layer) == VK_SUCCESS);
  CHECK(setenv("VK_LAYER_PATH", "/theirs", 1) == 0 && unsetenv("VK_INSTANCE_LAYERS") == 0);
  rounds = strtoull(argv[1], NULL, 10);
  long_arrays_are_copied_side_by_side();
  many_threads_on_one_device();
  devices_of_their_own_come_and_go();
  failures_are_injected();
  device_is_lost();
  closed_with_work_running();
  bound_kernels_run_until_the_device_is_lost_or_closed(false);
  bound_kernels_run_until_the_device_is_lost_or_closed(true);
  hundreds_of_devices_are_open_at_once();
  instances_not_ours_pass_and_refused_ones_leave_nothing();
  refused_devices_leave_nothing();
  CHECK(mock_objects() == 0);
  CHECK(strcmp(getenv("VK_LAYER_PATH"), "/theirs") == 0 && !getenv("VK_INSTANCE_LAYERS"));
  puts("done");
  return 0;
}
