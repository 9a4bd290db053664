/* Fences that are used again.

   What a submission would have to do to its fence is done while the work runs, and takes a run no time then: noting that it is
   pending, and getting the next fence ready, for which one is reset or made. The caller keeps the device from being destroyed
   from before the submission until it is noted. */
#include "fence_pool.h"

void vyre_count_alone(vyre_device *device, enum vyre_counter counter, int64_t by) {
  atomic_ullong *counted = &device->counters[counter];
  atomic_store_explicit(
      counted, atomic_load_explicit(counted, memory_order_relaxed) + (unsigned long long)by, memory_order_relaxed);
}

void vyre_count_pending(vyre_device *device, uintptr_t before, uintptr_t after) {
  if ((before ^ after) & VYRE_FENCE_SUBMITTED) vyre_count_alone(device, VYRE_WORK_PENDING, after & VYRE_FENCE_SUBMITTED ? 1 : -1);
}

bool vyre_keep_idle(vyre_device *device, VkFence fence) {
  if (device->idle_fence_count == VYRE_FENCE_POOL) return false;
  device->idle_fences[device->idle_fence_count++] = fence;
  return true;
}

VkFence vyre_take_idle(vyre_device *device) {
  while (device->idle_fence_count) {
    VkFence fence = device->idle_fences[--device->idle_fence_count];
    if (device->vk.ResetFences(device->handle, 1, &fence) == VK_SUCCESS) return fence;
    device->vk.DestroyFence(device->handle, fence, NULL);
  }
  return VK_NULL_HANDLE;
}

VkResult vyre_take_fence(vyre_device *device, VkFence *out, bool *is_new) {
  VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkFence fence = atomic_exchange(&device->ready_fence, VK_NULL_HANDLE);
  if (!fence) {
    pthread_mutex_lock(&device->fence_lock);
    fence = vyre_take_idle(device);
    pthread_mutex_unlock(&device->fence_lock);
  }
  *out = fence;
  *is_new = !fence;
  return fence ? VK_SUCCESS : device->vk.CreateFence(device->handle, &info, NULL, out);
}

/* false: out of memory. */
static bool note_taken(vyre_device *device, VkFence fence, VkCommandBuffer commands) {
  uintptr_t work = 0;
  if (!vyre_map_put(&device->fence_work, VYRE_HANDLE(fence), (uintptr_t)commands)) return false;
  if (!vyre_map_put(&device->fences, VYRE_HANDLE(fence), VYRE_FENCE_SUBMITTED)) {
    (void)vyre_map_take(&device->fence_work, VYRE_HANDLE(fence), &work);
    return false;
  }
  vyre_count_pending(device, 0, VYRE_FENCE_SUBMITTED);
  return true;
}

/* Another one is made where the only one is in use. */
static void make_ready(vyre_device *device, bool may_create) {
  VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  if (atomic_load(&device->ready_fence)) return;
  VkFence fence = vyre_take_idle(device);
  if (!fence && may_create) {
    if (device->vk.CreateFence(device->handle, &info, NULL, &fence) != VK_SUCCESS) return;
    vyre_count_alone(device, VYRE_FENCES_CREATED, 1);
  }
  atomic_store(&device->ready_fence, fence);
}

void vyre_note_taken(vyre_device *device, VkFence fence, VkCommandBuffer commands, bool is_new, bool is_run) {
  pthread_mutex_lock(&device->fence_lock);
  vyre_count_alone(device, is_new ? VYRE_FENCES_CREATED : VYRE_FENCES_REUSED, 1);
  bool is_known = note_taken(device, fence, commands);
  make_ready(device, is_run);
  pthread_mutex_unlock(&device->fence_lock);
  /* Out of memory: when the device is closed, nothing would show that it runs. */
  if (!is_known) (void)device->vk.WaitForFences(device->handle, 1, &fence, VK_TRUE, UINT64_MAX);
}

void vyre_give_ended_back(vyre_device *device, VkFence fence) {
  uintptr_t bits = 0, work = 0;
  pthread_mutex_lock(&device->fence_lock);
  (void)vyre_map_take(&device->fences, VYRE_HANDLE(fence), &bits);
  (void)vyre_map_take(&device->fence_work, VYRE_HANDLE(fence), &work);
  vyre_count_pending(device, bits, 0);
  bool is_kept = vyre_keep_idle(device, fence);
  pthread_mutex_unlock(&device->fence_lock);
  if (!is_kept) device->vk.DestroyFence(device->handle, fence, NULL);
}

void vyre_fences_close(vyre_device *device) {
  VkFence ready = atomic_exchange(&device->ready_fence, VK_NULL_HANDLE);
  if (ready) device->vk.DestroyFence(device->handle, ready, NULL);
  while (device->idle_fence_count) {
    device->vk.DestroyFence(device->handle, device->idle_fences[--device->idle_fence_count], NULL);
  }
}
