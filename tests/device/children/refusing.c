/* A Vulkan layer that refuses what REFUSED names: kompute's vkCreateInstance or anybody's vkCreateDevice. */
#include <stdlib.h>

#include "layer_below.h"

static VkInstance instance; /* the latest */

static int is_refused(const char *call) {
  const char *refused = getenv("REFUSED");
  return refused && strcmp(refused, call) == 0;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(
    const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out) {
  const VkApplicationInfo *application = info->pApplicationInfo;
  int is_kompute = application && application->pApplicationName && strcmp(application->pApplicationName, "Kompute") == 0;
  if (is_kompute && is_refused("vkCreateInstance")) return VK_ERROR_INITIALIZATION_FAILED;
  VkResult result = create_instance_below(info, allocator, out);
  instance = *out;
  return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(
    VkPhysicalDevice physical, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *allocator, VkDevice *out) {
  if (is_refused("vkCreateDevice")) return VK_ERROR_INITIALIZATION_FAILED;
  PFN_vkGetInstanceProcAddr next = follow_device_link(info);
  return ((PFN_vkCreateDevice)next(instance, "vkCreateDevice"))(physical, info, allocator, out);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char *name) {
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)device_proc;
  return next_device(device, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_proc(VkInstance handle, const char *name) {
  if (strcmp(name, "vkGetInstanceProcAddr") == 0) return (PFN_vkVoidFunction)instance_proc;
  if (strcmp(name, "vkCreateInstance") == 0) return (PFN_vkVoidFunction)create_instance;
  if (strcmp(name, "vkCreateDevice") == 0) return (PFN_vkVoidFunction)create_device;
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)device_proc;
  return handle ? next_instance(handle, name) : NULL;
}
