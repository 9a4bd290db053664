/* Pipelines: the saved blob goes in, the compiled one comes out, and equal pipelines are one.

   kompute makes an empty VkPipelineCache for each algorithm and a pipeline for each set of buffers. A pipeline is equal to another
   when its SPIR-V, entry point, specialization and pipeline layout are equal byte for byte; layouts that are identically
   defined are compatible (Vulkan 1.3, "Pipeline Layout Compatibility"). Unused ones are kept, within a bound. */
#include <stdlib.h>
#include <string.h>

#include "layer.h"

#define MAX_IDLE_PIPELINES 64
#define CACHE_HEADER_BYTES 32 /* VkPipelineCacheHeaderVersionOne: such a blob holds nothing */

typedef struct vyre_bytes {
  size_t size;
  unsigned char data[];
} vyre_bytes;

struct vyre_shared_pipeline {
  VkPipeline handle;
  uint32_t users;
  uint64_t hash;
  vyre_bytes *signature;
  vyre_shared_pipeline *next;
};

static bool shares(const vyre_device *device) { return device->config.hooks & VYRE_HOOK_SHARED_PIPELINES; }

static void keep_bytes(vyre_device *device, vyre_handle_map *map, uint64_t key, vyre_bytes *bytes) {
  if (!bytes) return;
  pthread_mutex_lock(&device->pipeline_lock);
  bool kept = vyre_map_put(map, key, (uintptr_t)bytes);
  pthread_mutex_unlock(&device->pipeline_lock);
  if (!kept) free(bytes);
}

static void drop_bytes(vyre_device *device, vyre_handle_map *map, uint64_t key) {
  uintptr_t found = 0;
  pthread_mutex_lock(&device->pipeline_lock);
  (void)vyre_map_take(map, key, &found);
  pthread_mutex_unlock(&device->pipeline_lock);
  free((void *)found);
}

static const vyre_bytes *find_bytes(const vyre_handle_map *map, uint64_t key) {
  uintptr_t found = 0;
  return vyre_map_get(map, key, &found) ? (const vyre_bytes *)found : NULL;
}

static vyre_bytes *new_bytes(size_t size) {
  vyre_bytes *bytes = malloc(sizeof *bytes + size);
  if (bytes) bytes->size = size;
  return bytes;
}

/* Appends a length and that many bytes; returns the end. */
static unsigned char *append(unsigned char *at, const void *data, size_t size) {
  uint64_t length = size;
  memcpy(at, &length, sizeof length);
  if (size) memcpy(at + sizeof length, data, size);
  return at + sizeof length + size;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_shader_module(
    VkDevice handle, const VkShaderModuleCreateInfo *info, const VkAllocationCallbacks *allocator, VkShaderModule *out) {
  vyre_device *device = vyre_find_device(handle);
  *out = VK_NULL_HANDLE;
  VkResult result = device->vk.CreateShaderModule(handle, info, allocator, out);
  if (result == VK_SUCCESS && shares(device) && info->flags == 0 && info->pNext == NULL) {
    vyre_bytes *code = new_bytes(info->codeSize);
    if (code) memcpy(code->data, info->pCode, info->codeSize);
    keep_bytes(device, &device->shader_modules, VYRE_HANDLE(*out), code);
  }
  if (result == VK_SUCCESS) vyre_made(VYRE_SHADER_MODULE, VYRE_HANDLE(*out));
  return vyre_record(device, VYRE_CALL_CREATE_PIPELINE, result, 0);
}

static VKAPI_ATTR void VKAPI_CALL destroy_shader_module(
    VkDevice handle, VkShaderModule module, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  if (module) drop_bytes(device, &device->shader_modules, VYRE_HANDLE(module));
  vyre_unmade(VYRE_SHADER_MODULE, VYRE_HANDLE(module));
  device->vk.DestroyShaderModule(handle, module, allocator);
}

static vyre_bytes *describe_set_layout(const VkDescriptorSetLayoutCreateInfo *info) {
  if (info->pNext || info->flags) return NULL;
  vyre_bytes *bytes = new_bytes(info->bindingCount * 4 * sizeof(uint32_t));
  for (uint32_t i = 0; bytes && i < info->bindingCount; i++) {
    const VkDescriptorSetLayoutBinding *binding = &info->pBindings[i];
    if (binding->pImmutableSamplers) {
      free(bytes);
      return NULL;
    }
    uint32_t facts[4] = {
        binding->binding, (uint32_t)binding->descriptorType, binding->descriptorCount, (uint32_t)binding->stageFlags};
    memcpy(bytes->data + i * sizeof facts, facts, sizeof facts);
  }
  return bytes;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_set_layout(
    VkDevice handle, const VkDescriptorSetLayoutCreateInfo *info, const VkAllocationCallbacks *allocator,
    VkDescriptorSetLayout *out) {
  vyre_device *device = vyre_find_device(handle);
  VkResult result = device->vk.CreateDescriptorSetLayout(handle, info, allocator, out);
  if (result == VK_SUCCESS && shares(device)) {
    keep_bytes(device, &device->set_layouts, VYRE_HANDLE(*out), describe_set_layout(info));
  }
  if (result == VK_SUCCESS) vyre_made(VYRE_SET_LAYOUT, VYRE_HANDLE(*out));
  return result;
}

static VKAPI_ATTR void VKAPI_CALL destroy_set_layout(
    VkDevice handle, VkDescriptorSetLayout layout, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  if (layout) drop_bytes(device, &device->set_layouts, VYRE_HANDLE(layout));
  vyre_unmade(VYRE_SET_LAYOUT, VYRE_HANDLE(layout));
  device->vk.DestroyDescriptorSetLayout(handle, layout, allocator);
}

/* Under pipeline_lock. */
static vyre_bytes *describe_pipeline_layout(const vyre_device *device, const VkPipelineLayoutCreateInfo *info) {
  size_t push_bytes = info->pushConstantRangeCount * sizeof *info->pPushConstantRanges;
  size_t size = sizeof(uint64_t) + push_bytes;
  if (info->pNext || info->flags) return NULL;
  for (uint32_t i = 0; i < info->setLayoutCount; i++) {
    const vyre_bytes *set = find_bytes(&device->set_layouts, VYRE_HANDLE(info->pSetLayouts[i]));
    if (!set) return NULL;
    size += sizeof(uint64_t) + set->size;
  }
  vyre_bytes *bytes = new_bytes(size);
  if (!bytes) return NULL;
  unsigned char *at = append(bytes->data, info->pPushConstantRanges, push_bytes);
  for (uint32_t i = 0; i < info->setLayoutCount; i++) {
    const vyre_bytes *set = find_bytes(&device->set_layouts, VYRE_HANDLE(info->pSetLayouts[i]));
    at = append(at, set->data, set->size);
  }
  return bytes;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipeline_layout(
    VkDevice handle, const VkPipelineLayoutCreateInfo *info, const VkAllocationCallbacks *allocator, VkPipelineLayout *out) {
  vyre_device *device = vyre_find_device(handle);
  VkResult result = device->vk.CreatePipelineLayout(handle, info, allocator, out);
  if (result == VK_SUCCESS && shares(device)) {
    pthread_mutex_lock(&device->pipeline_lock);
    vyre_bytes *bytes = describe_pipeline_layout(device, info);
    pthread_mutex_unlock(&device->pipeline_lock);
    keep_bytes(device, &device->pipeline_layouts, VYRE_HANDLE(*out), bytes);
  }
  if (result == VK_SUCCESS) vyre_made(VYRE_PIPELINE_LAYOUT, VYRE_HANDLE(*out));
  return result;
}

static VKAPI_ATTR void VKAPI_CALL destroy_pipeline_layout(
    VkDevice handle, VkPipelineLayout layout, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  if (layout) drop_bytes(device, &device->pipeline_layouts, VYRE_HANDLE(layout));
  vyre_unmade(VYRE_PIPELINE_LAYOUT, VYRE_HANDLE(layout));
  device->vk.DestroyPipelineLayout(handle, layout, allocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipeline_cache(
    VkDevice handle, const VkPipelineCacheCreateInfo *info, const VkAllocationCallbacks *allocator, VkPipelineCache *out) {
  vyre_device *device = vyre_find_device(handle);
  const vyre_thread *thread = vyre_this_thread();
  VkPipelineCacheCreateInfo changed = *info;
  if (device->config.hooks & VYRE_HOOK_PIPELINE_CACHE && thread->blob_in_bytes && info->initialDataSize == 0) {
    changed.initialDataSize = thread->blob_in_bytes;
    changed.pInitialData = thread->blob_in;
    vyre_count(device, VYRE_BLOBS_GIVEN, 1);
  }
  VkResult result = device->vk.CreatePipelineCache(handle, &changed, allocator, out);
  if (result == VK_SUCCESS) vyre_made(VYRE_PIPELINE_CACHE, VYRE_HANDLE(*out));
  return result;
}

/* Equal pipelines have equal signatures: layout, entry point, specialization, code, each with its length. */
static vyre_bytes *sign(const vyre_device *device, const VkComputePipelineCreateInfo *info) {
  const vyre_bytes *code = find_bytes(&device->shader_modules, VYRE_HANDLE(info->stage.module));
  const vyre_bytes *layout = find_bytes(&device->pipeline_layouts, VYRE_HANDLE(info->layout));
  const VkSpecializationInfo none = {0};
  const VkSpecializationInfo *spec = info->stage.pSpecializationInfo ? info->stage.pSpecializationInfo : &none;
  if (!code || !layout || info->flags || info->pNext || info->stage.flags || info->stage.pNext) return NULL;
  size_t name_bytes = strlen(info->stage.pName);
  size_t entry_bytes = spec->mapEntryCount * sizeof *spec->pMapEntries;
  vyre_bytes *bytes =
      new_bytes(5 * sizeof(uint64_t) + layout->size + name_bytes + entry_bytes + spec->dataSize + code->size);
  if (!bytes) return NULL;
  unsigned char *at = append(bytes->data, layout->data, layout->size);
  at = append(at, info->stage.pName, name_bytes);
  at = append(at, spec->pMapEntries, entry_bytes);
  at = append(at, spec->pData, spec->dataSize);
  append(at, code->data, code->size);
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
  vyre_bytes *signature = shares(device) ? sign(device, infos) : NULL;
  uint64_t hash = signature ? hash_bytes(signature) : 0;
  if (signature) *out = take_equal(device, signature, hash);
  pthread_mutex_unlock(&device->pipeline_lock);
  if (*out) {
    free(signature);
    thread->pipeline = (vyre_pipeline_facts){.created = true, .shared = true};
    vyre_count(device, VYRE_PIPELINES_SHARED, 1);
    return VK_SUCCESS;
  }
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

static void free_map_of_bytes(vyre_handle_map *map) {
  for (size_t i = 0; i < map->capacity; i++) {
    if (map->keys[i]) free((void *)map->values[i]);
  }
  vyre_map_free(map);
}

void vyre_pipeline_close(vyre_device *device) {
  while (device->pipelines) {
    vyre_shared_pipeline *pipeline = device->pipelines;
    device->pipelines = pipeline->next;
    free_pipeline(device, pipeline);
  }
  free_map_of_bytes(&device->shader_modules);
  free_map_of_bytes(&device->set_layouts);
  free_map_of_bytes(&device->pipeline_layouts);
}

PFN_vkVoidFunction vyre_pipeline_hook(const char *name) {
  static const vyre_hook HOOKS[] = {
    VYRE_HOOK("vkCreateShaderModule", create_shader_module),
    VYRE_HOOK("vkDestroyShaderModule", destroy_shader_module),
    VYRE_HOOK("vkCreateDescriptorSetLayout", create_set_layout),
    VYRE_HOOK("vkDestroyDescriptorSetLayout", destroy_set_layout),
    VYRE_HOOK("vkCreatePipelineLayout", create_pipeline_layout),
    VYRE_HOOK("vkDestroyPipelineLayout", destroy_pipeline_layout),
    VYRE_HOOK("vkCreatePipelineCache", create_pipeline_cache),
    VYRE_HOOK("vkCreateComputePipelines", create_compute_pipelines),
    VYRE_HOOK("vkDestroyPipeline", destroy_pipeline),
  };
  return VYRE_FIND_HOOK(HOOKS, name);
}
