/* Fences, submissions and waits.

   kompute creates and destroys a fence for each run, which costs more than the run: fences are recycled. Its wait blocks at once
   and holds the GIL: ours polls for a bounded time first, and when the thread asks for it the wait is answered at once and its
   fence kept, so that Python can wait on it later, with a deadline and without the GIL. */
#include "fence_pool.h"
#include "intervals.h"

static void change_fence(vyre_device *device, VkFence fence, uintptr_t set, uintptr_t clear) {
  uintptr_t bits = 0;
  pthread_mutex_lock(&device->fence_lock);
  if (vyre_map_get(&device->fences, VYRE_HANDLE(fence), &bits)) {
    uintptr_t changed = (bits & ~clear) | set;
    vyre_map_put(&device->fences, VYRE_HANDLE(fence), changed);
    vyre_count_pending(device, bits, changed);
  }
  pthread_mutex_unlock(&device->fence_lock);
}

static void note_submitted(vyre_device *device, VkFence fence, VkCommandBuffer buffer) {
  uintptr_t bits = 0;
  bool is_found_later = true;
  pthread_mutex_lock(&device->fence_lock);
  if (vyre_map_get(&device->fences, VYRE_HANDLE(fence), &bits)) {
    vyre_map_put(&device->fences, VYRE_HANDLE(fence), bits | VYRE_FENCE_SUBMITTED);
    is_found_later = vyre_map_put(&device->fence_work, VYRE_HANDLE(fence), (uintptr_t)buffer);
    vyre_count_pending(device, bits, bits | VYRE_FENCE_SUBMITTED);
  }
  pthread_mutex_unlock(&device->fence_lock);
  /* Out of memory: when the command buffer is freed, nothing would show that it runs. */
  if (!is_found_later) (void)device->vk.WaitForFences(device->handle, 1, &fence, VK_TRUE, UINT64_MAX);
}

/* false: it is a fence of an unusual kind, or memory ran out when it was made. */
static bool find_fence(vyre_device *device, VkFence fence, uintptr_t *bits) {
  *bits = 0;
  pthread_mutex_lock(&device->fence_lock);
  bool known = vyre_map_get(&device->fences, VYRE_HANDLE(fence), bits);
  pthread_mutex_unlock(&device->fence_lock);
  return known;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_fence(
    VkDevice handle, const VkFenceCreateInfo *info, const VkAllocationCallbacks *allocator, VkFence *out) {
  vyre_device *device = vyre_find_device(handle);
  bool plain = info->flags == 0 && info->pNext == NULL;
  VkFence reused = VK_NULL_HANDLE;
  if (plain) {
    pthread_mutex_lock(&device->fence_lock);
    reused = vyre_take_idle(device);
    if (reused && !vyre_map_put(&device->fences, VYRE_HANDLE(reused), 0)) {
      if (!vyre_keep_idle(device, reused)) device->vk.DestroyFence(handle, reused, NULL);
      reused = VK_NULL_HANDLE;
    }
    if (reused) vyre_count_alone(device, VYRE_FENCES_REUSED, 1);
    pthread_mutex_unlock(&device->fence_lock);
  }
  *out = reused;
  if (reused) return VK_SUCCESS;
  VkResult result = device->vk.CreateFence(handle, info, allocator, out);
  if (result != VK_SUCCESS) return result;
  pthread_mutex_lock(&device->fence_lock);
  vyre_count_alone(device, VYRE_FENCES_CREATED, 1);
  if (plain) (void)vyre_map_put(&device->fences, VYRE_HANDLE(*out), 0);
  pthread_mutex_unlock(&device->fence_lock);
  return VK_SUCCESS;
}

/* Inside vyre_enter. Waits first: until the work has ended, its fence has to be found where what it uses is freed. */
static void end_and_give_back(vyre_device *device, VkFence fence, uintptr_t bits) {
  if (bits & VYRE_FENCE_SUBMITTED) (void)device->vk.WaitForFences(device->handle, 1, &fence, VK_TRUE, UINT64_MAX);
  vyre_give_ended_back(device, fence);
}

static VKAPI_ATTR void VKAPI_CALL destroy_fence(
    VkDevice handle, VkFence fence, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  uintptr_t bits = 0;
  if (!fence) return;
  if (!find_fence(device, fence, &bits)) {
    device->vk.DestroyFence(handle, fence, allocator);
  } else if (!(bits & VYRE_FENCE_DETACHED) && vyre_enter(device)) {
    /* kompute destroys the fence of a wait that timed out; Vulkan forbids that while the work runs. */
    end_and_give_back(device, fence, bits);
    vyre_leave(device);
  }
}

/* A queue takes one submission at a time, and not every caller holds the GIL. */
static VkResult submit(vyre_device *device, VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence) {
  if (atomic_load(&device->lost)) return VK_ERROR_DEVICE_LOST;
  VkResult result = vyre_injected(VYRE_CALL_SUBMIT);
  if (result != VK_SUCCESS) return result;
  pthread_mutex_lock(&device->queue_lock);
  bool is_timed = atomic_load_explicit(&device->is_timed, memory_order_relaxed);
  result = is_timed ? vyre_submit_timed(device, queue, count, infos, fence)
                    : device->vk.QueueSubmit(queue, count, infos, fence);
  pthread_mutex_unlock(&device->queue_lock);
  return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL queue_submit(
    VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence) {
  vyre_device *device = vyre_find_device(queue);
  VkResult result = vyre_flush_launches(device);
  if (result == VK_SUCCESS) result = submit(device, queue, count, infos, fence);
  if (result == VK_SUCCESS && fence) {
    bool single = count == 1 && infos->commandBufferCount == 1;
    note_submitted(device, fence, single ? infos->pCommandBuffers[0] : NULL);
  }
  return vyre_record(device, VYRE_CALL_SUBMIT, result, 0);
}

static VkResult submit_to(vyre_device *device, VkQueue queue, VkCommandBuffer commands, bool is_run, VkFence *out) {
  VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
  VkFence fence;
  bool is_new;
  VkResult result = vyre_take_fence(device, &fence, &is_new);
  if (result == VK_SUCCESS) {
    result = submit(device, queue, commands ? 1 : 0, commands ? &info : NULL, fence);
    if (result == VK_SUCCESS) {
      *out = fence;
      vyre_note_taken(device, fence, commands, is_new, is_run);
    } else {
      vyre_give_ended_back(device, fence);
    }
  }
  return vyre_record(device, VYRE_CALL_SUBMIT, result, 0);
}

VkResult vyre_submit_recorded(vyre_device *device, VkCommandBuffer commands, VkFence *out) {
  return submit_to(device, atomic_load_explicit(&device->queue, memory_order_acquire), commands, false, out);
}

/* Launches that were recorded before go before it. */
static VkResult submit_commands(vyre_device *device, VkCommandBuffer commands, bool is_run, VkFence *out) {
  VkResult result = vyre_flush_launches(device);
  if (result != VK_SUCCESS) return result;
  return submit_to(device, atomic_load_explicit(&device->queue, memory_order_acquire), commands, is_run, out);
}

VkResult vyre_submit_copies(vyre_device *device, uint64_t turn, VkCommandBuffer commands, VkFence *out) {
  uint32_t count = device->copy_queue_count;
  VkQueue queue = count ? device->copy_queues[turn % count] : atomic_load_explicit(&device->queue, memory_order_acquire);
  return submit_to(device, queue, commands, false, out);
}

VkResult vyre_submit_commands(vyre_device *device, VkCommandBuffer commands, VkFence *out) {
  return submit_commands(device, commands, false, out);
}

VkResult vyre_submit_marker(vyre_device *device, VkFence *out) {
  *out = VK_NULL_HANDLE;
  if (!vyre_enter(device)) return VK_ERROR_DEVICE_LOST;
  VkResult result = vyre_flush_launches(device);
  bool is_pending = vyre_counter_value(device, VYRE_WORK_PENDING) != 0;
  if (result == VK_SUCCESS && is_pending) result = vyre_submit_commands(device, NULL, out);
  vyre_leave(device);
  return result;
}

static VkResult wait_fence(vyre_device *device, VkFence fence, uint64_t slice_ns) {
  uintptr_t bits;
  if (find_fence(device, fence, &bits) && !(bits & VYRE_FENCE_SUBMITTED)) return VK_SUCCESS;
  VkResult result = vyre_wait_submitted(device, fence, slice_ns);
  if (result == VK_SUCCESS) change_fence(device, fence, 0, VYRE_FENCE_SUBMITTED);
  return result;
}

VkResult vyre_wait_fence(vyre_device *device, VkFence fence, uint64_t slice_ns) {
  if (!vyre_enter(device)) return VK_ERROR_DEVICE_LOST;
  VkResult result = wait_fence(device, fence, slice_ns);
  vyre_leave(device);
  return result;
}

static VkResult finish(vyre_device *device, VkFence *fence, uint64_t slice_ns) {
  VkResult result = vyre_wait_submitted(device, *fence, slice_ns);
  if (result != VK_SUCCESS) return result;
  vyre_give_ended_back(device, *fence);
  *fence = VK_NULL_HANDLE;
  return VK_SUCCESS;
}

VkResult vyre_finish(vyre_device *device, VkFence *fence, uint64_t slice_ns) {
  if (!vyre_enter(device)) return VK_ERROR_DEVICE_LOST;
  VkResult result = finish(device, fence, slice_ns);
  vyre_leave(device);
  return result;
}

bool vyre_begin_run(vyre_device *device, VkCommandBuffer commands, VkFence *fence, VkResult *result) {
  if (pthread_rwlock_tryrdlock(&device->use_lock)) return false;
  *result = atomic_load(&device->alive) ? submit_commands(device, commands, true, fence) : VK_ERROR_DEVICE_LOST;
  if (*result != VK_SUCCESS) vyre_leave(device);
  return true;
}

VkResult vyre_end_run(vyre_device *device, uint64_t slice_ns, VkFence *fence) {
  VkResult result = finish(device, fence, slice_ns);
  vyre_leave(device);
  return result;
}

VkResult vyre_run_commands(vyre_device *device, VkCommandBuffer commands, uint64_t slice_ns, VkFence *fence) {
  if (!vyre_enter(device)) return VK_ERROR_DEVICE_LOST;
  VkResult result = submit_commands(device, commands, true, fence);
  if (result == VK_SUCCESS) return vyre_end_run(device, slice_ns, fence);
  vyre_leave(device);
  return result;
}

static void give_back(vyre_device *device, VkFence fence) {
  uintptr_t bits = 0;
  if (find_fence(device, fence, &bits)) end_and_give_back(device, fence, bits);
}

bool vyre_give_fence_back_within(vyre_device *device, VkFence fence, uint64_t most_ns) {
  uintptr_t bits = 0;
  if (!vyre_enter(device)) return true;
  bool is_running = find_fence(device, fence, &bits) && bits & VYRE_FENCE_SUBMITTED &&
                    device->vk.WaitForFences(device->handle, 1, &fence, VK_TRUE, most_ns) == VK_TIMEOUT;
  if (!is_running) give_back(device, fence);
  vyre_leave(device);
  return !is_running;
}

void vyre_give_fence_back(vyre_device *device, VkFence fence) {
  (void)vyre_give_fence_back_within(device, fence, UINT64_MAX);
}

void vyre_abandon_fence(vyre_device *device, VkFence fence) {
  uintptr_t bits = 0;
  pthread_mutex_lock(&device->fence_lock);
  if (vyre_map_get(&device->fences, VYRE_HANDLE(fence), &bits)) {
    vyre_map_put(&device->fences, VYRE_HANDLE(fence), bits | VYRE_FENCE_ABANDONED);
    device->abandoned_fence_count++;
  }
  pthread_mutex_unlock(&device->fence_lock);
}

/* Under fence_lock. From then on the fence is the caller's. */
static VkFence take_abandoned(vyre_device *device) {
  for (size_t i = 0; device->abandoned_fence_count && i < device->fences.capacity; i++) {
    VkFence fence = (VkFence)(uintptr_t)device->fences.keys[i];
    if (!fence || !(device->fences.values[i] & VYRE_FENCE_ABANDONED)) continue;
    if (device->vk.GetFenceStatus(device->handle, fence) == VK_NOT_READY) continue;
    device->fences.values[i] &= ~(uintptr_t)VYRE_FENCE_ABANDONED;
    device->abandoned_fence_count--;
    return fence;
  }
  return VK_NULL_HANDLE;
}

void vyre_collect_abandoned(vyre_device *device) {
  if (!vyre_enter(device)) return;
  VkFence ended;
  do {
    pthread_mutex_lock(&device->fence_lock);
    ended = take_abandoned(device);
    pthread_mutex_unlock(&device->fence_lock);
    if (ended) give_back(device, ended);
  } while (ended);
  vyre_leave(device);
}

static VkFence fence_of_running(vyre_device *device, VkCommandBuffer buffer) {
  VkFence running = VK_NULL_HANDLE;
  pthread_mutex_lock(&device->fence_lock);
  for (size_t i = 0; i < device->fence_work.capacity; i++) {
    uint64_t key = device->fence_work.keys[i];
    uintptr_t bits = 0;
    if (key == 0 || device->fence_work.values[i] != (uintptr_t)buffer) continue;
    if (vyre_map_get(&device->fences, key, &bits) && bits & VYRE_FENCE_SUBMITTED) running = (VkFence)(uintptr_t)key;
  }
  pthread_mutex_unlock(&device->fence_lock);
  return running;
}

/* kompute frees the command buffers of a Manager that it destroys, whether their work has ended or not. */
void vyre_finish_work(vyre_device *device, VkCommandBuffer buffer) {
  if (!fence_of_running(device, buffer)) return;
  /* Another thread may be giving that fence back, which would reset it under a wait: let it end, and look again. */
  pthread_rwlock_wrlock(&device->use_lock);
  VkFence running = fence_of_running(device, buffer);
  if (running) (void)device->vk.WaitForFences(device->handle, 1, &running, VK_TRUE, UINT64_MAX);
  pthread_rwlock_unlock(&device->use_lock);
}

VkResult vyre_wait_idle(vyre_device *device) {
  if (!vyre_enter(device)) return VK_ERROR_DEVICE_LOST;
  (void)vyre_flush_launches(device);
  VkResult result = device->vk.DeviceWaitIdle(device->handle);
  vyre_leave(device);
  return result;
}

/* A wait inside kompute's eval(). */
static VKAPI_ATTR VkResult VKAPI_CALL wait_for_fences(
    VkDevice handle, uint32_t count, const VkFence *fences, VkBool32 all, uint64_t timeout_ns) {
  vyre_device *device = vyre_find_device(handle);
  vyre_thread *thread = vyre_this_thread();
  if (count != 1) return device->vk.WaitForFences(handle, count, fences, all, timeout_ns);
  uintptr_t bits;
  if (thread->detach_waits && find_fence(device, fences[0], &bits) && bits & VYRE_FENCE_SUBMITTED) {
    change_fence(device, fences[0], VYRE_FENCE_DETACHED, 0);
    thread->detached_fence = fences[0];
    return VK_SUCCESS;
  }
  void *gil = vyre_let_gil_go();
  VkResult result = wait_fence(device, fences[0], timeout_ns);
  vyre_take_gil_back(gil);
  return result;
}

void vyre_sync_close(vyre_device *device) {
  /* Detached work still runs on memory that is about to go; on a lost device the wait ends too (Vulkan 1.3, "Lost Device"). */
  for (size_t i = 0; i < device->fences.capacity; i++) {
    if (device->fences.keys[i] == 0) continue;
    VkFence fence = (VkFence)(uintptr_t)device->fences.keys[i];
    if (device->fences.values[i] & VYRE_FENCE_SUBMITTED) {
      (void)device->vk.WaitForFences(device->handle, 1, &fence, VK_TRUE, UINT64_MAX);
    }
    device->vk.DestroyFence(device->handle, fence, NULL);
  }
  vyre_map_free(&device->fences);
  vyre_map_free(&device->fence_work);
  vyre_fences_close(device);
}

PFN_vkVoidFunction vyre_sync_hook(const char *name) {
  static const vyre_hook HOOKS[] = {
    VYRE_HOOK("vkCreateFence", create_fence),
    VYRE_HOOK("vkDestroyFence", destroy_fence),
    VYRE_HOOK("vkQueueSubmit", queue_submit),
    VYRE_HOOK("vkWaitForFences", wait_for_fences),
  };
  return VYRE_FIND_HOOK(HOOKS, name);
}
