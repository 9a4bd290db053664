/* The driver's statistics of a pipeline's code.

   Source: VK_KHR_pipeline_executable_properties. A device with its feature may be asked (VUIDs 03270 and 03272), of a pipeline that
   was made to capture statistics (VUID 03274). */
#include <stdlib.h>

#include "statistics.h"

/* Defines ``list``, which returns what the two calls of Vulkan's give, as malloc has it; NULL where that is nothing, it fails, or
   there is no memory. A driver may know more the second time: VK_INCOMPLETE. */
#define LISTED(list, Thing, type, Call, Info) \
  static Thing *list(vyre_device *device, const Info *info, uint32_t *count) { \
    Thing *found = NULL; \
    VkResult result; \
    do { \
      free(found); \
      result = device->vk.Call(device->handle, info, count, NULL); \
      found = result == VK_SUCCESS && *count ? calloc(*count, sizeof *found) : NULL; \
      if (!found) return NULL; \
      for (uint32_t i = 0; i < *count; i++) found[i].sType = type; \
      result = device->vk.Call(device->handle, info, count, found); \
    } while (result == VK_INCOMPLETE); \
    if (result == VK_SUCCESS && *count) return found; \
    free(found); \
    return NULL; \
  }
LISTED(
    list_properties, VkPipelineExecutablePropertiesKHR, VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR,
    GetPipelineExecutablePropertiesKHR, VkPipelineInfoKHR)
LISTED(
    list_statistics, VkPipelineExecutableStatisticKHR, VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR,
    GetPipelineExecutableStatisticsKHR, VkPipelineExecutableInfoKHR)

uint32_t vyre_read_executables(vyre_device *device, const vyre_bound *bound, vyre_executable **out) {
  const VkPipelineInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = bound->pipeline};
  uint32_t count = 0;
  *out = NULL;
  if (!device->captures_statistics || !bound->pipeline) return 0;
  VkPipelineExecutablePropertiesKHR *properties = list_properties(device, &info, &count);
  vyre_executable *made = properties ? calloc(count, sizeof *made) : NULL;
  for (uint32_t i = 0; made && i < count; i++) {
    VkPipelineExecutableInfoKHR one = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = bound->pipeline, .executableIndex = i};
    made[i].properties = properties[i];
    made[i].statistics = list_statistics(device, &one, &made[i].statistic_count);
    if (!made[i].statistics) made[i].statistic_count = 0;
  }
  free(properties);
  *out = made;
  return made ? count : 0;
}

void vyre_free_executables(vyre_executable *executables, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) free(executables[i].statistics);
  free(executables);
}
