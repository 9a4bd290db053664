/* Pipelines: the saved blob goes in, the compiled one comes out, and equal pipelines are one (their layouts: layouts.c).

   kompute makes an empty VkPipelineCache for each algorithm and a pipeline for each set of buffers. A pipeline is equal to another
   when its SPIR-V, entry point, specialization and pipeline layout are equal byte for byte; layouts that are identically
   defined are compatible (Vulkan 1.3, "Pipeline Layout Compatibility"). Unused ones are kept, within a bound. */
#include <stdlib.h>
#include <string.h>

#include "layer.h"
#include "layouts.h"

#define MAX_IDLE_PIPELINES 64
#define CACHE_HEADER_BYTES 32 /* VkPipelineCacheHeaderVersionOne: such a blob holds nothing */

struct vyre_shared_pipeline {
  VkPipeline handle;
  uint32_t users;
  uint64_t hash;
  vyre_bytes *signature;
  vyre_shared_pipeline *next;
};

static VKAPI_ATTR VkResult VKAPI_CALL create_shader_module(
    VkDevice handle, const VkShaderModuleCreateInfo *info, const VkAllocationCallbacks *allocator, VkShaderModule *out) {
  vyre_device *device = vyre_find_device(handle);
  *out = VK_NULL_HANDLE;
  VkResult result = device->vk.CreateShaderModule(handle, info, allocator, out);
  if (result == VK_SUCCESS && vyre_shares(device) && info->flags == 0 && info->pNext == NULL) {
    vyre_bytes *code = vyre_new_bytes(info->codeSize);
    if (code) memcpy(code->data, info->pCode, info->codeSize);
    vyre_keep_bytes(device, &device->shader_modules, VYRE_HANDLE(*out), code);
  }
  if (result == VK_SUCCESS) vyre_made(VYRE_SHADER_MODULE, VYRE_HANDLE(*out));
  return vyre_record(device, VYRE_CALL_CREATE_PIPELINE, result, 0);
}

static VKAPI_ATTR void VKAPI_CALL destroy_shader_module(
    VkDevice handle, VkShaderModule module, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  if (module) vyre_drop_bytes(device, &device->shader_modules, VYRE_HANDLE(module));
  vyre_unmade(VYRE_SHADER_MODULE, VYRE_HANDLE(module));
  device->vk.DestroyShaderModule(handle, module, allocator);
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
  if (!(device->config.hooks & VYRE_HOOK_PIPELINE_CACHE) || !thread->blob_in_bytes) return VK_NULL_HANDLE;
  if (device->vk.CreatePipelineCache(device->handle, &info, NULL, &made) != VK_SUCCESS) return VK_NULL_HANDLE;
  vyre_count(device, VYRE_BLOBS_GIVEN, 1);
  return made;
}

/* Equal pipelines have equal signatures: layout, entry point, specialization, code, each with its length. */
static vyre_bytes *sign(const vyre_device *device, const VkComputePipelineCreateInfo *info) {
  const vyre_bytes *code = vyre_find_bytes(&device->shader_modules, VYRE_HANDLE(info->stage.module));
  const vyre_bytes *layout = vyre_find_bytes(&device->pipeline_layouts, VYRE_HANDLE(info->layout));
  const VkSpecializationInfo none = {0};
  const VkSpecializationInfo *spec = info->stage.pSpecializationInfo ? info->stage.pSpecializationInfo : &none;
  if (!code || !layout || info->flags || info->pNext || info->stage.flags || info->stage.pNext) return NULL;
  size_t name_bytes = strlen(info->stage.pName);
  size_t entry_bytes = spec->mapEntryCount * sizeof *spec->pMapEntries;
  vyre_bytes *bytes =
      vyre_new_bytes(5 * sizeof(uint64_t) + layout->size + name_bytes + entry_bytes + spec->dataSize + code->size);
  if (!bytes) return NULL;
  unsigned char *at = vyre_append(bytes->data, layout->data, layout->size);
  at = vyre_append(at, info->stage.pName, name_bytes);
  at = vyre_append(at, spec->pMapEntries, entry_bytes);
  at = vyre_append(at, spec->pData, spec->dataSize);
  vyre_append(at, code->data, code->size);
  return bytes;
}

static uint64_t hash_bytes(const vyre_bytes *bytes) {
  uint64_t hash = UINT64_C(0xCBF29CE484222325);
  for (size_t i = 0; i < bytes->size; i++) hash = (hash ^ bytes->data[i]) * UINT64_C(0x100000001B3);
  return hash;
}

/* Under pipeline_lock. An equal pipeline moves to the front and gets a user. */
static VkPipeline take_equal(vyre_device *device, const vyre_bytes *signature, uint64_t hash) {
  for (vyre_shared_pipeline **at = &device->pipelines; *at; at = &(*at)->next) {
    vyre_shared_pipeline *pipeline = *at;
    if (pipeline->hash != hash || pipeline->signature->size != signature->size) continue;
    if (memcmp(pipeline->signature->data, signature->data, signature->size) != 0) continue;
    *at = pipeline->next;
    pipeline->next = device->pipelines;
    device->pipelines = pipeline;
    pipeline->users++;
    return pipeline->handle;
  }
  return VK_NULL_HANDLE;
}

static void free_pipeline(vyre_device *device, vyre_shared_pipeline *pipeline) {
  device->vk.DestroyPipeline(device->handle, pipeline->handle, NULL);
  free(pipeline->signature);
  free(pipeline);
}

static void take_blob(vyre_device *device, VkPipelineCache cache) {
  vyre_thread *thread = vyre_this_thread();
  size_t size = 0;
  VkResult result;
  if (!thread->want_blob || !cache || !(device->config.hooks & VYRE_HOOK_PIPELINE_CACHE)) return;
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
  VkPipelineCreationFeedback whole = {0}, stage = {0};
  VkPipelineCreationFeedbackCreateInfo feedback = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO,
      .pNext = info->pNext,
      .pPipelineCreationFeedback = &whole,
      .pipelineStageCreationFeedbackCount = 1,
      .pPipelineStageCreationFeedbacks = &stage};
  bool asks = device->api_version >= VK_API_VERSION_1_3 && device->config.api_version >= VK_API_VERSION_1_3;
  if (asks) changed.pNext = &feedback;
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
  pthread_mutex_lock(&device->pipeline_lock);
  vyre_bytes *signature = vyre_shares(device) ? sign(device, infos) : NULL;
  uint64_t hash = signature ? hash_bytes(signature) : 0;
  if (signature) *out = take_equal(device, signature, hash);
  pthread_mutex_unlock(&device->pipeline_lock);
  if (*out) {
    free(signature);
    thread->pipeline = (vyre_pipeline_facts){.created = true, .shared = true};
    vyre_count(device, VYRE_PIPELINES_SHARED, 1);
    return VK_SUCCESS;
  }
  VkPipelineCache filled = cache_of_blob(device);
  if (filled) cache = filled;
  VkResult result = compile(device, cache, infos, allocator, out);
  vyre_shared_pipeline *made = signature && result == VK_SUCCESS ? calloc(1, sizeof *made) : NULL;
  if (made) {
    *made = (vyre_shared_pipeline){.handle = *out, .users = 1, .hash = hash, .signature = signature};
    pthread_mutex_lock(&device->pipeline_lock);
    made->next = device->pipelines;
    device->pipelines = made;
    pthread_mutex_unlock(&device->pipeline_lock);
  } else {
    free(signature);
  }
  if (result == VK_SUCCESS) {
    vyre_count(device, VYRE_PIPELINES_CREATED, 1);
    take_blob(device, cache);
  }
  if (filled) device->vk.DestroyPipelineCache(handle, filled, NULL);
  return vyre_record(device, VYRE_CALL_CREATE_PIPELINE, result, 0);
}

/* Under pipeline_lock. Takes the least recently used idle pipeline out when there are too many. */
static vyre_shared_pipeline *cut_idle(vyre_device *device) {
  size_t idle = 0;
  vyre_shared_pipeline **last = NULL;
  for (vyre_shared_pipeline **at = &device->pipelines; *at; at = &(*at)->next) {
    if ((*at)->users == 0) {
      idle++;
      last = at;
    }
  }
  if (idle <= MAX_IDLE_PIPELINES) return NULL;
  vyre_shared_pipeline *cut = *last;
  *last = cut->next;
  return cut;
}

static VKAPI_ATTR void VKAPI_CALL destroy_pipeline(
    VkDevice handle, VkPipeline pipeline, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  vyre_shared_pipeline *cut = NULL;
  bool known = false;
  if (!pipeline) return;
  pthread_mutex_lock(&device->pipeline_lock);
  for (vyre_shared_pipeline *at = device->pipelines; at && !known; at = at->next) {
    known = at->handle == pipeline;
    if (known) at->users--;
  }
  if (known) cut = cut_idle(device);
  pthread_mutex_unlock(&device->pipeline_lock);
  if (!known) device->vk.DestroyPipeline(handle, pipeline, allocator);
  if (cut) free_pipeline(device, cut);
}

void vyre_pipeline_close(vyre_device *device) {
  while (device->pipelines) {
    vyre_shared_pipeline *pipeline = device->pipelines;
    device->pipelines = pipeline->next;
    free_pipeline(device, pipeline);
  }
  vyre_free_map_of_bytes(&device->shader_modules);
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
