/* Vulkan newer than the oldest headers this package builds with (1.3.239), under names of our own.

   Where the installed headers have them too, the compiler proves below that both agree.
   Source: Vulkan 1.4 specification, extensions VK_KHR_cooperative_matrix, VK_KHR_pipeline_binary, VK_KHR_shader_bfloat16,
   VK_EXT_shader_float8, VK_NV_cooperative_matrix2. */
#ifndef VYRE_NEWER_VULKAN_H
#define VYRE_NEWER_VULKAN_H

#include <stddef.h>
#include <vulkan/vulkan.h>

#define VYRE_TYPE_COOPERATIVE_MATRIX_FEATURES ((VkStructureType)1000506000)
#define VYRE_TYPE_COOPERATIVE_MATRIX_SHAPE ((VkStructureType)1000506001)
#define VYRE_TYPE_COOPERATIVE_MATRIX_PROPERTIES ((VkStructureType)1000506002)
#define VYRE_TYPE_PIPELINE_BINARY_FEATURES ((VkStructureType)1000483000)
#define VYRE_TYPE_PIPELINE_BINARY_PROPERTIES ((VkStructureType)1000483004)
#define VYRE_TYPE_BFLOAT16_FEATURES ((VkStructureType)1000141000)
#define VYRE_TYPE_FLOAT8_FEATURES ((VkStructureType)1000567000)
#define VYRE_TYPE_COOPERATIVE_MATRIX2_FEATURES ((VkStructureType)1000593000)
#define VYRE_TYPE_FLEXIBLE_MATRIX_SHAPE ((VkStructureType)1000593001)
#define VYRE_TYPE_COOPERATIVE_MATRIX2_PROPERTIES ((VkStructureType)1000593002)

typedef struct vyre_cooperative_matrix_features {
  VkStructureType sType;
  void *pNext;
  VkBool32 cooperativeMatrix;
  VkBool32 cooperativeMatrixRobustBufferAccess;
} vyre_cooperative_matrix_features;

typedef struct vyre_cooperative_matrix_properties {
  VkStructureType sType;
  void *pNext;
  VkShaderStageFlags cooperativeMatrixSupportedStages;
} vyre_cooperative_matrix_properties;

/* Result (m x n) = A (m x k) * B (k x n) + C (m x n); types are VkComponentTypeKHR, the scope is VkScopeKHR. */
typedef struct vyre_cooperative_matrix_shape {
  VkStructureType sType;
  void *pNext;
  uint32_t MSize;
  uint32_t NSize;
  uint32_t KSize;
  uint32_t AType;
  uint32_t BType;
  uint32_t CType;
  uint32_t ResultType;
  VkBool32 saturatingAccumulation;
  uint32_t scope;
} vyre_cooperative_matrix_shape;

typedef VkResult(VKAPI_PTR *vyre_get_cooperative_matrix_shapes)(VkPhysicalDevice, uint32_t *, vyre_cooperative_matrix_shape *);

typedef struct vyre_pipeline_binary_features {
  VkStructureType sType;
  void *pNext;
  VkBool32 pipelineBinaries;
} vyre_pipeline_binary_features;

typedef struct vyre_pipeline_binary_properties {
  VkStructureType sType;
  void *pNext;
  VkBool32 pipelineBinaryInternalCache;
  VkBool32 pipelineBinaryInternalCacheControl;
  VkBool32 pipelineBinaryPrefersInternalCache;
  VkBool32 pipelineBinaryPrecompiledInternalCache;
  VkBool32 pipelineBinaryCompressedData;
} vyre_pipeline_binary_properties;

typedef struct vyre_bfloat16_features {
  VkStructureType sType;
  void *pNext;
  VkBool32 shaderBFloat16Type;
  VkBool32 shaderBFloat16DotProduct;
  VkBool32 shaderBFloat16CooperativeMatrix;
} vyre_bfloat16_features;

typedef struct vyre_float8_features {
  VkStructureType sType;
  void *pNext;
  VkBool32 shaderFloat8;
  VkBool32 shaderFloat8CooperativeMatrix;
} vyre_float8_features;

typedef struct vyre_cooperative_matrix2_features {
  VkStructureType sType;
  void *pNext;
  VkBool32 cooperativeMatrixWorkgroupScope;
  VkBool32 cooperativeMatrixFlexibleDimensions;
  VkBool32 cooperativeMatrixReductions;
  VkBool32 cooperativeMatrixConversions;
  VkBool32 cooperativeMatrixPerElementOperations;
  VkBool32 cooperativeMatrixTensorAddressing;
  VkBool32 cooperativeMatrixBlockLoads;
} vyre_cooperative_matrix2_features;

typedef struct vyre_cooperative_matrix2_properties {
  VkStructureType sType;
  void *pNext;
  uint32_t cooperativeMatrixWorkgroupScopeMaxWorkgroupSize;
  uint32_t cooperativeMatrixFlexibleDimensionsMaxDimension;
  uint32_t cooperativeMatrixWorkgroupScopeReservedSharedMemory;
} vyre_cooperative_matrix2_properties;

/* Sizes are multiples of the granularities; workgroupInvocations is the size of the workgroup where that is the scope. */
typedef struct vyre_flexible_matrix_shape {
  VkStructureType sType;
  void *pNext;
  uint32_t MGranularity;
  uint32_t NGranularity;
  uint32_t KGranularity;
  uint32_t AType;
  uint32_t BType;
  uint32_t CType;
  uint32_t ResultType;
  VkBool32 saturatingAccumulation;
  uint32_t scope;
  uint32_t workgroupInvocations;
} vyre_flexible_matrix_shape;

typedef VkResult(VKAPI_PTR *vyre_get_flexible_matrix_shapes)(VkPhysicalDevice, uint32_t *, vyre_flexible_matrix_shape *);

/* One structure in two spellings: as long, and its last member (so every member before it) in the same place. */
#define VYRE_AGREE(ours, theirs, last, our_type, their_type) \
  _Static_assert(sizeof(ours) == sizeof(theirs), #ours " differs from " #theirs " in size"); \
  _Static_assert(offsetof(ours, last) == offsetof(theirs, last), #ours " differs from " #theirs " at " #last); \
  _Static_assert((int)(our_type) == (int)(their_type), #ours " differs from " #theirs " in its number")

#ifdef VK_KHR_cooperative_matrix
VYRE_AGREE(
    vyre_cooperative_matrix_features, VkPhysicalDeviceCooperativeMatrixFeaturesKHR, cooperativeMatrixRobustBufferAccess,
    VYRE_TYPE_COOPERATIVE_MATRIX_FEATURES, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR);
VYRE_AGREE(
    vyre_cooperative_matrix_properties, VkPhysicalDeviceCooperativeMatrixPropertiesKHR, cooperativeMatrixSupportedStages,
    VYRE_TYPE_COOPERATIVE_MATRIX_PROPERTIES, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_PROPERTIES_KHR);
VYRE_AGREE(
    vyre_cooperative_matrix_shape, VkCooperativeMatrixPropertiesKHR, scope, VYRE_TYPE_COOPERATIVE_MATRIX_SHAPE,
    VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR);
#endif
#ifdef VK_KHR_pipeline_binary
VYRE_AGREE(
    vyre_pipeline_binary_features, VkPhysicalDevicePipelineBinaryFeaturesKHR, pipelineBinaries,
    VYRE_TYPE_PIPELINE_BINARY_FEATURES, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR);
VYRE_AGREE(
    vyre_pipeline_binary_properties, VkPhysicalDevicePipelineBinaryPropertiesKHR, pipelineBinaryCompressedData,
    VYRE_TYPE_PIPELINE_BINARY_PROPERTIES, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR);
#endif
#ifdef VK_KHR_shader_bfloat16
VYRE_AGREE(
    vyre_bfloat16_features, VkPhysicalDeviceShaderBfloat16FeaturesKHR, shaderBFloat16CooperativeMatrix,
    VYRE_TYPE_BFLOAT16_FEATURES, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR);
#endif
#ifdef VK_EXT_shader_float8
VYRE_AGREE(
    vyre_float8_features, VkPhysicalDeviceShaderFloat8FeaturesEXT, shaderFloat8CooperativeMatrix, VYRE_TYPE_FLOAT8_FEATURES,
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT8_FEATURES_EXT);
#endif
#ifdef VK_NV_cooperative_matrix2
VYRE_AGREE(
    vyre_cooperative_matrix2_features, VkPhysicalDeviceCooperativeMatrix2FeaturesNV, cooperativeMatrixBlockLoads,
    VYRE_TYPE_COOPERATIVE_MATRIX2_FEATURES, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV);
VYRE_AGREE(
    vyre_cooperative_matrix2_properties, VkPhysicalDeviceCooperativeMatrix2PropertiesNV,
    cooperativeMatrixWorkgroupScopeReservedSharedMemory, VYRE_TYPE_COOPERATIVE_MATRIX2_PROPERTIES,
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_PROPERTIES_NV);
VYRE_AGREE(
    vyre_flexible_matrix_shape, VkCooperativeMatrixFlexibleDimensionsPropertiesNV, workgroupInvocations,
    VYRE_TYPE_FLEXIBLE_MATRIX_SHAPE, VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV);
#endif

#endif
