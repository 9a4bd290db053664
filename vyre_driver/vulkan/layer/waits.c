/* Waiting for a fence whose work was submitted: polling for a bounded time first, which is quicker than being woken. */
#include "layer.h"

#define POLLS_A_CLOCK_READ 8

static VkResult poll_fence(vyre_device *device, VkFence fence, uint64_t most_ns) {
  uint64_t budget = device->config.poll_ns < most_ns ? device->config.poll_ns : most_ns;
  uint64_t start = 0;
  for (uint32_t polls = 1;; polls++) {
    VkResult result = device->vk.GetFenceStatus(device->handle, fence);
    if (result != VK_NOT_READY || !budget) return result;
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
    if (polls % POLLS_A_CLOCK_READ) continue; /* the clock takes as long as a poll */
    uint64_t now = vyre_now_ns();
    if (!start) start = now;
    if (now - start >= budget) return result;
  }
}

VkResult vyre_wait_submitted(vyre_device *device, VkFence fence, uint64_t slice_ns) {
  VkResult result = vyre_injected(VYRE_CALL_WAIT);
  if (result == VK_SUCCESS) result = poll_fence(device, fence, slice_ns);
  if (result == VK_SUCCESS) {
    vyre_count(device, VYRE_WAITS_POLLED, 1);
  } else if (result == VK_NOT_READY) {
    vyre_count(device, VYRE_WAITS_BLOCKED, 1);
    result = device->vk.WaitForFences(device->handle, 1, &fence, VK_TRUE, slice_ns);
  }
  return result < 0 ? vyre_record(device, VYRE_CALL_WAIT, result, 0) : result;
}
