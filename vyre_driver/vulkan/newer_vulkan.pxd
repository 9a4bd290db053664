"""The declarations of newer_vulkan.h: Vulkan that the oldest supported headers lack."""

from libc.stdint cimport uint32_t

from vyre_driver.vulkan.vk cimport VkBool32, VkPhysicalDevice, VkResult, VkStructureType


cdef extern from "newer_vulkan.h" nogil:
    enum: VYRE_TYPE_COOPERATIVE_MATRIX_SHAPE
    enum: VYRE_TYPE_COOPERATIVE_MATRIX_PROPERTIES
    enum: VYRE_TYPE_PIPELINE_BINARY_PROPERTIES
    enum: VYRE_TYPE_FLEXIBLE_MATRIX_SHAPE
    enum: VYRE_TYPE_COOPERATIVE_MATRIX2_PROPERTIES

    ctypedef struct vyre_cooperative_matrix_properties:
        uint32_t cooperativeMatrixSupportedStages
    ctypedef struct vyre_cooperative_matrix_shape:
        VkStructureType sType
        uint32_t MSize
        uint32_t NSize
        uint32_t KSize
        uint32_t AType
        uint32_t BType
        uint32_t CType
        uint32_t ResultType
        VkBool32 saturatingAccumulation
        uint32_t scope
    ctypedef struct vyre_cooperative_matrix2_properties:
        uint32_t cooperativeMatrixWorkgroupScopeMaxWorkgroupSize
        uint32_t cooperativeMatrixFlexibleDimensionsMaxDimension
        uint32_t cooperativeMatrixWorkgroupScopeReservedSharedMemory
    ctypedef struct vyre_flexible_matrix_shape:
        VkStructureType sType
        uint32_t MGranularity
        uint32_t NGranularity
        uint32_t KGranularity
        uint32_t AType
        uint32_t BType
        uint32_t CType
        uint32_t ResultType
        VkBool32 saturatingAccumulation
        uint32_t scope
        uint32_t workgroupInvocations
    ctypedef struct vyre_pipeline_binary_properties:
        VkBool32 pipelineBinaryInternalCache
        VkBool32 pipelineBinaryInternalCacheControl
        VkBool32 pipelineBinaryPrefersInternalCache
        VkBool32 pipelineBinaryPrecompiledInternalCache
        VkBool32 pipelineBinaryCompressedData
    ctypedef VkResult (*vyre_get_cooperative_matrix_shapes)(
        VkPhysicalDevice, uint32_t*, vyre_cooperative_matrix_shape*)
    ctypedef VkResult (*vyre_get_flexible_matrix_shapes)(VkPhysicalDevice, uint32_t*, vyre_flexible_matrix_shape*)
