/* What kompute makes a pipeline of, but the code: layouts of descriptor sets and of pipelines, and descriptor pools.

   Making a pipeline layout takes some drivers longer than all else. Layouts that are identically defined are compatible
   (Vulkan 1.3, "Pipeline Layout Compatibility"). A descriptor pool has one user at a time, and is reset after each. */
#include <stdlib.h>
#include <string.h>

#include "layer.h"
#include "shared.h"

#define MAX_BINDINGS 256 /* of a layout that is shared: it is described on the stack */
#define MAX_POOL_SIZES 16
#define MAX_SETS 16
#define MAX_PUSH_RANGES 16

VYRE_KIND(vyre_set_layout_kind, VYRE_SET_LAYOUT, false, DescriptorSetLayout)

static VKAPI_ATTR VkResult VKAPI_CALL create_set_layout(
    VkDevice handle, const VkDescriptorSetLayoutCreateInfo *info, const VkAllocationCallbacks *allocator,
    VkDescriptorSetLayout *out) {
  vyre_device *device = vyre_find_device(handle);
  uint32_t facts[MAX_BINDINGS][4];
  bool is_plain = !info->pNext && !info->flags && info->bindingCount <= MAX_BINDINGS;
  for (uint32_t i = 0; is_plain && i < info->bindingCount; i++) {
    const VkDescriptorSetLayoutBinding *one = &info->pBindings[i];
    facts[i][0] = one->binding;
    facts[i][1] = (uint32_t)one->descriptorType;
    facts[i][2] = one->descriptorCount;
    facts[i][3] = (uint32_t)one->stageFlags;
    is_plain = !one->pImmutableSamplers;
  }
  uint64_t made = 0;
  VkResult result = vyre_share(
      device, &device->set_layouts, &vyre_set_layout_kind, is_plain ? facts : NULL, info->bindingCount * sizeof *facts, info, allocator,
      &made);
  *out = (VkDescriptorSetLayout)(uintptr_t)made;
  return result;
}

static VKAPI_ATTR void VKAPI_CALL destroy_set_layout(
    VkDevice handle, VkDescriptorSetLayout layout, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  vyre_unshare(device, &device->set_layouts, &vyre_set_layout_kind, VYRE_HANDLE(layout), allocator);
}

VYRE_KIND(vyre_pipeline_layout_kind, VYRE_PIPELINE_LAYOUT, false, PipelineLayout)

static bool find_serials(vyre_device *device, const VkPipelineLayoutCreateInfo *info, uint64_t *serials) {
  bool found = true;
  pthread_mutex_lock(&device->pipeline_lock);
  for (uint32_t i = 0; found && i < info->setLayoutCount; i++) {
    const vyre_shared *set = vyre_shared_find(device->set_layouts, VYRE_HANDLE(info->pSetLayouts[i]));
    found = set != NULL;
    if (found) serials[i] = set->serial;
  }
  pthread_mutex_unlock(&device->pipeline_lock);
  return found;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipeline_layout(
    VkDevice handle, const VkPipelineLayoutCreateInfo *info, const VkAllocationCallbacks *allocator, VkPipelineLayout *out) {
  vyre_device *device = vyre_find_device(handle);
  size_t push_bytes = info->pushConstantRangeCount * sizeof *info->pPushConstantRanges;
  uint64_t serials[MAX_SETS], made = 0;
  unsigned char facts[2 * sizeof(uint64_t) + sizeof serials + MAX_PUSH_RANGES * sizeof *info->pPushConstantRanges];
  unsigned char *end = facts;
  bool is_plain = !info->pNext && !info->flags && info->setLayoutCount <= MAX_SETS &&
                  info->pushConstantRangeCount <= MAX_PUSH_RANGES && find_serials(device, info, serials);
  if (is_plain) {
    end = vyre_append(facts, info->pPushConstantRanges, push_bytes);
    end = vyre_append(end, serials, info->setLayoutCount * sizeof *serials);
  }
  VkResult result = vyre_share(
      device, &device->pipeline_layouts, &vyre_pipeline_layout_kind, is_plain ? facts : NULL, (size_t)(end - facts), info, allocator,
      &made);
  *out = (VkPipelineLayout)(uintptr_t)made;
  return result;
}

static VKAPI_ATTR void VKAPI_CALL destroy_pipeline_layout(
    VkDevice handle, VkPipelineLayout layout, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  vyre_unshare(device, &device->pipeline_layouts, &vyre_pipeline_layout_kind, VYRE_HANDLE(layout), allocator);
}

static void prepare(vyre_device *device, uint32_t buffers, uint32_t push_bytes) {
  VkDescriptorSetLayoutBinding bindings[MAX_BINDINGS] = {{0}};
  VkDescriptorSetLayoutCreateInfo set_info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = buffers, .pBindings = bindings};
  VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, push_bytes};
  VkDescriptorSetLayout set = VK_NULL_HANDLE;
  VkPipelineLayoutCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1, .pSetLayouts = &set,
      .pushConstantRangeCount = push_bytes ? 1 : 0, .pPushConstantRanges = &push};
  VkPipelineLayout made = VK_NULL_HANDLE;
  for (uint32_t i = 0; i < buffers; i++) {
    bindings[i] = (VkDescriptorSetLayoutBinding){i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL};
  }
  if (create_set_layout(device->handle, &set_info, NULL, &set) != VK_SUCCESS) return;
  if (create_pipeline_layout(device->handle, &info, NULL, &made) == VK_SUCCESS) {
    destroy_pipeline_layout(device->handle, made, NULL); /* nobody's from now on, and kept for who wants it next */
  }
  destroy_set_layout(device->handle, set, NULL);
}

void vyre_prepare_layout(vyre_device *device, uint32_t buffers, uint32_t push_bytes) {
  if (buffers > MAX_BINDINGS || !vyre_enter(device)) return;
  vyre_keep_forks_out();
  prepare(device, buffers, push_bytes);
  vyre_let_forks_in();
  vyre_leave(device);
}

VYRE_KIND(vyre_descriptor_pool_kind, VYRE_DESCRIPTOR_POOL, true, DescriptorPool)

typedef struct pool_facts {
  uint32_t flags, sets;
  VkDescriptorPoolSize sizes[MAX_POOL_SIZES];
} pool_facts;

static VKAPI_ATTR VkResult VKAPI_CALL create_descriptor_pool(
    VkDevice handle, const VkDescriptorPoolCreateInfo *info, const VkAllocationCallbacks *allocator, VkDescriptorPool *out) {
  vyre_device *device = vyre_find_device(handle);
  pool_facts facts = {.flags = info->flags, .sets = info->maxSets};
  bool is_plain = !info->pNext && info->poolSizeCount <= MAX_POOL_SIZES;
  size_t sizes_bytes = info->poolSizeCount * sizeof *info->pPoolSizes;
  if (is_plain && sizes_bytes) memcpy(facts.sizes, info->pPoolSizes, sizes_bytes);
  uint64_t made = 0;
  VkResult result = vyre_share(
      device, &device->descriptor_pools, &vyre_descriptor_pool_kind, is_plain ? &facts : NULL,
      offsetof(pool_facts, sizes) + sizes_bytes, info, allocator, &made);
  *out = (VkDescriptorPool)(uintptr_t)made;
  return result;
}

VkResult vyre_take_descriptor_pool(vyre_device *device, uint32_t buffers, VkDescriptorPool *out) {
  VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, buffers};
  VkDescriptorPoolCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = 1, .poolSizeCount = 1, .pPoolSizes = &size};
  return create_descriptor_pool(device->handle, &info, NULL, out);
}

static VKAPI_ATTR void VKAPI_CALL destroy_descriptor_pool(
    VkDevice handle, VkDescriptorPool pool, const VkAllocationCallbacks *allocator) {
  vyre_device *device = vyre_find_device(handle);
  if (pool) (void)device->vk.ResetDescriptorPool(handle, pool, 0); /* it cannot fail */
  vyre_unshare(device, &device->descriptor_pools, &vyre_descriptor_pool_kind, VYRE_HANDLE(pool), allocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate_descriptor_sets(
    VkDevice handle, const VkDescriptorSetAllocateInfo *info, VkDescriptorSet *out) {
  VkResult result = vyre_find_device(handle)->vk.AllocateDescriptorSets(handle, info, out);
  bool is_one = result == VK_SUCCESS && info->descriptorSetCount == 1;
  vyre_this_thread()->bound.set = is_one ? out[0] : VK_NULL_HANDLE;
  vyre_this_thread()->bound.set_layout = is_one ? info->pSetLayouts[0] : VK_NULL_HANDLE;
  return result;
}

void vyre_layouts_close(vyre_device *device) {
  vyre_shared_close(device, &device->descriptor_pools, &vyre_descriptor_pool_kind);
  vyre_shared_close(device, &device->pipeline_layouts, &vyre_pipeline_layout_kind);
  vyre_shared_close(device, &device->set_layouts, &vyre_set_layout_kind);
}

PFN_vkVoidFunction vyre_layout_hook(const char *name) {
  static const vyre_hook HOOKS[] = {
    VYRE_HOOK("vkCreateDescriptorSetLayout", create_set_layout),
    VYRE_HOOK("vkDestroyDescriptorSetLayout", destroy_set_layout),
    VYRE_HOOK("vkCreatePipelineLayout", create_pipeline_layout),
    VYRE_HOOK("vkDestroyPipelineLayout", destroy_pipeline_layout),
    VYRE_HOOK("vkCreateDescriptorPool", create_descriptor_pool),
    VYRE_HOOK("vkDestroyDescriptorPool", destroy_descriptor_pool),
    VYRE_HOOK("vkAllocateDescriptorSets", allocate_descriptor_sets),
  };
  return VYRE_FIND_HOOK(HOOKS, name);
}
