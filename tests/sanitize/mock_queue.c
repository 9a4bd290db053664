/* The queue of a mock device, its fences and waits. */
#include "mock.h"

static void run(const mock_copy *copy) {
  unsigned char *to = copy->to->memory->bytes + copy->to->offset + copy->region.dstOffset;
  if (copy->from) memmove(to, copy->from->memory->bytes + copy->from->offset + copy->region.srcOffset, copy->region.size);
  for (VkDeviceSize i = 0; !copy->from && i < copy->region.size; i += 4) memcpy(to + i, &copy->word, 4);
}

/* Under the device's lock. */
static void count_uses(const mock_commands *commands, int by) {
  for (uint32_t i = 0; i < commands->touched_count; i++) {
    commands->touched[i]->uses += (uint32_t)by;
    commands->touched[i]->memory->uses += (uint32_t)by;
  }
  for (uint32_t i = 0; i < commands->copy_count; i++) {
    mock_buffer *both[] = {commands->copies[i].from, commands->copies[i].to};
    for (int j = 0; j < 2; j++) {
      if (!both[j]) continue;
      both[j]->uses += (uint32_t)by;
      both[j]->memory->uses += (uint32_t)by;
    }
  }
}

void *mock_work(void *argument) {
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
      mock_touch(job->commands->pipeline);
      mock_touch(job->commands->set);
    }
    for (uint32_t i = 0; job->commands && i < job->commands->copy_count; i++) run(&job->commands->copies[i]);
    pthread_mutex_lock(&device->lock);
    if (job->commands) {
      count_uses(job->commands, -1);
      job->commands->pending = false;
    }
    job->fence->pending = false;
    job->fence->signalled = true;
    device->unfinished--;
    pthread_cond_broadcast(&device->changed);
    free(job);
  }
  pthread_mutex_unlock(&device->lock);
  return NULL;
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
  mock_job *job = mock_zeros(sizeof *job);
  *job = (mock_job){count ? (mock_commands *)infos->pCommandBuffers[0] : NULL, (mock_fence *)fence, NULL};
  pthread_mutex_lock(&device->lock);
  bool lost = device->lost;
  if (!lost) {
    CHECK(!job->fence->pending && !job->fence->signalled, "a fence is submitted that is not reset");
    CHECK(!job->commands || !job->commands->pending, "a command buffer is submitted that is running");
    job->fence->pending = true;
    if (job->commands) {
      count_uses(job->commands, 1);
      job->commands->pending = true;
      device->submissions++;
    }
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
  *out = (VkFence)mock_make(sizeof(mock_fence), DEVICE(d));
  return VK_SUCCESS;
}

void mock_check_idle(mock_device *device, const bool *pending, const char *text) {
  pthread_mutex_lock(&device->lock);
  while (device->lost && *pending) pthread_cond_wait(&device->changed, &device->lock);
  CHECK(!*pending, text);
  pthread_mutex_unlock(&device->lock);
}

void mock_check_unused(mock_device *device, const uint32_t *uses, const char *text) {
  pthread_mutex_lock(&device->lock);
  while (device->lost && *uses) pthread_cond_wait(&device->changed, &device->lock);
  CHECK(!*uses, text);
  pthread_mutex_unlock(&device->lock);
}

uint64_t mock_submissions(VkDevice handle) {
  mock_device *device = DEVICE(handle);
  pthread_mutex_lock(&device->lock);
  uint64_t count = device->submissions;
  pthread_mutex_unlock(&device->lock);
  return count;
}

static void destroy_fence(VkDevice d, VkFence fence, const VkAllocationCallbacks *a) {
  (void)a;
  mock_check_idle(DEVICE(d), &((mock_fence *)fence)->pending, "a fence is destroyed that is in use");
  mock_drop(fence, DEVICE(d));
}

static VkResult reset_fences(VkDevice d, uint32_t count, const VkFence *fences) {
  for (uint32_t i = 0; i < count; i++) {
    mock_fence *fence = (mock_fence *)fences[i];
    mock_check_idle(DEVICE(d), &fence->pending, "a fence is reset that is in use");
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

PFN_vkVoidFunction mock_queue_proc(const char *name) {
  NAMED(QueueSubmit, queue_submit)
  NAMED(CreateFence, create_fence)
  NAMED(DestroyFence, destroy_fence)
  NAMED(ResetFences, reset_fences)
  NAMED(GetFenceStatus, fence_status)
  NAMED(WaitForFences, wait_fences)
  NAMED(DeviceWaitIdle, device_wait_idle)
  return NULL;
}
