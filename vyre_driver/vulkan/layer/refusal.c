/* A device that the Vulkan driver refuses to make: kompute does not look at vkCreateDevice's result, asks the null device for its
   queue, and the loader aborts the process.

   So kompute gets a handle that can do what its constructor and its destructor do: give a queue, which nobody submits to, and
   be destroyed. Python gets the error, and destroys kompute's object at once.

   A dispatchable object begins with a pointer to the loader's dispatch table. The loader passes that of the device to come in the
   place of the handle, for its own end of the chain. */
#include <stdlib.h>

#include "layer.h"

typedef struct stand_in {
  void *dispatch; /* as in every dispatchable object */
  struct {
    void *dispatch;
  } queue;
} stand_in;

VkResult vyre_stand_in(vyre_device *device, VkResult refusal, VkDevice *out) {
  void *dispatch = *out;
  stand_in *made = dispatch ? calloc(1, sizeof *made) : NULL;
  if (!made) return refusal;
  made->dispatch = made->queue.dispatch = dispatch;
  device->handle = (VkDevice)made;
  device->is_refused = true;
  vyre_keep(vyre_devices, made, device);
  vyre_this_thread()->refusal = refusal;
  *out = device->handle;
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL get_queue(VkDevice handle, uint32_t family, uint32_t index, VkQueue *out) {
  (void)family, (void)index;
  *out = (VkQueue) & ((stand_in *)handle)->queue;
}

static VKAPI_ATTR void VKAPI_CALL destroy(VkDevice handle, const VkAllocationCallbacks *allocator) {
  (void)allocator;
  vyre_device *device = vyre_forget(vyre_devices, handle);
  free((stand_in *)handle);
  if (device) vyre_release(device);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_idle(VkDevice handle) {
  (void)handle;
  return VK_SUCCESS;
}

PFN_vkVoidFunction vyre_stand_in_proc(const char *name) {
  static const vyre_hook HOOKS[] = {
    VYRE_HOOK("vkGetDeviceQueue", get_queue),
    VYRE_HOOK("vkDestroyDevice", destroy),
    VYRE_HOOK("vkDeviceWaitIdle", wait_idle),
  };
  return VYRE_FIND_HOOK(HOOKS, name);
}
