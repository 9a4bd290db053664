/* Pipelines of a mock device, and what they are made of. */
#include "mock.h"

#define BLOB_BYTES 100

typedef struct mock_pipeline {
  uint32_t subgroup_size; /* required; 0: none is */
  bool captured;
} mock_pipeline;

uint32_t mock_subgroup_size(VkPipeline pipeline) { return ((mock_pipeline *)pipeline)->subgroup_size; }

/* Of sets that are written by several descriptors in one call, as the recorder does, which then binds them on the same thread. */
static _Thread_local VkDescriptorSet updated_set;
static _Thread_local mock_buffer *updated[MAX_TOUCHED];
static _Thread_local uint32_t updated_count;

mock_buffer *const *mock_updated(VkDescriptorSet set, uint32_t *count) {
  *count = set == updated_set ? updated_count : 0;
  updated_set = VK_NULL_HANDLE;
  return updated;
}

static void update_sets(
    VkDevice d, uint32_t writes, const VkWriteDescriptorSet *write, uint32_t copies, const VkCopyDescriptorSet *copy) {
  (void)d, (void)copies, (void)copy;
  updated_set = writes > 1 ? write->dstSet : VK_NULL_HANDLE;
  updated_count = writes;
  for (uint32_t i = 0; i < writes; i++) {
    updated[i] = (mock_buffer *)write[i].pBufferInfo->buffer;
    const VkDescriptorBufferInfo *info = write[i].pBufferInfo;
    VkDeviceSize size = ((mock_buffer *)info->buffer)->size;
    CHECK(info->offset < size, "a range begins past its buffer");
    CHECK(info->range == VK_WHOLE_SIZE || info->range <= size - info->offset, "a range ends past its buffer");
  }
}

#define PLAIN(name, Type) \
  static VkResult create_##name(VkDevice d, const Vk##Type##CreateInfo *info, const VkAllocationCallbacks *a, Vk##Type *out) { \
    (void)info, (void)a; \
    *out = (Vk##Type)mock_make(16, DEVICE(d)); \
    return VK_SUCCESS; \
  } \
  static void destroy_##name(VkDevice d, Vk##Type thing, const VkAllocationCallbacks *a) { \
    (void)a; \
    mock_drop((void *)thing, DEVICE(d)); \
  }
PLAIN(module, ShaderModule)
PLAIN(set_layout, DescriptorSetLayout)
PLAIN(pipeline_layout, PipelineLayout)
PLAIN(cache, PipelineCache)
PLAIN(descriptor_pool, DescriptorPool)

static VkResult allocate_sets(VkDevice d, const VkDescriptorSetAllocateInfo *info, VkDescriptorSet *out) {
  (void)d;
  CHECK(info->descriptorSetCount == 1, "one set comes from a pool");
  *out = (VkDescriptorSet)info->descriptorPool;
  return VK_SUCCESS;
}

static VkResult reset_descriptor_pool(VkDevice d, VkDescriptorPool pool, VkDescriptorPoolResetFlags flags) {
  (void)d, (void)flags;
  memset((void *)pool, 0, 16);
  return VK_SUCCESS;
}

static VkResult cache_data(VkDevice d, VkPipelineCache cache, size_t *size, void *out) {
  (void)d, (void)cache;
  if (out) memset(out, 9, *size);
  VkResult result = out && *size < BLOB_BYTES ? VK_INCOMPLETE : VK_SUCCESS;
  *size = BLOB_BYTES;
  return result;
}

static uint32_t required_size(const VkPipelineShaderStageCreateInfo *stage) {
  const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo *required = stage->pNext;
  bool full = stage->flags == VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  CHECK(full == (required != NULL) && full == (stage->flags != 0), "a size is required, or full subgroups are, and not both");
  if (!required) return 0;
  CHECK(required->sType == VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO, "not a size");
  return required->requiredSubgroupSize;
}

static VkResult create_pipelines(
    VkDevice d, VkPipelineCache cache, uint32_t count, const VkComputePipelineCreateInfo *infos,
    const VkAllocationCallbacks *a, VkPipeline *out) {
  (void)cache, (void)a;
  for (const VkBaseInStructure *next = infos->pNext; next; next = next->pNext) {
    const VkPipelineCreationFeedbackCreateInfo *feedback = (const VkPipelineCreationFeedbackCreateInfo *)next;
    if (next->sType == VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO) {
      feedback->pPipelineCreationFeedback->flags = VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT;
    }
  }
  for (uint32_t i = 0; i < count; i++) {
    mock_pipeline *made = mock_make(sizeof *made, DEVICE(d));
    made->subgroup_size = required_size(&infos[i].stage);
    made->captured = infos[i].flags & VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
    CHECK(made->captured == DEVICE(d)->captures, "statistics are captured just where the feature is on");
    out[i] = (VkPipeline)made;
  }
  return VK_SUCCESS;
}

/* Another one is there each second time. */
static VkResult executables(
    VkDevice d, const VkPipelineInfoKHR *info, uint32_t *count, VkPipelineExecutablePropertiesKHR *out) {
  static _Thread_local uint32_t asked;
  uint32_t room = *count, there = out ? 2 : 1 + ++asked % 2;
  CHECK(DEVICE(d)->captures && ((mock_pipeline *)info->pipeline)->captured, "a pipeline is asked that was not captured");
  VkResult failure = mock_failure("vkGetPipelineExecutablePropertiesKHR");
  if (failure) return failure;
  *count = out && room < there ? room : there;
  for (uint32_t i = 0; out && i < *count; i++) {
    CHECK(out[i].sType == VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR, "properties of another type");
    out[i].subgroupSize = 32;
    memset(out[i].name, 'n', sizeof out[i].name);
  }
  return *count < there ? VK_INCOMPLETE : VK_SUCCESS;
}

static VkResult statistics(
    VkDevice d, const VkPipelineExecutableInfoKHR *info, uint32_t *count, VkPipelineExecutableStatisticKHR *out) {
  CHECK(DEVICE(d)->captures && ((mock_pipeline *)info->pipeline)->captured, "a pipeline is asked that was not captured");
  VkResult failure = mock_failure("vkGetPipelineExecutableStatisticsKHR");
  if (failure) return failure;
  *count = info->executableIndex ? 0 : 3; /* the second has none */
  for (uint32_t i = 0; out && i < *count; i++) {
    CHECK(out[i].sType == VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR, "statistics of another type");
    out[i].format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR;
    out[i].value.u64 = i;
  }
  return VK_SUCCESS;
}

static void destroy_pipeline(VkDevice d, VkPipeline pipeline, const VkAllocationCallbacks *a) {
  (void)a;
  mock_drop((void *)pipeline, DEVICE(d));
}

PFN_vkVoidFunction mock_pipeline_proc(const char *name) {
  NAMED(UpdateDescriptorSets, update_sets)
  NAMED(CreateShaderModule, create_module)
  NAMED(DestroyShaderModule, destroy_module)
  NAMED(CreateDescriptorSetLayout, create_set_layout)
  NAMED(DestroyDescriptorSetLayout, destroy_set_layout)
  NAMED(CreatePipelineLayout, create_pipeline_layout)
  NAMED(DestroyPipelineLayout, destroy_pipeline_layout)
  NAMED(CreatePipelineCache, create_cache)
  NAMED(DestroyPipelineCache, destroy_cache)
  NAMED(GetPipelineCacheData, cache_data)
  NAMED(CreateComputePipelines, create_pipelines)
  NAMED(DestroyPipeline, destroy_pipeline)
  NAMED(GetPipelineExecutablePropertiesKHR, executables)
  NAMED(GetPipelineExecutableStatisticsKHR, statistics)
  NAMED(CreateDescriptorPool, create_descriptor_pool)
  NAMED(DestroyDescriptorPool, destroy_descriptor_pool)
  NAMED(ResetDescriptorPool, reset_descriptor_pool)
  NAMED(AllocateDescriptorSets, allocate_sets)
  return NULL;
}
