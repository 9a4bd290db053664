/* What every Vulkan layer of the tests does: it finds what is below it, and tells the loader of itself.

   One instance at a time, or what is below is the same for all. A layer that includes this has an instance_proc and a device_proc
   of its own. */
#include <string.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

static PFN_vkGetInstanceProcAddr next_instance;
static PFN_vkGetDeviceProcAddr next_device;

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_proc(VkInstance instance, const char *name);
static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char *name);

/* Note what is below, and hand the rest of the chain on to it; where that finds functions of the instance comes back. */
static inline PFN_vkGetInstanceProcAddr follow_device_link(const VkDeviceCreateInfo *info) {
  VkLayerDeviceCreateInfo *link = (VkLayerDeviceCreateInfo *)info->pNext;
  while (link->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO || link->function != VK_LAYER_LINK_INFO) {
    link = (VkLayerDeviceCreateInfo *)link->pNext;
  }
  PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  next_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  return next;
}

static inline VkResult create_instance_below(
    const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out) {
  VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)info->pNext;
  while (link->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO || link->function != VK_LAYER_LINK_INFO) {
    link = (VkLayerInstanceCreateInfo *)link->pNext;
  }
  next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  return ((PFN_vkCreateInstance)next_instance(NULL, "vkCreateInstance"))(info, allocator, out);
}

VkResult vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *version) {
  version->loaderLayerInterfaceVersion = 2;
  version->pfnGetInstanceProcAddr = instance_proc;
  version->pfnGetDeviceProcAddr = device_proc;
  version->pfnGetPhysicalDeviceProcAddr = NULL;
  return VK_SUCCESS;
}
