/* A Vulkan layer below ours: it says that the driver compiled 1000 bytes, and writes down what a pipeline cache is made of.

   One instance and one device at a time. WITNESS names the file that gets each cache's initial data, with its length ahead. With
   WITNESS_KILLS in the environment, the process is killed inside the call that brings initial data; with WITNESS_HITS, the driver
   seems to find its pipeline in such data. A compilation is a segmentation fault as long as the file is there that
   WITNESS_CRASHES names. With WITNESS_REFUSES devices are asked for that no driver makes. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "layer_below.h"

#define HEADER 32
#define PAYLOAD 1000

static VkInstance instance;
static int has_data; /* of the last pipeline cache */

static VKAPI_ATTR VkResult VKAPI_CALL create_cache(
    VkDevice device, const VkPipelineCacheCreateInfo *info, const VkAllocationCallbacks *allocator, VkPipelineCache *out) {
  VkPipelineCacheCreateInfo empty = *info;
  uint64_t size = info->initialDataSize;
  FILE *file = fopen(getenv("WITNESS"), "ab");
  if (!file) abort();
  fwrite(&size, sizeof size, 1, file);
  if (size) fwrite(info->pInitialData, 1, size, file);
  fclose(file);
  if (size && getenv("WITNESS_KILLS")) raise(SIGKILL);
  has_data = size != 0;
  empty.initialDataSize = 0;
  return ((PFN_vkCreatePipelineCache)next_device(device, "vkCreatePipelineCache"))(device, &empty, allocator, out);
}

/* With WITNESS_GATE a compilation makes the file that this names with .reached behind, and ends once the file without that is
   there; after 20 s without it, it fails. */
static int pass_gate(void) {
  const char *gate = getenv("WITNESS_GATE");
  char reached[4096];
  if (!gate) return 1;
  snprintf(reached, sizeof reached, "%s.reached", gate);
  FILE *file = fopen(reached, "wb");
  if (!file) abort();
  fclose(file);
  for (int waits = 0; waits < 2000; waits++) {
    if (access(gate, F_OK) == 0) return 1;
    usleep(10000);
  }
  return 0;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(
    VkDevice device, VkPipelineCache cache, uint32_t count, const VkComputePipelineCreateInfo *infos,
    const VkAllocationCallbacks *allocator, VkPipeline *out) {
  const char *crashes = getenv("WITNESS_CRASHES");
  if (crashes && access(crashes, F_OK) == 0) *(volatile int *)0 = 1;
  if (!pass_gate()) return VK_ERROR_INITIALIZATION_FAILED;
  VkResult result = ((PFN_vkCreateComputePipelines)next_device(device, "vkCreateComputePipelines"))(
      device, cache, count, infos, allocator, out);
  const VkBaseInStructure *at = infos->pNext;
  while (at && at->sType != VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO) at = at->pNext;
  if (at && has_data && getenv("WITNESS_HITS")) {
    ((const VkPipelineCreationFeedbackCreateInfo *)at)->pPipelineCreationFeedback->flags |=
        VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT | VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT;
  }
  return result;
}

/* With WITNESS_GROWS the cache grows between the first question for its size and the first for its bytes. */
static VKAPI_ATTR VkResult VKAPI_CALL get_cache_data(VkDevice device, VkPipelineCache cache, size_t *size, void *data) {
  static int asked;
  if (!data) {
    *size = getenv("WITNESS_GROWS") && !asked++ ? HEADER + 1 : HEADER + PAYLOAD;
    return VK_SUCCESS;
  }
  if (*size < HEADER + PAYLOAD) {
    memset(data, 0, *size);
    return VK_INCOMPLETE;
  }
  /* Some drivers write nothing into room that is too small for all. */
  PFN_vkGetPipelineCacheData get = (PFN_vkGetPipelineCacheData)next_device(device, "vkGetPipelineCacheData");
  size_t real_size = 0;
  if (get(device, cache, &real_size, NULL) != VK_SUCCESS) abort();
  void *real = malloc(real_size);
  if (!real || get(device, cache, &real_size, real) != VK_SUCCESS || real_size < HEADER) abort();
  memcpy(data, real, HEADER);
  free(real);
  for (int i = 0; i < PAYLOAD; i++) ((unsigned char *)data)[HEADER + i] = (unsigned char)(i * 7);
  *size = HEADER + PAYLOAD;
  return VK_SUCCESS;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char *name) {
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)device_proc;
  if (strcmp(name, "vkCreatePipelineCache") == 0) return (PFN_vkVoidFunction)create_cache;
  if (strcmp(name, "vkCreateComputePipelines") == 0) return (PFN_vkVoidFunction)create_pipelines;
  if (strcmp(name, "vkGetPipelineCacheData") == 0) return (PFN_vkVoidFunction)get_cache_data;
  return next_device(device, name);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(
    VkPhysicalDevice physical, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *allocator, VkDevice *out) {
  PFN_vkGetInstanceProcAddr next = follow_device_link(info);
  VkDeviceCreateInfo changed = *info;
  VkPhysicalDeviceFeatures all;
  memset(&all, 1, sizeof all); /* no VkBool32 either */
  if (getenv("WITNESS_REFUSES")) changed.pEnabledFeatures = &all;
  return ((PFN_vkCreateDevice)next(instance, "vkCreateDevice"))(physical, &changed, allocator, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(
    const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out) {
  VkResult result = create_instance_below(info, allocator, out);
  instance = *out;
  return result;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_proc(VkInstance handle, const char *name) {
  if (strcmp(name, "vkGetInstanceProcAddr") == 0) return (PFN_vkVoidFunction)instance_proc;
  if (strcmp(name, "vkCreateInstance") == 0) return (PFN_vkVoidFunction)create_instance;
  if (strcmp(name, "vkCreateDevice") == 0) return (PFN_vkVoidFunction)create_device;
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)device_proc;
  return handle ? next_instance(handle, name) : NULL;
}
