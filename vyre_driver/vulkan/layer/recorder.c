#include "recorder.h"

#include <stdlib.h>
#include <string.h>

#include "fence_pool.h"
#include "intervals.h"

#define MOST_DESCRIPTORS (8 * VYRE_MOST_LAUNCHES) /* of a command buffer; no fewer than VYRE_MOST_PARTS */
#define MOST_ACCESSES 64                          /* known since the last barrier */

typedef enum batch_state {
  BATCH_IDLE,
  BATCH_OPEN,
  BATCH_PENDING, /* submitted, and its end was not seen, or a thread still waits on its fence */
} batch_state;

/* A command buffer, in a pool of its own, with the descriptor sets of its launches. */
typedef struct batch {
  batch_state state;
  VkCommandPool pool;
  VkCommandBuffer commands;
  VkDescriptorPool sets;
  VkFence fence;
  uint64_t first, last; /* launches */
  uint32_t launches, descriptors, waiting;
  bool has_ended, shows_host;
  VkResult result; /* of its submission, and then of its end */
} batch;

typedef struct access {
  VkBuffer buffer;
  uint64_t first, end;
  bool writes;
} access;

struct vyre_recorder {
  pthread_mutex_t lock;
  batch batches[VYRE_BATCHES];
  uint32_t turn;             /* the batch that is open, or is opened next */
  uint32_t pending;          /* how many are */
  atomic_ullong recorded;    /* the last launch, */
  atomic_ullong submitted;   /* the last one handed over, */
  atomic_ullong ended;       /* and the last one whose end was seen */
  VkPipeline pipeline;       /* what the open one has bound last, */
  VkPipelineLayout layout;
  access accesses[MOST_ACCESSES];
  uint32_t access_count;     /* and what its launches touch since the last barrier */
  vyre_ending *endings, **last_ending;
};

static vyre_recorder *recorder_of(vyre_device *device) {
  return atomic_load_explicit(&device->recorder, memory_order_acquire);
}

/* Made with the first launch. NULL: out of memory. */
static vyre_recorder *make_recorder(vyre_device *device) {
  vyre_recorder *made = calloc(1, sizeof *made), *first = NULL;
  if (!made) return NULL;
  pthread_mutex_init(&made->lock, NULL);
  made->last_ending = &made->endings;
  if (atomic_compare_exchange_strong(&device->recorder, &first, made)) return made;
  pthread_mutex_destroy(&made->lock);
  free(made);
  return first;
}

static VkResult make_pools(vyre_device *device, batch *made) {
  VkCommandPoolCreateInfo pool = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
      .queueFamilyIndex = device->queue_family};
  VkCommandBufferAllocateInfo commands = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandBufferCount = 1};
  VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, MOST_DESCRIPTORS};
  VkDescriptorPoolCreateInfo sets = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = VYRE_MOST_LAUNCHES, .poolSizeCount = 1,
      .pPoolSizes = &size};
  if (!device->set_loader_data) return VK_ERROR_INITIALIZATION_FAILED;
  VkResult result = device->vk.CreateCommandPool(device->handle, &pool, NULL, &made->pool);
  if (result != VK_SUCCESS) return result;
  commands.commandPool = made->pool;
  result = device->vk.AllocateCommandBuffers(device->handle, &commands, &made->commands);
  if (result == VK_SUCCESS) result = device->set_loader_data(device->handle, made->commands);
  if (result == VK_SUCCESS) result = device->vk.CreateDescriptorPool(device->handle, &sets, NULL, &made->sets);
  if (result == VK_SUCCESS) return VK_SUCCESS;
  device->vk.DestroyCommandPool(device->handle, made->pool, NULL);
  made->pool = VK_NULL_HANDLE;
  return result;
}

/* Its launches see what all work before has done. */
static VkResult begin(vyre_device *device, vyre_recorder *recorder, batch *next) {
  VkCommandBufferBeginInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  VkResult result = VK_SUCCESS;
  if (!next->pool) {
    result = make_pools(device, next);
  } else {
    result = device->vk.ResetCommandPool(device->handle, next->pool, 0);
    (void)device->vk.ResetDescriptorPool(device->handle, next->sets, 0); /* it cannot fail */
  }
  if (result == VK_SUCCESS) result = device->vk.BeginCommandBuffer(next->commands, &info);
  if (result != VK_SUCCESS) return result;
  vyre_order(device, next->commands);
  next->state = BATCH_OPEN;
  next->launches = next->descriptors = 0;
  next->has_ended = next->shows_host = false;
  next->result = VK_SUCCESS;
  next->first = recorder->recorded + 1;
  recorder->pipeline = VK_NULL_HANDLE;
  recorder->layout = VK_NULL_HANDLE;
  recorder->access_count = 0;
  return VK_SUCCESS;
}

static void call_endings(vyre_device *device, vyre_recorder *recorder, uint64_t ended) {
  while (recorder->endings && recorder->endings->launch <= ended) {
    vyre_ending *ending = recorder->endings;
    recorder->endings = ending->next;
    if (!recorder->endings) recorder->last_ending = &recorder->endings;
    ending->end(device, ending);
  }
}

static void give_fence_back(vyre_device *device, vyre_recorder *recorder, batch *one) {
  if (!one->fence || !one->has_ended || one->waiting) return;
  vyre_give_ended_back(device, one->fence);
  one->fence = VK_NULL_HANDLE;
  one->state = BATCH_IDLE;
  recorder->pending--;
}

/* Under the lock, of the oldest whose end was not seen. */
static void note_end(vyre_device *device, vyre_recorder *recorder, batch *one, VkResult result) {
  one->has_ended = true;
  if (result < 0) one->result = vyre_record(device, VYRE_CALL_WAIT, result, 0);
  atomic_store(&recorder->ended, one->last);
  call_endings(device, recorder, one->last);
  give_fence_back(device, recorder, one);
}

/* Under the lock: those that have ended, from the oldest on. */
static void collect(vyre_device *device, vyre_recorder *recorder) {
  for (uint32_t i = 0; i < VYRE_BATCHES && recorder->pending; i++) {
    batch *one = &recorder->batches[(recorder->turn + i) % VYRE_BATCHES];
    if (one->state != BATCH_PENDING || one->has_ended) continue;
    VkResult result = device->vk.GetFenceStatus(device->handle, one->fence);
    if (result == VK_NOT_READY) return;
    note_end(device, recorder, one, result);
  }
}

/* Under the lock. */
static VkResult submit_open(vyre_device *device, vyre_recorder *recorder) {
  batch *open = &recorder->batches[recorder->turn];
  if (open->state != BATCH_OPEN || !open->launches) return VK_SUCCESS;
  if (open->shows_host) vyre_show_host(device, open->commands);
  VkResult result = vyre_record(device, VYRE_CALL_SUBMIT, device->vk.EndCommandBuffer(open->commands), 0);
  if (result == VK_SUCCESS) result = vyre_submit_recorded(device, open->commands, &open->fence);
  open->last = recorder->recorded;
  open->result = result;
  recorder->turn = (recorder->turn + 1) % VYRE_BATCHES;
  atomic_store(&recorder->submitted, open->last);
  if (result == VK_SUCCESS) {
    open->state = BATCH_PENDING;
    recorder->pending++;
  } else {
    open->state = BATCH_IDLE;
    open->has_ended = true;
  }
  return result;
}

static bool meet(const access *one, const access *other) {
  return one->buffer == other->buffer && one->first < other->end && other->first < one->end && (one->writes || other->writes);
}

static access access_of(const vyre_launch *launch, uint32_t binding) {
  const vyre_range_of *part = &launch->parts[binding];
  return (access){part->buffer, part->range.offset, part->range.offset + part->range.bytes, launch->written >> binding & 1};
}

static bool must_wait(const vyre_recorder *recorder, const vyre_launch *launch) {
  if (recorder->access_count + launch->part_count > MOST_ACCESSES) return true;
  for (uint32_t i = 0; i < launch->part_count; i++) {
    access touched = access_of(launch, i);
    for (uint32_t k = 0; k < recorder->access_count; k++) {
      if (meet(&touched, &recorder->accesses[k])) return true;
    }
  }
  return false;
}

static void order(vyre_device *device, vyre_recorder *recorder, const batch *open, const vyre_launch *launch) {
  if (must_wait(recorder, launch)) {
    vyre_order(device, open->commands);
    vyre_count(device, VYRE_BARRIERS_ADDED, 1);
    recorder->access_count = 0;
  }
  for (uint32_t i = 0; i < launch->part_count; i++) recorder->accesses[recorder->access_count++] = access_of(launch, i);
}

static VkResult bind_parts(vyre_device *device, const batch *open, const vyre_launch *launch) {
  VkDescriptorBufferInfo buffers[VYRE_MOST_PARTS];
  VkWriteDescriptorSet writes[VYRE_MOST_PARTS];
  VkDescriptorSet set;
  VkDescriptorSetAllocateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .descriptorPool = open->sets, .descriptorSetCount = 1,
      .pSetLayouts = &launch->bound->set_layout};
  if (!launch->part_count) return VK_SUCCESS;
  VkResult result = device->vk.AllocateDescriptorSets(device->handle, &info, &set);
  if (result != VK_SUCCESS) return result;
  for (uint32_t i = 0; i < launch->part_count; i++) {
    const vyre_range_of *part = &launch->parts[i];
    buffers[i] = (VkDescriptorBufferInfo){part->buffer, part->range.offset, part->range.bytes};
    writes[i] = (VkWriteDescriptorSet){
        .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .dstSet = set, .dstBinding = i, .descriptorCount = 1,
        .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .pBufferInfo = &buffers[i]};
  }
  device->vk.UpdateDescriptorSets(device->handle, launch->part_count, writes, 0, NULL);
  device->vk.CmdBindDescriptorSets(
      open->commands, VK_PIPELINE_BIND_POINT_COMPUTE, launch->bound->layout, 0, 1, &set, 0, NULL);
  return VK_SUCCESS;
}

static VkResult record(vyre_device *device, vyre_recorder *recorder, batch *open, const vyre_launch *launch) {
  const vyre_bound *bound = launch->bound;
  VkResult result = bind_parts(device, open, launch);
  if (result != VK_SUCCESS) return result;
  order(device, recorder, open, launch);
  if (bound->pipeline != recorder->pipeline) {
    device->vk.CmdBindPipeline(open->commands, VK_PIPELINE_BIND_POINT_COMPUTE, bound->pipeline);
    recorder->pipeline = bound->pipeline;
  }
  if (launch->push_bytes) {
    device->vk.CmdPushConstants(
        open->commands, bound->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, launch->push_bytes, launch->push);
  }
  device->vk.CmdDispatch(open->commands, launch->groups[0], launch->groups[1], launch->groups[2]);
  open->launches++;
  open->descriptors += launch->part_count;
  open->shows_host |= launch->shows_host;
  open->last = ++recorder->recorded;
  return VK_SUCCESS;
}

/* Under the lock. *number is what to wait for where there is no room. */
static VkResult find_room(vyre_device *device, vyre_recorder *recorder, const vyre_launch *launch, uint64_t *number) {
  batch *open = &recorder->batches[recorder->turn];
  VkResult result = VK_SUCCESS;
  if (open->state == BATCH_OPEN &&
      (open->launches == VYRE_MOST_LAUNCHES || open->descriptors + launch->part_count > MOST_DESCRIPTORS)) {
    result = submit_open(device, recorder);
    open = &recorder->batches[recorder->turn];
  }
  if (result != VK_SUCCESS || open->state == BATCH_OPEN) return result;
  if (open->state == BATCH_PENDING) {
    *number = open->last;
    return VK_NOT_READY;
  }
  return begin(device, recorder, open);
}

/* Under the lock. */
static VkResult record_launch(vyre_device *device, vyre_recorder *recorder, const vyre_launch *launch, uint64_t *number) {
  bool is_timed = atomic_load_explicit(&device->is_timed, memory_order_relaxed);
  collect(device, recorder);
  VkResult result = find_room(device, recorder, launch, number);
  if (result != VK_SUCCESS) return result;
  batch *open = &recorder->batches[recorder->turn];
  result = record(device, recorder, open, launch);
  if (result != VK_SUCCESS) return result;
  *number = recorder->recorded;
  if (is_timed) vyre_label(device, open->commands, launch->label);
  if (is_timed || !recorder->pending || open->launches == VYRE_MOST_LAUNCHES) return submit_open(device, recorder);
  return VK_SUCCESS;
}

VkResult vyre_record_launch(vyre_device *device, const vyre_launch *launch, uint64_t *number) {
  *number = 0;
  if (launch->part_count > VYRE_MOST_PARTS || !vyre_enter(device)) return VK_ERROR_DEVICE_LOST;
  vyre_recorder *recorder = recorder_of(device);
  if (!recorder) recorder = make_recorder(device);
  VkResult result = !recorder ? VK_ERROR_OUT_OF_HOST_MEMORY : vyre_is_lost(device) ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
  if (result == VK_SUCCESS) {
    pthread_mutex_lock(&recorder->lock);
    result = record_launch(device, recorder, launch, number);
    pthread_mutex_unlock(&recorder->lock);
  }
  vyre_leave(device);
  return vyre_record(device, VYRE_CALL_SUBMIT, result, 0);
}

VkResult vyre_flush_launches(vyre_device *device) {
  vyre_recorder *recorder = recorder_of(device);
  if (!recorder || atomic_load(&recorder->recorded) == atomic_load(&recorder->submitted)) return VK_SUCCESS;
  pthread_mutex_lock(&recorder->lock);
  VkResult result = submit_open(device, recorder);
  pthread_mutex_unlock(&recorder->lock);
  return result;
}

/* Under the lock. NULL: its end was seen, and its batch may have others since. */
static batch *batch_of(vyre_recorder *recorder, uint64_t number) {
  for (uint32_t i = 0; i < VYRE_BATCHES; i++) {
    batch *one = &recorder->batches[i];
    if (one->first <= number && number <= one->last && one->first) return one;
  }
  return NULL;
}

/* Waits without the lock: other threads record meanwhile, and the batch stays as long as somebody waits on its fence. */
static VkResult wait_for(vyre_device *device, vyre_recorder *recorder, batch *one, uint64_t slice_ns) {
  VkFence fence = one->fence;
  one->waiting++;
  pthread_mutex_unlock(&recorder->lock);
  VkResult result = vyre_wait_submitted(device, fence, slice_ns);
  pthread_mutex_lock(&recorder->lock);
  one->waiting--;
  if (result != VK_TIMEOUT) collect(device, recorder);
  give_fence_back(device, recorder, one);
  return result == VK_SUCCESS ? one->result : result;
}

VkResult vyre_wait_for_launch(vyre_device *device, uint64_t number, uint64_t slice_ns) {
  if (!vyre_enter(device)) return VK_ERROR_DEVICE_LOST;
  vyre_recorder *recorder = recorder_of(device);
  VkResult result = VK_SUCCESS;
  if (recorder && number) {
    pthread_mutex_lock(&recorder->lock);
    if (number > atomic_load(&recorder->submitted)) (void)submit_open(device, recorder);
    batch *one = batch_of(recorder, number);
    if (one) result = one->has_ended ? one->result : wait_for(device, recorder, one, slice_ns);
    pthread_mutex_unlock(&recorder->lock);
  }
  vyre_leave(device);
  return result;
}

bool vyre_has_launch_ended(vyre_device *device, uint64_t number) {
  vyre_recorder *recorder = recorder_of(device);
  return !number || !recorder || number <= atomic_load(&recorder->ended);
}

uint64_t vyre_last_launch(vyre_device *device) {
  vyre_recorder *recorder = recorder_of(device);
  if (!recorder) return 0;
  pthread_mutex_lock(&recorder->lock);
  uint64_t last = recorder->recorded;
  pthread_mutex_unlock(&recorder->lock);
  return last;
}

bool vyre_end_with_launch(vyre_device *device, vyre_ending *ending) {
  vyre_recorder *recorder = recorder_of(device);
  if (vyre_has_launch_ended(device, ending->launch)) return false;
  pthread_mutex_lock(&recorder->lock);
  collect(device, recorder);
  bool is_kept = !vyre_has_launch_ended(device, ending->launch);
  if (is_kept) {
    ending->launch = recorder->recorded; /* so that they are in order */
    ending->next = NULL;
    *recorder->last_ending = ending;
    recorder->last_ending = &ending->next;
  }
  pthread_mutex_unlock(&recorder->lock);
  return is_kept;
}

void vyre_recorder_free(vyre_device *device) {
  vyre_recorder *recorder = recorder_of(device);
  if (recorder) pthread_mutex_destroy(&recorder->lock);
  free(recorder);
}

void vyre_recorder_close(vyre_device *device) {
  vyre_recorder *recorder = recorder_of(device);
  if (!recorder) return;
  call_endings(device, recorder, UINT64_MAX);
  for (uint32_t i = 0; i < VYRE_BATCHES; i++) {
    batch *one = &recorder->batches[i];
    if (one->sets) device->vk.DestroyDescriptorPool(device->handle, one->sets, NULL);
    if (one->pool) device->vk.DestroyCommandPool(device->handle, one->pool, NULL);
  }
}
