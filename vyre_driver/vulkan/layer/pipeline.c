/* Pipelines: the saved blob goes in, the compiled one comes out, and equal pipelines are one, as equal shader modules are.

   kompute makes an empty VkPipelineCache for each algorithm and a pipeline for each set of buffers. A pipeline is equal to another
   when its SPIR-V, entry point, specialization and pipeline layout are equal byte for byte, and the size of its subgroups is;
   layouts: layouts.c. */
#include <stdlib.h>
#include <string.h>

#include "layer.h"
#include "shared.h"

#define CACHE_HEADER_BYTES 32 /* VkPipelineCacheHeaderVersionOne: such a blob holds nothing */

VYRE_KIND(vyre_shader_module_kind, VYRE_SHADER_MODULE, false, ShaderModule)

static VKAPI_ATTR VkResult VKAPI_CALL create_shader_module(
    VkDevice handle, const VkShaderModuleCreateInfo *info, const VkAllocationCallbacks *allocator, VkShaderModule *out) {
  vyre_device *device = vyre_find_device(handle);
  bool is_plain = !info->flags && !info->pNext;
  uint64_t made = 0;
  VkResult result = vyre_share(
      device, &device->shader_modules, &vyre_shader_module_kind, is_plain ? info->pCode : NULL, info->codeSize, info, allocator, &made);
  *out = (VkShaderModule)(uintptr_t)made;
  return vyre_record(device, VYRE_CALL_CREATE_PIPELINE, result, 0);
}

static VKAPI_ATTR void VKAPI_CALL destroy_shader_module(
    VkDevice handle, VkShaderModule module, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  vyre_unshare(device, &device->shader_modules, &vyre_shader_module_kind, VYRE_HANDLE(module), allocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipeline_cache(
    VkDevice handle, const VkPipelineCacheCreateInfo *info, const VkAllocationCallbacks *allocator, VkPipelineCache *out) {
  VkResult result = vyre_find_device(handle)->vk.CreatePipelineCache(handle, info, allocator, out);
  if (result == VK_SUCCESS) vyre_made(VYRE_PIPELINE_CACHE, VYRE_HANDLE(*out));
  return result;
}

/* A cache of the thread's blob, where there is one: kompute's is empty. Made only where something is compiled, since the driver reads
   all of the blob. NULL: kompute's will do. */
static VkPipelineCache cache_of_blob(vyre_device *device) {
  const vyre_thread *thread = vyre_this_thread();
  VkPipelineCacheCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = thread->blob_in_bytes,
      .pInitialData = thread->blob_in};
  VkPipelineCache made = VK_NULL_HANDLE;
  if (!thread->blob_in_bytes) return VK_NULL_HANDLE;
  if (device->vk.CreatePipelineCache(device->handle, &info, NULL, &made) != VK_SUCCESS) return VK_NULL_HANDLE;
  vyre_count(device, VYRE_BLOBS_GIVEN, 1);
  return made;
}

/* Equal pipelines have equal signatures: shader module, layout, the size that is required of the thread's next pipeline, entry
   point and specialization, the last two with their lengths.
   Under pipeline_lock. NULL: it is not to be shared, or there is no memory for it. */
static unsigned char *sign(const vyre_device *device, const VkComputePipelineCreateInfo *info, size_t *size) {
  const vyre_shared *code = vyre_shared_find(device->shader_modules, VYRE_HANDLE(info->stage.module));
  const vyre_shared *layout = vyre_shared_find(device->pipeline_layouts, VYRE_HANDLE(info->layout));
  const VkSpecializationInfo none = {0};
  const VkSpecializationInfo *spec = info->stage.pSpecializationInfo ? info->stage.pSpecializationInfo : &none;
  if (!code || !layout || info->flags || info->pNext || info->stage.flags || info->stage.pNext) return NULL;
  uint64_t numbers[3] = {code->serial, layout->serial, vyre_this_thread()->subgroup_size};
  size_t name_bytes = strlen(info->stage.pName);
  size_t entry_bytes = spec->mapEntryCount * sizeof *spec->pMapEntries;
  *size = sizeof numbers + 3 * sizeof(uint64_t) + name_bytes + entry_bytes + spec->dataSize;
  unsigned char *signature = malloc(*size);
  if (!signature) return NULL;
  memcpy(signature, numbers, sizeof numbers);
  unsigned char *at = vyre_append(signature + sizeof numbers, info->stage.pName, name_bytes);
  at = vyre_append(at, spec->pMapEntries, entry_bytes);
  vyre_append(at, spec->pData, spec->dataSize);
  return signature;
}

static void end_pipeline(vyre_device *device, uint64_t handle, const VkAllocationCallbacks *allocator) {
  device->vk.DestroyPipeline(device->handle, (VkPipeline)(uintptr_t)handle, allocator);
}

const vyre_kind vyre_pipeline_kind = {VYRE_PIPELINE, false, NULL, end_pipeline};

static void take_blob(vyre_device *device, VkPipelineCache cache) {
  vyre_thread *thread = vyre_this_thread();
  size_t size = 0;
  VkResult result;
  if (!thread->want_blob || !cache) return;
  do {
    free(thread->blob_out);
    thread->blob_out = NULL;
    result = device->vk.GetPipelineCacheData(device->handle, cache, &size, NULL);
    if (result != VK_SUCCESS || size <= CACHE_HEADER_BYTES) return;
    thread->blob_out = malloc(size);
    if (!thread->blob_out) return;
    result = device->vk.GetPipelineCacheData(device->handle, cache, &size, thread->blob_out);
  } while (result == VK_INCOMPLETE);
  if (result != VK_SUCCESS) {
    free(thread->blob_out);
    thread->blob_out = NULL;
    return;
  }
  thread->blob_out_bytes = size;
  vyre_count(device, VYRE_BLOBS_TAKEN, 1);
}

static VkResult compile(
    vyre_device *device, VkPipelineCache cache, const VkComputePipelineCreateInfo *info,
    const VkAllocationCallbacks *allocator, VkPipeline *out) {
  vyre_pipeline_facts *facts = &vyre_this_thread()->pipeline;
  VkComputePipelineCreateInfo changed = *info;
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo required = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
      .pNext = (void *)info->stage.pNext,
      .requiredSubgroupSize = vyre_this_thread()->subgroup_size};
  VkPipelineCreationFeedback whole = {0}, stage = {0};
  VkPipelineCreationFeedbackCreateInfo feedback = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO,
      .pNext = info->pNext,
      .pPipelineCreationFeedback = &whole,
      .pipelineStageCreationFeedbackCount = 1,
      .pPipelineStageCreationFeedbacks = &stage};
  bool asks = device->api_version >= VK_API_VERSION_1_3 && device->config.api_version >= VK_API_VERSION_1_3;
  if (asks) changed.pNext = &feedback;
  if (device->captures_statistics) changed.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
  if (required.requiredSubgroupSize) {
    changed.stage.pNext = &required;
    changed.stage.flags |= VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  }
  VkResult result = vyre_injected(VYRE_CALL_CREATE_PIPELINE);
  uint64_t start = vyre_now_ns();
  if (result == VK_SUCCESS) {
    /* What is read here lives in kompute's frames and in Python's arguments of them. */
    void *gil = vyre_let_gil_go();
    vyre_keep_forks_out();
    result = device->vk.CreateComputePipelines(device->handle, cache, 1, &changed, allocator, out);
    vyre_let_forks_in();
    vyre_take_gil_back(gil);
  }
  facts->compile_ns = vyre_now_ns() - start;
  facts->created = result == VK_SUCCESS;
  facts->feedback = asks && whole.flags & VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT;
  facts->cache_hit = facts->feedback && whole.flags & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT;
  return result;
}

static void hand_out(const VkComputePipelineCreateInfo *info, VkPipeline pipeline) {
  vyre_thread *thread = vyre_this_thread();
  thread->bound.pipeline = pipeline;
  thread->bound.layout = info->layout;
  vyre_made(VYRE_PIPELINE, VYRE_HANDLE(pipeline));
}

static VKAPI_ATTR VkResult VKAPI_CALL create_compute_pipelines(
    VkDevice handle, VkPipelineCache cache, uint32_t count, const VkComputePipelineCreateInfo *infos,
    const VkAllocationCallbacks *allocator, VkPipeline *out) {
  vyre_device *device = vyre_find_device(handle);
  if (count != 1) return device->vk.CreateComputePipelines(handle, cache, count, infos, allocator, out);
  vyre_thread *thread = vyre_this_thread();
  thread->pipeline = (vyre_pipeline_facts){0};
  *out = VK_NULL_HANDLE;
  if (!infos->stage.module || !infos->layout) {
    return vyre_record(device, VYRE_CALL_CREATE_PIPELINE, VK_ERROR_INITIALIZATION_FAILED, 0);
  }
  size_t size = 0;
  pthread_mutex_lock(&device->pipeline_lock);
  unsigned char *signature = sign(device, infos, &size);
  const vyre_shared *equal = signature ? vyre_shared_take(&device->pipelines, signature, size) : NULL;
  if (equal) *out = (VkPipeline)(uintptr_t)equal->handle;
  pthread_mutex_unlock(&device->pipeline_lock);
  if (equal) {
    free(signature);
    hand_out(infos, *out);
    thread->pipeline = (vyre_pipeline_facts){.created = true, .shared = true};
    vyre_count(device, VYRE_PIPELINES_SHARED, 1);
    return VK_SUCCESS;
  }
  VkPipelineCache filled = cache_of_blob(device);
  if (filled) cache = filled;
  VkResult result = compile(device, cache, infos, allocator, out);
  if (result == VK_SUCCESS && signature) {
    pthread_mutex_lock(&device->pipeline_lock);
    vyre_shared_add(device, &device->pipelines, signature, size, VYRE_HANDLE(*out));
    pthread_mutex_unlock(&device->pipeline_lock);
  }
  free(signature);
  if (result == VK_SUCCESS) {
    hand_out(infos, *out);
    vyre_count(device, VYRE_PIPELINES_CREATED, 1);
    /* What was found in a blob is in it already: reading it back takes milliseconds for half a megabyte. */
    if (!filled || !vyre_this_thread()->pipeline.cache_hit) take_blob(device, cache);
  }
  if (filled) device->vk.DestroyPipelineCache(handle, filled, NULL);
  return vyre_record(device, VYRE_CALL_CREATE_PIPELINE, result, 0);
}

static VKAPI_ATTR void VKAPI_CALL destroy_pipeline(
    VkDevice handle, VkPipeline pipeline, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  vyre_unshare(device, &device->pipelines, &vyre_pipeline_kind, VYRE_HANDLE(pipeline), allocator);
}

void vyre_pipeline_close(vyre_device *device) {
  vyre_shared_close(device, &device->pipelines, &vyre_pipeline_kind);
  vyre_shared_close(device, &device->shader_modules, &vyre_shader_module_kind);
  vyre_layouts_close(device);
}

PFN_vkVoidFunction vyre_pipeline_hook(const char *name) {
  static const vyre_hook HOOKS[] = {
    VYRE_HOOK("vkCreateShaderModule", create_shader_module),
    VYRE_HOOK("vkDestroyShaderModule", destroy_shader_module),
    VYRE_HOOK("vkCreatePipelineCache", create_pipeline_cache),
    VYRE_HOOK("vkCreateComputePipelines", create_compute_pipelines),
    VYRE_HOOK("vkDestroyPipeline", destroy_pipeline),
  };
  PFN_vkVoidFunction found = VYRE_FIND_HOOK(HOOKS, name);
  return found ? found : vyre_layout_hook(name);
}
