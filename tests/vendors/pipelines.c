/* A Vulkan layer that remembers the device that is opened above it, and makes pipelines for it that nobody dispatches.

   Who only compiles has no memory to bind, and kompute makes no pipeline without it; so a test loads this library a second time,
   by its path, and calls make_pipeline. What it returns is what the Vulkan driver returned. */
#include <stdint.h>
#include <string.h>

#include "layer_below.h"

enum { MOST_BUFFERS = 64, MOST_WORDS = 64 };

static PFN_vkCreateDevice next_create_device;
static VkDevice opened;

#define CALL(name) ((PFN_##name)next_device(opened, #name))

static VkResult compile(VkShaderModule module, VkPipelineLayout layout, const VkSpecializationInfo *constants, size_t *native) {
  VkPipelineCache cache;
  VkPipelineCacheCreateInfo about_cache = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  VkResult result = CALL(vkCreatePipelineCache)(opened, &about_cache, NULL, &cache);
  if (result != VK_SUCCESS) return result;
  VkComputePipelineCreateInfo about = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module, .pName = "main", .pSpecializationInfo = constants},
      .layout = layout};
  VkPipeline pipeline;
  result = CALL(vkCreateComputePipelines)(opened, cache, 1, &about, NULL, &pipeline);
  if (result == VK_SUCCESS) {
    result = CALL(vkGetPipelineCacheData)(opened, cache, native, NULL);
    CALL(vkDestroyPipeline)(opened, pipeline, NULL);
  }
  CALL(vkDestroyPipelineCache)(opened, cache, NULL);
  return result;
}

static VkResult with_layout(
    VkShaderModule module, uint32_t buffers, uint32_t push_bytes, const VkSpecializationInfo *constants, size_t *native) {
  VkDescriptorSetLayoutBinding bindings[MOST_BUFFERS];
  for (uint32_t slot = 0; slot < buffers; slot++) {
    bindings[slot] = (VkDescriptorSetLayoutBinding){slot, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL};
  }
  VkDescriptorSetLayoutCreateInfo about_set = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = buffers, .pBindings = bindings};
  VkDescriptorSetLayout set;
  VkResult result = CALL(vkCreateDescriptorSetLayout)(opened, &about_set, NULL, &set);
  if (result != VK_SUCCESS) return result;
  VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, push_bytes};
  VkPipelineLayoutCreateInfo about_layout = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1, .pSetLayouts = &set,
      .pushConstantRangeCount = push_bytes != 0, .pPushConstantRanges = &range};
  VkPipelineLayout layout;
  result = CALL(vkCreatePipelineLayout)(opened, &about_layout, NULL, &layout);
  if (result == VK_SUCCESS) {
    result = compile(module, layout, constants, native);
    CALL(vkDestroyPipelineLayout)(opened, layout, NULL);
  }
  CALL(vkDestroyDescriptorSetLayout)(opened, set, NULL);
  return result;
}

/* Compile SPIR-V with buffers 0 to n - 1 in set 0 and words by SpecId; native gets the bytes of a pipeline cache that holds the code. */
__attribute__((visibility("default"))) int make_pipeline(
    const uint32_t *code, size_t bytes, uint32_t buffers, const uint32_t *words, uint32_t count, uint32_t push_bytes, size_t *native) {
  if (!opened || buffers > MOST_BUFFERS || count > MOST_WORDS) return VK_ERROR_INITIALIZATION_FAILED;
  VkSpecializationMapEntry entries[MOST_WORDS];
  for (uint32_t id = 0; id < count; id++) entries[id] = (VkSpecializationMapEntry){id, 4 * id, 4};
  VkSpecializationInfo constants = {count, entries, 4 * (size_t)count, words};
  VkShaderModuleCreateInfo about = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = bytes, .pCode = code};
  VkShaderModule module;
  VkResult result = CALL(vkCreateShaderModule)(opened, &about, NULL, &module);
  if (result != VK_SUCCESS) return result;
  result = with_layout(module, buffers, push_bytes, &constants, native);
  CALL(vkDestroyShaderModule)(opened, module, NULL);
  return result;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char *name) {
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)device_proc;
  return next_device(device, name);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(
    VkPhysicalDevice physical, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *allocator, VkDevice *out) {
  follow_device_link(info);
  VkResult result = next_create_device(physical, info, allocator, out);
  if (result == VK_SUCCESS) opened = *out;
  return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(
    const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out) {
  VkResult result = create_instance_below(info, allocator, out);
  if (result == VK_SUCCESS) next_create_device = (PFN_vkCreateDevice)next_instance(*out, "vkCreateDevice");
  return result;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_proc(VkInstance handle, const char *name) {
  if (strcmp(name, "vkGetInstanceProcAddr") == 0) return (PFN_vkVoidFunction)instance_proc;
  if (strcmp(name, "vkCreateInstance") == 0) return (PFN_vkVoidFunction)create_instance;
  if (strcmp(name, "vkCreateDevice") == 0) return (PFN_vkVoidFunction)create_device;
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)device_proc;
  return handle ? next_instance(handle, name) : NULL;
}
