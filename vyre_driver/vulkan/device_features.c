/* Device features by name: which the device has, and the structures that switch the wanted ones on.

   Source: Vulkan 1.3, "Features"; one bit a feature, in the order of the lists below. */
#include <stdlib.h>
#include <string.h>

#include "device_features.h"
#include "newer_vulkan.h"

/* X(part, feature): the part is the structure that holds it. */
#define FEATURES(X) \
  X(core, shaderFloat64) X(core, shaderInt64) X(core, shaderInt16) X(core, robustBufferAccess) \
  X(v11, storageBuffer16BitAccess) X(v11, uniformAndStorageBuffer16BitAccess) X(v11, storagePushConstant16) \
  X(v11, variablePointersStorageBuffer) X(v11, variablePointers) \
  X(v12, storageBuffer8BitAccess) X(v12, uniformAndStorageBuffer8BitAccess) X(v12, storagePushConstant8) \
  X(v12, shaderFloat16) X(v12, shaderInt8) X(v12, shaderBufferInt64Atomics) X(v12, shaderSharedInt64Atomics) \
  X(v12, shaderSubgroupExtendedTypes) X(v12, scalarBlockLayout) X(v12, uniformBufferStandardLayout) \
  X(v12, vulkanMemoryModel) X(v12, vulkanMemoryModelDeviceScope) X(v12, vulkanMemoryModelAvailabilityVisibilityChains) \
  X(v12, bufferDeviceAddress) X(v12, timelineSemaphore) X(v12, hostQueryReset) \
  X(v13, subgroupSizeControl) X(v13, computeFullSubgroups) X(v13, shaderIntegerDotProduct) X(v13, maintenance4) \
  X(v13, shaderZeroInitializeWorkgroupMemory) X(v13, synchronization2) X(v13, pipelineCreationCacheControl) \
  X(matrix, cooperativeMatrix) X(matrix, cooperativeMatrixRobustBufferAccess) \
  X(atomic_float, shaderBufferFloat32Atomics) X(atomic_float, shaderBufferFloat32AtomicAdd) \
  X(atomic_float, shaderSharedFloat32AtomicAdd) \
  X(robustness2, robustBufferAccess2) X(robustness2, nullDescriptor) \
  X(pipeline_binary, pipelineBinaries) \
  X(executables, pipelineExecutableInfo) \
  X(bfloat16, shaderBFloat16Type) X(bfloat16, shaderBFloat16DotProduct) X(bfloat16, shaderBFloat16CooperativeMatrix) \
  X(float8, shaderFloat8) X(float8, shaderFloat8CooperativeMatrix) \
  X(matrix2, cooperativeMatrixWorkgroupScope) X(matrix2, cooperativeMatrixFlexibleDimensions) \
  X(matrix2, cooperativeMatrixReductions) X(matrix2, cooperativeMatrixConversions) \
  X(matrix2, cooperativeMatrixPerElementOperations) X(matrix2, cooperativeMatrixTensorAddressing) \
  X(matrix2, cooperativeMatrixBlockLoads)

#define BIT(part, name) FEATURE_##name,
enum { FEATURES(BIT) FEATURE_COUNT };
#undef BIT
_Static_assert(FEATURE_COUNT <= 64, "features are bits of a uint64_t");

#define NAME(part, name) #name,
static const char *const NAMES[] = {FEATURES(NAME)};
#undef NAME

/* The parts that extensions brought. A feature may only be switched on together with its extension. */
#define EXTENSION_PARTS(X) \
  X(matrix) X(atomic_float) X(robustness2) X(pipeline_binary) X(executables) X(bfloat16) X(float8) X(matrix2)

#define PART(part) PART_##part,
enum { PART_core, PART_v11, PART_v12, PART_v13, EXTENSION_PARTS(PART) PART_COUNT };
#undef PART
#define ALL_PARTS ((UINT32_C(1) << PART_COUNT) - 1)

struct vyre_feature_chain {
  VkPhysicalDeviceFeatures core;
  VkPhysicalDeviceVulkan11Features v11;
  VkPhysicalDeviceVulkan12Features v12;
  VkPhysicalDeviceVulkan13Features v13;
  vyre_cooperative_matrix_features matrix;
  VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomic_float;
  VkPhysicalDeviceRobustness2FeaturesEXT robustness2;
  vyre_pipeline_binary_features pipeline_binary;
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables;
  vyre_bfloat16_features bfloat16;
  vyre_float8_features float8;
  vyre_cooperative_matrix2_features matrix2;
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
  chain->matrix.sType = VYRE_TYPE_COOPERATIVE_MATRIX_FEATURES;
  chain->atomic_float.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT;
  chain->robustness2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT;
  chain->pipeline_binary.sType = VYRE_TYPE_PIPELINE_BINARY_FEATURES;
  chain->executables.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR;
  chain->bfloat16.sType = VYRE_TYPE_BFLOAT16_FEATURES;
  chain->float8.sType = VYRE_TYPE_FLOAT8_FEATURES;
  chain->matrix2.sType = VYRE_TYPE_COOPERATIVE_MATRIX2_FEATURES;
}

/* The version structures are of Vulkan 1.2 and 1.3; a driver ignores a structure of an extension that it does not know. */
static void link_structures(vyre_feature_chain *chain, uint32_t api_version, uint32_t parts, void *tail) {
#define LINK(part) \
  if (parts >> PART_##part & 1) { \
    chain->part.pNext = tail; \
    tail = &chain->part; \
  }
  EXTENSION_PARTS(LINK)
#undef LINK
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
    link_structures(&chain, api_version, ALL_PARTS, NULL);
    all.pNext = (void *)chain.head;
    features2(device, &all);
    chain.core = all.features;
  } else if (features) {
    features(device, &chain.core);
  }
#define SEE(part, name) \
  if (chain.part.name) found |= UINT64_C(1) << FEATURE_##name;
  FEATURES(SEE)
#undef SEE
  return found;
}

vyre_feature_chain *vyre_feature_chain_new(void) { return malloc(sizeof(vyre_feature_chain)); }

void vyre_feature_chain_fill(vyre_feature_chain *chain, uint64_t features, uint32_t api_version, const void *next) {
  init(chain);
  uint32_t parts = 0;
#define WANT(part, name) \
  if (features >> FEATURE_##name & 1) { \
    chain->part.name = VK_TRUE; \
    parts |= UINT32_C(1) << PART_##part; \
  }
  FEATURES(WANT)
#undef WANT
  link_structures(chain, api_version, parts, (void *)next);
}

const VkPhysicalDeviceFeatures *vyre_feature_chain_core(const vyre_feature_chain *chain) { return &chain->core; }

const void *vyre_feature_chain_head(const vyre_feature_chain *chain) { return chain->head; }
