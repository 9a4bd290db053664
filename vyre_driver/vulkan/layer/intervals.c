/* When the device worked on each submission, by its own clock, while that is asked for.

   What is submitted was recorded before anybody asked, so two command buffers of ours go with it in one call: one in which the
   device writes its clock as soon as it comes there, and one in which it does when all work before has ended. The first does not
   wait for the work before it, so that submissions follow each other as closely as ever; a reader of the intervals of one queue
   lets each begin where the one before it has ended.

   Source: Vulkan 1.3, "Timestamp Queries"; VK_EXT_calibrated_timestamps. */
#include <stdlib.h>
#include <string.h>

#include "intervals.h"
#include "native_thread.h"

#define SLOTS 256
#define FIRST_CAPACITY 1024
#define LOOKS 10 /* of which the one with the smallest deviation counts */

typedef struct slot {
  VkCommandBuffer before, after; /* NULL: not recorded yet */
  bool is_taken;                 /* submitted, and its end was not seen */
  vyre_interval interval;
} slot;

struct vyre_intervals { /* under queue_lock */
  VkQueryPool pool;     /* two queries a slot */
  VkCommandPool command_pool;
  slot slots[SLOTS];
  uint64_t next; /* slot to be taken */
  uint32_t users;
  vyre_interval *ended;
  size_t count, capacity, most;
  uint64_t dropped, untimed;
  bool has_last_moment;
  vyre_moment last_moment;
};

static bool is_host_reset(const vyre_device *device) {
  return device->resets_queries && device->vk.ResetQueryPool;
}

static bool make_pools(vyre_device *device, struct vyre_intervals *all) {
  const VkQueryPoolCreateInfo queries = {
      .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = 2 * SLOTS};
  const VkCommandPoolCreateInfo commands = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = device->queue_family};
  if (!all->pool && device->vk.CreateQueryPool(device->handle, &queries, NULL, &all->pool) != VK_SUCCESS) {
    all->pool = VK_NULL_HANDLE;
    return false;
  }
  if (!all->command_pool && device->vk.CreateCommandPool(device->handle, &commands, NULL, &all->command_pool) != VK_SUCCESS) {
    all->command_pool = VK_NULL_HANDLE;
    return false;
  }
  return true;
}

bool vyre_start_intervals(vyre_device *device, size_t most) {
  if (!vyre_enter(device)) return false;
  pthread_mutex_lock(&device->queue_lock);
  struct vyre_intervals *all = device->intervals;
  if (!all) device->intervals = all = calloc(1, sizeof *all);
  bool is_started = all && device->set_loader_data && make_pools(device, all);
  if (is_started) {
    if (!all->users++) {
      all->most = most;
      all->count = 0;
      all->dropped = all->untimed = 0;
    }
    atomic_store(&device->is_timed, true);
  }
  pthread_mutex_unlock(&device->queue_lock);
  vyre_leave(device);
  return is_started;
}

static void append(struct vyre_intervals *all, const vyre_interval *one) {
  if (all->count == all->capacity) {
    size_t wanted = all->capacity ? 2 * all->capacity : FIRST_CAPACITY;
    vyre_interval *grown = realloc(all->ended, wanted * sizeof *grown);
    if (grown) {
      all->ended = grown;
      all->capacity = wanted;
    }
  }
  if (all->count < all->capacity && all->count < all->most) {
    all->ended[all->count++] = *one;
  } else {
    all->dropped++;
  }
}

/* Whether the slot is free now. */
static bool collect(vyre_device *device, struct vyre_intervals *all, uint32_t number) {
  slot *one = &all->slots[number];
  uint64_t ticks[2];
  if (!one->is_taken) return true;
  VkResult result = device->vk.GetQueryPoolResults(
      device->handle, all->pool, 2 * number, 2, sizeof ticks, ticks, sizeof *ticks, VK_QUERY_RESULT_64_BIT);
  if (result == VK_NOT_READY) return false;
  one->is_taken = false;
  one->interval.first = ticks[0];
  one->interval.last = ticks[1];
  if (result == VK_SUCCESS) append(all, &one->interval);
  return true;
}

/* In the order of submission, up to the first that has not ended. */
static void collect_all(vyre_device *device, struct vyre_intervals *all) {
  if (!all->pool) return;
  for (uint32_t i = 0; i < SLOTS; i++) (void)collect(device, all, (uint32_t)((all->next + i) % SLOTS));
}

void vyre_stop_intervals(vyre_device *device) {
  bool is_there = vyre_enter(device);
  pthread_mutex_lock(&device->queue_lock);
  struct vyre_intervals *all = device->intervals;
  if (all && all->users && !--all->users) {
    atomic_store(&device->is_timed, false);
    if (is_there) collect_all(device, all);
  }
  pthread_mutex_unlock(&device->queue_lock);
  if (is_there) vyre_leave(device);
}

size_t vyre_copy_intervals(vyre_device *device, size_t from, vyre_interval *out, size_t room) {
  bool is_there = vyre_enter(device);
  size_t count = 0;
  pthread_mutex_lock(&device->queue_lock);
  struct vyre_intervals *all = device->intervals;
  if (all) {
    if (is_there) collect_all(device, all);
    count = all->count;
    size_t copied = from < count ? count - from : 0;
    if (copied > room) copied = room;
    if (copied) memcpy(out, all->ended + from, copied * sizeof *out);
  }
  pthread_mutex_unlock(&device->queue_lock);
  if (is_there) vyre_leave(device);
  return count;
}

void vyre_count_intervals(vyre_device *device, uint64_t counts[3]) {
  memset(counts, 0, 3 * sizeof *counts);
  pthread_mutex_lock(&device->queue_lock);
  const struct vyre_intervals *all = device->intervals;
  if (all) {
    counts[0] = all->dropped;
    counts[1] = all->untimed;
    for (uint32_t i = 0; i < SLOTS; i++) counts[2] += all->slots[i].is_taken;
  }
  pthread_mutex_unlock(&device->queue_lock);
}

static bool record(
    vyre_device *device, const struct vyre_intervals *all, uint32_t query, VkPipelineStageFlagBits stage, VkCommandBuffer *out) {
  const VkCommandBufferAllocateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
      .commandPool = all->command_pool,
      .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
      .commandBufferCount = 1};
  /* The device may have written its clock a moment before it is done with the commands. */
  const VkCommandBufferBeginInfo begin = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
  VkCommandBuffer made;
  if (device->vk.AllocateCommandBuffers(device->handle, &info, &made) != VK_SUCCESS) return false;
  VkResult result = device->set_loader_data(device->handle, made);
  if (result == VK_SUCCESS) result = device->vk.BeginCommandBuffer(made, &begin);
  if (result == VK_SUCCESS) {
    if (!is_host_reset(device) && query % 2 == 0) device->vk.CmdResetQueryPool(made, all->pool, query, 2);
    device->vk.CmdWriteTimestamp(made, stage, all->pool, query);
    result = device->vk.EndCommandBuffer(made);
  }
  if (result == VK_SUCCESS) {
    *out = made;
  } else {
    device->vk.FreeCommandBuffers(device->handle, all->command_pool, 1, &made);
  }
  return result == VK_SUCCESS;
}

static slot *take_slot(vyre_device *device, struct vyre_intervals *all) {
  uint32_t number = (uint32_t)(all->next % SLOTS);
  slot *one = &all->slots[number];
  if (!collect(device, all, number)) return NULL;
  if (!one->before && !record(device, all, 2 * number, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, &one->before)) return NULL;
  if (!one->after && !record(device, all, 2 * number + 1, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, &one->after)) return NULL;
  if (is_host_reset(device)) device->vk.ResetQueryPool(device->handle, all->pool, 2 * number, 2);
  return one;
}

static uint32_t label_of(vyre_device *device, VkCommandBuffer commands) {
  uintptr_t label = 0;
  pthread_mutex_lock(&device->command_lock);
  (void)vyre_map_get(&device->labels, VYRE_HANDLE(commands), &label);
  pthread_mutex_unlock(&device->command_lock);
  return (uint32_t)label;
}

static uint32_t queue_number(const vyre_device *device, VkQueue queue) {
  for (uint32_t i = 0; i < device->copy_queue_count; i++) {
    if (device->copy_queues[i] == queue) return i + 1;
  }
  return 0;
}

VkResult vyre_submit_timed(vyre_device *device, VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence) {
  struct vyre_intervals *all = device->intervals;
  slot *one = NULL;
  if (all && all->users && count == 1 && infos->commandBufferCount == 1) {
    one = take_slot(device, all);
    if (!one) all->untimed++;
  }
  if (!one) return device->vk.QueueSubmit(queue, count, infos, fence);
  VkCommandBuffer commands[] = {one->before, infos->pCommandBuffers[0], one->after};
  VkSubmitInfo timed = *infos;
  timed.commandBufferCount = 3;
  timed.pCommandBuffers = commands;
  one->interval = (vyre_interval){
      .submit_ns = vyre_now_ns(),
      .thread = vyre_native_thread(),
      .label = label_of(device, commands[1]),
      .queue = queue_number(device, queue)};
  VkResult result = device->vk.QueueSubmit(queue, 1, &timed, fence);
  if (result == VK_SUCCESS) {
    one->interval.submitted_ns = vyre_now_ns();
    one->is_taken = true;
    all->next++;
  }
  return result;
}

void vyre_label(vyre_device *device, VkCommandBuffer commands, uint32_t label) {
  uintptr_t before;
  pthread_mutex_lock(&device->command_lock);
  if (label) {
    (void)vyre_map_put(&device->labels, VYRE_HANDLE(commands), label);
  } else {
    (void)vyre_map_take(&device->labels, VYRE_HANDLE(commands), &before);
  }
  pthread_mutex_unlock(&device->command_lock);
}

/* By the name of the extension that the device has: where the drivers of other devices know the other name, the loader gives a
   function for it that calls NULL for this device. */
void vyre_describe_clocks(vyre_device *device, const vyre_instance *instance, VkPhysicalDevice physical) {
  static const char *const NAMES[][2] = {
      {"VK_EXT_calibrated_timestamps", "vkGetPhysicalDeviceCalibrateableTimeDomainsEXT"},
      {"VK_KHR_calibrated_timestamps", "vkGetPhysicalDeviceCalibrateableTimeDomainsKHR"}};
  PFN_vkGetPhysicalDeviceCalibrateableTimeDomainsEXT list = NULL;
  for (uint32_t i = 0; i < instance->config.extension_count; i++) {
    for (int j = 0; j < 2; j++) {
      if (strcmp(instance->config.extensions[i], NAMES[j][0])) continue;
      list = (PFN_vkGetPhysicalDeviceCalibrateableTimeDomainsEXT)instance->next(instance->handle, NAMES[j][1]);
    }
  }
  VkTimeDomainEXT domains[16];
  uint32_t count = 16;
  if (!list || list(physical, &count, domains) < 0) return;
  bool has_device = false, has_host = false;
  for (uint32_t i = 0; i < count; i++) {
    has_device |= domains[i] == VK_TIME_DOMAIN_DEVICE_EXT;
    has_host |= domains[i] == VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT;
  }
  device->has_moments = has_device && has_host;
}

static bool read_moment(vyre_device *device, vyre_moment *out) {
  const VkCalibratedTimestampInfoEXT infos[] = {
      {.sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT, .timeDomain = VK_TIME_DOMAIN_DEVICE_EXT},
      {.sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT, .timeDomain = VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT}};
  PFN_vkGetCalibratedTimestampsEXT read = device->vk.GetCalibratedTimestampsEXT;
  if (!read) read = (PFN_vkGetCalibratedTimestampsEXT)device->next(device->handle, "vkGetCalibratedTimestampsKHR");
  uint64_t both[2], deviation;
  out->deviation_ns = UINT64_MAX;
  for (int i = 0; device->has_moments && read && i < LOOKS; i++) {
    if (read(device->handle, 2, infos, both, &deviation) != VK_SUCCESS || deviation >= out->deviation_ns) continue;
    *out = (vyre_moment){both[0], both[1], deviation};
  }
  return out->deviation_ns != UINT64_MAX;
}

bool vyre_read_moment(vyre_device *device, vyre_moment *out) {
  if (!vyre_enter(device)) return false;
  bool is_read = read_moment(device, out);
  vyre_leave(device);
  return is_read;
}

bool vyre_last_moment(vyre_device *device, vyre_moment *out) {
  pthread_mutex_lock(&device->queue_lock);
  bool is_there = device->intervals && device->intervals->has_last_moment;
  if (is_there) *out = device->intervals->last_moment;
  pthread_mutex_unlock(&device->queue_lock);
  return is_there;
}

void vyre_intervals_close(vyre_device *device) {
  pthread_mutex_lock(&device->queue_lock);
  struct vyre_intervals *all = device->intervals;
  if (all) {
    collect_all(device, all);
    all->has_last_moment = all->users && read_moment(device, &all->last_moment);
    if (all->pool) device->vk.DestroyQueryPool(device->handle, all->pool, NULL);
    if (all->command_pool) device->vk.DestroyCommandPool(device->handle, all->command_pool, NULL);
    all->pool = VK_NULL_HANDLE;
    all->command_pool = VK_NULL_HANDLE;
    atomic_store(&device->is_timed, false);
  }
  pthread_mutex_unlock(&device->queue_lock);
  vyre_map_free(&device->labels);
}

void vyre_intervals_free(vyre_device *device) {
  if (device->intervals) free(device->intervals->ended);
  free(device->intervals);
}
