/* A Vulkan layer below ours: the driver tells of the code of pipelines, by VK_KHR_pipeline_executable_properties.

   With TELLING_LACKS in the environment the device has the extension, and not its feature. It holds whoever uses it to the
   specification: the process ends where a pipeline is asked that was not made to capture its statistics, or on a device whose
   feature is not on; the driver below gets neither flag nor extension. TELLING_MANY and TELLING_FAILS change the answers. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layer_below.h"

#define EXTENSION VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME
#define FEATURES VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR
#define MOST 1024

typedef VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR Features;

static VkInstance instance;
/* Of every instance; asked for later, the loader would give what stands on top. */
static PFN_vkGetPhysicalDeviceFeatures2 features2_below;
static PFN_vkEnumerateDeviceExtensionProperties extensions_below;
static int is_on;
static VkPipeline captured[MOST]; /* that there are */

static void hold(int rule, const char *breach) {
  if (rule) return;
  fprintf(stderr, "telling: %s\n", breach);
  abort();
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(
    VkDevice device, VkPipelineCache cache, uint32_t count, const VkComputePipelineCreateInfo *infos,
    const VkAllocationCallbacks *allocator, VkPipeline *out) {
  VkComputePipelineCreateInfo changed = *infos;
  int captures = (infos->flags & VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR) != 0;
  hold(count == 1 && captures == is_on, "pipelines are captured just where the feature is on");
  changed.flags &= ~(VkPipelineCreateFlags)VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
  VkResult result = ((PFN_vkCreateComputePipelines)next_device(device, "vkCreateComputePipelines"))(
      device, cache, count, &changed, allocator, out);
  for (int i = 0; captures && result == VK_SUCCESS && i < MOST; i++) {
    if (captured[i]) continue;
    captured[i] = *out;
    break;
  }
  return result;
}

static VKAPI_ATTR void VKAPI_CALL destroy_pipeline(
    VkDevice device, VkPipeline pipeline, const VkAllocationCallbacks *allocator) {
  for (int i = 0; i < MOST; i++) {
    if (captured[i] == pipeline) captured[i] = VK_NULL_HANDLE;
  }
  ((PFN_vkDestroyPipeline)next_device(device, "vkDestroyPipeline"))(device, pipeline, allocator);
}

static void check_captured(VkPipeline pipeline) {
  int found = 0;
  for (int i = 0; i < MOST; i++) found |= captured[i] == pipeline;
  hold(is_on && pipeline && found, "a pipeline is asked that was not captured");
}

static VKAPI_ATTR VkResult VKAPI_CALL get_properties(
    VkDevice device, const VkPipelineInfoKHR *info, uint32_t *count, VkPipelineExecutablePropertiesKHR *out) {
  static int asked;
  (void)device;
  uint32_t there = getenv("TELLING_MANY") ? 2 : 1;
  check_captured(info->pipeline);
  if (getenv("TELLING_FAILS")) return VK_ERROR_OUT_OF_HOST_MEMORY;
  if (!out) {
    *count = there > 1 && !asked++ ? 1 : there; /* it knows more the second time */
    return VK_SUCCESS;
  }
  uint32_t room = *count;
  *count = room < there ? room : there;
  for (uint32_t i = 0; i < *count; i++) {
    hold(out[i].sType == VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR, "properties of no type");
    out[i].stages = VK_SHADER_STAGE_COMPUTE_BIT;
    strcpy(out[i].name, i ? "Second" : "Compute Shader");
    strcpy(out[i].description, i ? "" : "The shader \xc3\xa0 la carte");
    out[i].subgroupSize = i ? 0 : 32;
  }
  return room < there ? VK_INCOMPLETE : VK_SUCCESS;
}

#define TELL(place, what, about, kind, member, number) \
  strcpy(out[place].name, what); \
  strcpy(out[place].description, about); \
  out[place].format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_##kind##_KHR; \
  out[place].value.member = number;

static VKAPI_ATTR VkResult VKAPI_CALL get_statistics(
    VkDevice device, const VkPipelineExecutableInfoKHR *info, uint32_t *count, VkPipelineExecutableStatisticKHR *out) {
  (void)device;
  check_captured(info->pipeline);
  if (info->executableIndex || !out) {
    *count = info->executableIndex ? 0 : 6;
    return VK_SUCCESS;
  }
  hold(*count == 6 && out[5].sType == VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR, "statistics of no type");
  TELL(0, "Register Count", "Number of registers allocated", UINT64, u64, UINT64_MAX)
  TELL(1, "Stack Size", "", INT64, i64, -16)
  TELL(2, "Occupancy", "Part of all warps", FLOAT64, f64, 0.75)
  TELL(3, "Spills", "Whether it spills", BOOL32, b32, VK_TRUE)
  TELL(4, "From the Future", "", UINT64, u64, 7)
  out[4].format = (VkPipelineExecutableStatisticFormatKHR)99;
  TELL(5, "", "", UINT64, u64, 0)
  memset(out[5].name, 'x', sizeof out[5].name); /* full: without a NUL */
  memset(out[5].description, 0xff, sizeof out[5].description);
  return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL features2(VkPhysicalDevice physical, VkPhysicalDeviceFeatures2 *out) {
  features2_below(physical, out);
  for (VkBaseOutStructure *at = out->pNext; at; at = at->pNext) {
    if (at->sType == FEATURES) ((Features *)at)->pipelineExecutableInfo = !getenv("TELLING_LACKS");
  }
}

static VKAPI_ATTR VkResult VKAPI_CALL extensions(
    VkPhysicalDevice physical, const char *layer, uint32_t *count, VkExtensionProperties *out) {
  uint32_t room = *count;
  VkResult result = extensions_below(physical, layer, count, out);
  if (result != VK_SUCCESS || layer) return result;
  if (out && *count == room) return VK_INCOMPLETE;
  if (out) out[*count] = (VkExtensionProperties){EXTENSION, 1};
  ++*count;
  return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(
    VkPhysicalDevice physical, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *allocator, VkDevice *out) {
  PFN_vkGetInstanceProcAddr next = follow_device_link(info);
  const char *names[MOST];
  VkDeviceCreateInfo changed = *info;
  int is_named = 0;
  is_on = 0;
  changed.enabledExtensionCount = 0;
  for (uint32_t i = 0; i < info->enabledExtensionCount && i < MOST; i++) {
    int is_ours = strcmp(info->ppEnabledExtensionNames[i], EXTENSION) == 0;
    is_named |= is_ours;
    if (!is_ours) names[changed.enabledExtensionCount++] = info->ppEnabledExtensionNames[i];
  }
  VkBaseInStructure *before = (VkBaseInStructure *)&changed; /* which has pNext in the same place */
  VkBaseInStructure *ours = NULL;
  while (before->pNext && before->pNext->sType != FEATURES) before = (VkBaseInStructure *)before->pNext;
  if (before->pNext) {
    ours = (VkBaseInStructure *)before->pNext;
    is_on = ((const Features *)ours)->pipelineExecutableInfo != 0;
    before->pNext = ours->pNext;
  }
  hold(is_on == is_named, "the feature is on without its extension, or the other way round");
  changed.ppEnabledExtensionNames = names;
  VkResult result = ((PFN_vkCreateDevice)next(instance, "vkCreateDevice"))(physical, &changed, allocator, out);
  if (ours) before->pNext = ours;
  return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(
    const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out) {
  VkResult result = create_instance_below(info, allocator, out);
  instance = *out;
  features2_below = (PFN_vkGetPhysicalDeviceFeatures2)next_instance(*out, "vkGetPhysicalDeviceFeatures2");
  extensions_below = (PFN_vkEnumerateDeviceExtensionProperties)next_instance(*out, "vkEnumerateDeviceExtensionProperties");
  return result;
}

#define OURS(vulkan, ours) \
  if (strcmp(name, #vulkan) == 0) return (PFN_vkVoidFunction)(PFN_##vulkan)ours;

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char *name) {
  OURS(vkGetDeviceProcAddr, device_proc)
  OURS(vkCreateComputePipelines, create_pipelines)
  OURS(vkDestroyPipeline, destroy_pipeline)
  if (is_on) {
    OURS(vkGetPipelineExecutablePropertiesKHR, get_properties)
    OURS(vkGetPipelineExecutableStatisticsKHR, get_statistics)
  }
  return next_device(device, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_proc(VkInstance of, const char *name) {
  OURS(vkGetInstanceProcAddr, instance_proc)
  OURS(vkGetDeviceProcAddr, device_proc)
  OURS(vkCreateInstance, create_instance)
  OURS(vkCreateDevice, create_device)
  OURS(vkGetPhysicalDeviceFeatures2, features2)
  OURS(vkEnumerateDeviceExtensionProperties, extensions)
  return next_instance(of, name);
}
