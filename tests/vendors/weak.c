/* A Vulkan layer that tells of a device as weak as many are, and holds whoever uses it to that.

   16 KiB of workgroup memory, 128 invocations, storage buffers of 128 MiB whose offsets are multiples of 256, 4,096 allocations of
   memory, no numbers of 8, 16 and 64 bits, subgroups of 4 to 64. A device that is opened with a feature it does not have is refused, as any would; a buffer
   that is bound at another offset, or too much of one, ends the process, where a real device would read something else. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layer_below.h"

enum { SHARED = 16384, INVOCATIONS = 128, DEEP = 64, RANGE = 128 << 20, ALIGNMENT = 256, PUSH = 128, UNIFORM = 16384 };
enum { NARROWEST = 4, WIDEST = 64, ALLOCATIONS = 4096 };

static _Atomic int allocations; /* of all devices */

/* What stands below, the same for every instance; asked for later, the loader would give what stands on top. */
static struct {
  PFN_vkGetPhysicalDeviceProperties properties;
  PFN_vkGetPhysicalDeviceProperties2 properties2;
  PFN_vkGetPhysicalDeviceFeatures features;
  PFN_vkGetPhysicalDeviceFeatures2 features2;
  PFN_vkCreateDevice create_device;
} below;

static void at_most(uint32_t *number, uint32_t limit) {
  if (*number > limit) *number = limit;
}

static void weaken_limits(VkPhysicalDeviceLimits *limits) {
  at_most(&limits->maxComputeSharedMemorySize, SHARED);
  at_most(&limits->maxComputeWorkGroupInvocations, INVOCATIONS);
  at_most(&limits->maxComputeWorkGroupSize[0], INVOCATIONS);
  at_most(&limits->maxComputeWorkGroupSize[1], INVOCATIONS);
  at_most(&limits->maxComputeWorkGroupSize[2], DEEP);
  at_most(&limits->maxStorageBufferRange, RANGE);
  at_most(&limits->maxUniformBufferRange, UNIFORM);
  at_most(&limits->maxPushConstantsSize, PUSH);
  at_most(&limits->maxMemoryAllocationCount, ALLOCATIONS);
  limits->minStorageBufferOffsetAlignment = ALIGNMENT;
  limits->minUniformBufferOffsetAlignment = ALIGNMENT;
}

static void weaken_properties(VkBaseOutStructure *at) {
  for (; at; at = at->pNext) {
    if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES) {
      ((VkPhysicalDeviceSubgroupSizeControlProperties *)at)->minSubgroupSize = NARROWEST;
      ((VkPhysicalDeviceSubgroupSizeControlProperties *)at)->maxSubgroupSize = WIDEST;
    } else if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES) {
      ((VkPhysicalDeviceVulkan13Properties *)at)->minSubgroupSize = NARROWEST;
      ((VkPhysicalDeviceVulkan13Properties *)at)->maxSubgroupSize = WIDEST;
    }
  }
}

/* What the device does not have, for each structure that tells of it: its type, then the members. */
#define CORE(X, part) X(part, shaderInt64) X(part, shaderInt16) X(part, shaderFloat64)
#define NARROW16(X, part) \
  X(part, storageBuffer16BitAccess) X(part, uniformAndStorageBuffer16BitAccess) X(part, storagePushConstant16)
#define NARROW8(X, part) X(part, storageBuffer8BitAccess) X(part, uniformAndStorageBuffer8BitAccess) X(part, storagePushConstant8)
#define SMALL(X, part) X(part, shaderFloat16) X(part, shaderInt8)
#define ATOMIC64(X, part) X(part, shaderBufferInt64Atomics) X(part, shaderSharedInt64Atomics)
#define TWELVE(X, part) NARROW8(X, part) SMALL(X, part) ATOMIC64(X, part)
#define STRUCTURES(Y)                                                                                  \
  Y(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, VkPhysicalDeviceVulkan11Features, NARROW16)  \
  Y(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, VkPhysicalDeviceVulkan12Features, TWELVE)    \
  Y(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES, VkPhysicalDevice16BitStorageFeatures, NARROW16) \
  Y(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES, VkPhysicalDevice8BitStorageFeatures, NARROW8)    \
  Y(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, VkPhysicalDeviceShaderFloat16Int8Features, SMALL) \
  Y(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_INT64_FEATURES, VkPhysicalDeviceShaderAtomicInt64Features, ATOMIC64)

#define CLEAR(part, member) (part)->member = VK_FALSE;
#define COUNT(part, member) wanted += (part)->member != VK_FALSE;

static void weaken_features(VkPhysicalDeviceFeatures *features) { CORE(CLEAR, features) }

static void weaken_chain(VkBaseOutStructure *at) {
  for (; at; at = at->pNext) {
#define CLEAR_IN(type, structure, members) \
  if (at->sType == type) {                 \
    structure *part = (structure *)at;     \
    members(CLEAR, part)                   \
  }
    STRUCTURES(CLEAR_IN)
  }
}

static int wanted_in_vain(const VkDeviceCreateInfo *info) {
  int wanted = 0;
  if (info->pEnabledFeatures) { CORE(COUNT, info->pEnabledFeatures) }
  for (const VkBaseInStructure *at = info->pNext; at; at = at->pNext) {
    if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2) {
      const VkPhysicalDeviceFeatures *part = &((const VkPhysicalDeviceFeatures2 *)at)->features;
      CORE(COUNT, part)
    }
#define COUNT_IN(type, structure, members)          \
  if (at->sType == type) {                          \
    const structure *part = (const structure *)at;  \
    members(COUNT, part)                            \
  }
    STRUCTURES(COUNT_IN)
  }
  return wanted;
}

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice physical, VkPhysicalDeviceProperties *out) {
  below.properties(physical, out);
  weaken_limits(&out->limits);
}

static VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *out) {
  below.properties2(physical, out);
  weaken_limits(&out->properties.limits);
  weaken_properties(out->pNext);
}

static VKAPI_ATTR void VKAPI_CALL get_features(VkPhysicalDevice physical, VkPhysicalDeviceFeatures *out) {
  below.features(physical, out);
  weaken_features(out);
}

static VKAPI_ATTR void VKAPI_CALL get_features2(VkPhysicalDevice physical, VkPhysicalDeviceFeatures2 *out) {
  below.features2(physical, out);
  weaken_features(&out->features);
  weaken_chain(out->pNext);
}

/* All of a buffer is at least what it was made of: what it needs of memory may be more, by less than its alignment. */
static VkDeviceSize bound_bytes(VkDevice device, const VkDescriptorBufferInfo *info) {
  if (info->range != VK_WHOLE_SIZE) return info->range;
  VkMemoryRequirements needs;
  ((PFN_vkGetBufferMemoryRequirements)next_device(device, "vkGetBufferMemoryRequirements"))(device, info->buffer, &needs);
  VkDeviceSize bytes = needs.size - info->offset;
  return bytes > RANGE && bytes - RANGE < needs.alignment ? RANGE : bytes;
}

static VKAPI_ATTR void VKAPI_CALL update_sets(
    VkDevice device, uint32_t count, const VkWriteDescriptorSet *writes, uint32_t copies, const VkCopyDescriptorSet *copied) {
  for (uint32_t i = 0; i < count; i++) {
    int is_storage = writes[i].descriptorType == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    if (!is_storage && writes[i].descriptorType != VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER) continue;
    for (uint32_t k = 0; k < writes[i].descriptorCount; k++) {
      const VkDescriptorBufferInfo *info = &writes[i].pBufferInfo[k];
      VkDeviceSize bytes = bound_bytes(device, info), limit = is_storage ? RANGE : UNIFORM;
      if (info->offset % ALIGNMENT || bytes > limit) {
        fprintf(stderr, "weak device: %llu bytes bound at %llu\n", (unsigned long long)bytes, (unsigned long long)info->offset);
        abort();
      }
    }
  }
  ((PFN_vkUpdateDescriptorSets)next_device(device, "vkUpdateDescriptorSets"))(device, count, writes, copies, copied);
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate_memory(
    VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *allocator, VkDeviceMemory *out) {
  if (allocations >= ALLOCATIONS) return VK_ERROR_TOO_MANY_OBJECTS;
  VkResult result = ((PFN_vkAllocateMemory)next_device(device, "vkAllocateMemory"))(device, info, allocator, out);
  if (result == VK_SUCCESS) allocations++;
  return result;
}

static VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks *allocator) {
  if (memory) allocations--;
  ((PFN_vkFreeMemory)next_device(device, "vkFreeMemory"))(device, memory, allocator);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char *name) {
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)device_proc;
  if (strcmp(name, "vkUpdateDescriptorSets") == 0) return (PFN_vkVoidFunction)update_sets;
  if (strcmp(name, "vkAllocateMemory") == 0) return (PFN_vkVoidFunction)allocate_memory;
  if (strcmp(name, "vkFreeMemory") == 0) return (PFN_vkVoidFunction)free_memory;
  return next_device(device, name);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(
    VkPhysicalDevice physical, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *allocator, VkDevice *out) {
  if (wanted_in_vain(info)) return VK_ERROR_FEATURE_NOT_PRESENT;
  follow_device_link(info);
  return below.create_device(physical, info, allocator, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(
    const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out) {
  VkResult result = create_instance_below(info, allocator, out);
  if (result != VK_SUCCESS) return result;
#define FIND(member, name) below.member = (PFN_##name)next_instance(*out, #name)
  FIND(properties, vkGetPhysicalDeviceProperties);
  FIND(properties2, vkGetPhysicalDeviceProperties2);
  FIND(features, vkGetPhysicalDeviceFeatures);
  FIND(features2, vkGetPhysicalDeviceFeatures2);
  FIND(create_device, vkCreateDevice);
  return result;
}

static const struct {
  const char *name;
  PFN_vkVoidFunction function;
} OURS[] = {
    {"vkCreateInstance", (PFN_vkVoidFunction)create_instance},
    {"vkCreateDevice", (PFN_vkVoidFunction)create_device},
    {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)device_proc},
    {"vkGetPhysicalDeviceProperties", (PFN_vkVoidFunction)get_properties},
    {"vkGetPhysicalDeviceProperties2", (PFN_vkVoidFunction)get_properties2},
    {"vkGetPhysicalDeviceProperties2KHR", (PFN_vkVoidFunction)get_properties2},
    {"vkGetPhysicalDeviceFeatures", (PFN_vkVoidFunction)get_features},
    {"vkGetPhysicalDeviceFeatures2", (PFN_vkVoidFunction)get_features2},
    {"vkGetPhysicalDeviceFeatures2KHR", (PFN_vkVoidFunction)get_features2},
};

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_proc(VkInstance handle, const char *name) {
  if (strcmp(name, "vkGetInstanceProcAddr") == 0) return (PFN_vkVoidFunction)instance_proc;
  for (size_t i = 0; i < sizeof OURS / sizeof OURS[0]; i++) {
    if (strcmp(name, OURS[i].name) == 0) return OURS[i].function;
  }
  return handle ? next_instance(handle, name) : NULL;
}
