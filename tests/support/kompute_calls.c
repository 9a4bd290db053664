/* A Vulkan layer that says on stderr who makes devices, memory and pipelines: kompute, or somebody else.

   kompute makes what kp's library is on the stack for. Memory of the host that a device imports is named apart. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <execinfo.h>
#include <stdbool.h>
#include <stdio.h>

#include "layer_below.h"

enum { DEEPEST = 64 };

static PFN_vkCreateDevice create_device_below;

static bool is_from_kompute(void) {
  void *frames[DEEPEST];
  int count = backtrace(frames, DEEPEST);
  for (int i = 0; i < count; i++) {
    Dl_info info;
    if (dladdr(frames[i], &info) && info.dli_fname && strstr(info.dli_fname, "/kp.")) return true;
  }
  return false;
}

static void tell(const char *name) { fprintf(stderr, "%s: %s\n", name, is_from_kompute() ? "kompute" : "another"); }

static VKAPI_ATTR VkResult VKAPI_CALL allocate_memory(
    VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *allocator, VkDeviceMemory *out) {
  bool is_imported = false;
  for (const VkBaseInStructure *at = info->pNext; at; at = at->pNext) {
    is_imported |= at->sType == VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT;
  }
  tell(is_imported ? "memory of the host" : "vkAllocateMemory");
  return ((PFN_vkAllocateMemory)next_device(device, "vkAllocateMemory"))(device, info, allocator, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(
    VkDevice device, VkPipelineCache cache, uint32_t count, const VkComputePipelineCreateInfo *infos,
    const VkAllocationCallbacks *allocator, VkPipeline *out) {
  tell("vkCreateComputePipelines");
  return ((PFN_vkCreateComputePipelines)next_device(device, "vkCreateComputePipelines"))(
      device, cache, count, infos, allocator, out);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char *name) {
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)device_proc;
  if (strcmp(name, "vkAllocateMemory") == 0) return (PFN_vkVoidFunction)allocate_memory;
  if (strcmp(name, "vkCreateComputePipelines") == 0) return (PFN_vkVoidFunction)create_pipelines;
  return next_device(device, name);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(
    VkPhysicalDevice physical, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *allocator, VkDevice *out) {
  tell("vkCreateDevice");
  follow_device_link(info);
  return create_device_below(physical, info, allocator, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(
    const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out) {
  VkResult result = create_instance_below(info, allocator, out);
  if (result == VK_SUCCESS) create_device_below = (PFN_vkCreateDevice)next_instance(*out, "vkCreateDevice");
  return result;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_proc(VkInstance handle, const char *name) {
  if (strcmp(name, "vkGetInstanceProcAddr") == 0) return (PFN_vkVoidFunction)instance_proc;
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)device_proc;
  if (strcmp(name, "vkCreateInstance") == 0) return (PFN_vkVoidFunction)create_instance;
  if (strcmp(name, "vkCreateDevice") == 0) return (PFN_vkVoidFunction)create_device;
  return handle ? next_instance(handle, name) : NULL;
}
