/* Device features by name: which the device has, and the structures that switch the wanted ones on.

   Source: Vulkan 1.3, "Features"; one bit a feature, in the order of the lists below. */
#include <stdlib.h>
#include <string.h>

#include "layer.h"

#ifndef VK_KHR_cooperative_matrix /* headers before 1.3.255 */
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR ((VkStructureType)1000506000)
typedef struct VkPhysicalDeviceCooperativeMatrixFeaturesKHR {
  VkStructureType sType;
  void *pNext;
  VkBool32 cooperativeMatrix;
  VkBool32 cooperativeMatrixRobustBufferAccess;
} VkPhysicalDeviceCooperativeMatrixFeaturesKHR;
#endif

#define CORE_FEATURES(X) X(shaderFloat64) X(shaderInt64) X(shaderInt16) X(robustBufferAccess)
#define FEATURES_11(X) \
  X(storageBuffer16BitAccess) X(uniformAndStorageBuffer16BitAccess) X(storagePushConstant16) \
  X(variablePointersStorageBuffer) X(variablePointers)
#define FEATURES_12(X) \
  X(storageBuffer8BitAccess) X(uniformAndStorageBuffer8BitAccess) X(storagePushConstant8) X(shaderFloat16) X(shaderInt8) \
  X(shaderBufferInt64Atomics) X(shaderSharedInt64Atomics) X(shaderSubgroupExtendedTypes) X(scalarBlockLayout) \
  X(uniformBufferStandardLayout) X(vulkanMemoryModel) X(vulkanMemoryModelDeviceScope) X(bufferDeviceAddress)
#define FEATURES_13(X) \
  X(subgroupSizeControl) X(computeFullSubgroups) X(shaderIntegerDotProduct) X(maintenance4) \
  X(shaderZeroInitializeWorkgroupMemory)
#define FEATURES_COOPERATIVE_MATRIX(X) X(cooperativeMatrix)
#define FEATURES_ATOMIC_FLOAT(X) X(shaderBufferFloat32Atomics) X(shaderBufferFloat32AtomicAdd) X(shaderSharedFloat32AtomicAdd)

#define BIT(name) FEATURE_##name,
enum {
  CORE_FEATURES(BIT) FEATURES_11(BIT) FEATURES_12(BIT) FEATURES_13(BIT) FEATURES_COOPERATIVE_MATRIX(BIT)
      FEATURES_ATOMIC_FLOAT(BIT) FEATURE_COUNT
};
#undef BIT
_Static_assert(FEATURE_COUNT <= 64, "features are bits of a uint64_t");

#define NAME(name) #name,
static const char *const NAMES[] = {CORE_FEATURES(NAME) FEATURES_11(NAME) FEATURES_12(NAME) FEATURES_13(NAME)
                                        FEATURES_COOPERATIVE_MATRIX(NAME) FEATURES_ATOMIC_FLOAT(NAME)};
#undef NAME

struct vyre_feature_chain {
  VkPhysicalDeviceFeatures core;
  VkPhysicalDeviceVulkan11Features v11;
  VkPhysicalDeviceVulkan12Features v12;
  VkPhysicalDeviceVulkan13Features v13;
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix;
  VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomic_float;
  const void *head;
};

int vyre_feature_index(const char *name) {
  for (int i = 0; i < FEATURE_COUNT; i++) {
    if (strcmp(NAMES[i], name) == 0) return i;
  }
  return -1;
}

const char *vyre_feature_name(uint32_t index) { return index < FEATURE_COUNT ? NAMES[index] : NULL; }

static void init(vyre_feature_chain *chain) {
  memset(chain, 0, sizeof *chain);
  chain->v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  chain->v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  chain->v13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
  chain->matrix.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
  chain->atomic_float.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT;
}

/* The version structures are of Vulkan 1.2 and 1.3; a driver ignores a structure of an extension that it does not know. */
static void link_structures(vyre_feature_chain *chain, uint32_t api_version, bool matrix, bool atomic_float, void *tail) {
  if (atomic_float) {
    chain->atomic_float.pNext = tail;
    tail = &chain->atomic_float;
  }
  if (matrix) {
    chain->matrix.pNext = tail;
    tail = &chain->matrix;
  }
  if (api_version >= VK_API_VERSION_1_3) {
    chain->v13.pNext = tail;
    tail = &chain->v13;
  }
  if (api_version >= VK_API_VERSION_1_2) {
    chain->v12.pNext = tail;
    chain->v11.pNext = &chain->v12;
    tail = &chain->v11;
  }
  chain->head = tail;
}

uint64_t vyre_supported_features(
    uint32_t api_version, VkPhysicalDevice device, PFN_vkGetPhysicalDeviceFeatures features,
    PFN_vkGetPhysicalDeviceFeatures2 features2) {
  vyre_feature_chain chain;
  uint64_t found = 0;
  init(&chain);
  if (features2 && api_version >= VK_API_VERSION_1_1) {
    VkPhysicalDeviceFeatures2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    link_structures(&chain, api_version, true, true, NULL);
    all.pNext = (void *)chain.head;
    features2(device, &all);
    chain.core = all.features;
  } else if (features) {
    features(device, &chain.core);
  }
#define SEE(part, name) \
  if (chain.part.name) found |= UINT64_C(1) << FEATURE_##name;
#define X(name) SEE(core, name)
  CORE_FEATURES(X)
#undef X
#define X(name) SEE(v11, name)
  FEATURES_11(X)
#undef X
#define X(name) SEE(v12, name)
  FEATURES_12(X)
#undef X
#define X(name) SEE(v13, name)
  FEATURES_13(X)
#undef X
#define X(name) SEE(matrix, name)
  FEATURES_COOPERATIVE_MATRIX(X)
#undef X
#define X(name) SEE(atomic_float, name)
  FEATURES_ATOMIC_FLOAT(X)
#undef X
  return found;
}

vyre_feature_chain *vyre_feature_chain_new(uint64_t features, uint32_t api_version, const void *next) {
  vyre_feature_chain *chain = malloc(sizeof *chain);
  if (!chain) return NULL;
  init(chain);
  bool matrix = features >> FEATURE_cooperativeMatrix & 1;
  bool atomic_float = false;
#define WANT(part, name) chain->part.name = features >> FEATURE_##name & 1;
#define X(name) WANT(core, name)
  CORE_FEATURES(X)
#undef X
#define X(name) WANT(v11, name)
  FEATURES_11(X)
#undef X
#define X(name) WANT(v12, name)
  FEATURES_12(X)
#undef X
#define X(name) WANT(v13, name)
  FEATURES_13(X)
#undef X
#define X(name) WANT(matrix, name)
  FEATURES_COOPERATIVE_MATRIX(X)
#undef X
#define X(name) WANT(atomic_float, name) atomic_float |= chain->atomic_float.name;
  FEATURES_ATOMIC_FLOAT(X)
#undef X
  link_structures(chain, api_version, matrix, atomic_float, (void *)next);
  return chain;
}

const VkPhysicalDeviceFeatures *vyre_feature_chain_core(const vyre_feature_chain *chain) { return &chain->core; }

const void *vyre_feature_chain_head(const vyre_feature_chain *chain) { return chain->head; }
