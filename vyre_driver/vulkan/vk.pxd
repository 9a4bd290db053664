"""The declarations of vulkan.h that the probe and the layer's face use; opaque where only a pointer travels."""

from libc.stdint cimport int32_t, uint32_t, uint64_t, uint8_t


cdef extern from "vulkan/vulkan.h" nogil:
    ctypedef uint32_t VkBool32
    ctypedef uint64_t VkDeviceSize
    ctypedef int32_t VkResult
    ctypedef int32_t VkStructureType
    ctypedef struct VkInstance_T:
        pass
    ctypedef VkInstance_T* VkInstance
    ctypedef struct VkPhysicalDevice_T:
        pass
    ctypedef VkPhysicalDevice_T* VkPhysicalDevice
    ctypedef void (*PFN_vkVoidFunction)()

    enum: VK_SUCCESS
    enum: VK_INCOMPLETE
    enum: VK_ERROR_INCOMPATIBLE_DRIVER
    enum: VK_UUID_SIZE
    enum: VK_API_VERSION_1_0
    enum: VK_API_VERSION_1_1
    enum: VK_API_VERSION_1_2
    enum: VK_API_VERSION_1_3
    enum: VK_STRUCTURE_TYPE_APPLICATION_INFO
    enum: VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO
    enum: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2
    enum: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES
    enum: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES
    enum: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES
    enum: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT
    enum: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES
    enum: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES
    enum: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES
    enum: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_PROPERTIES_EXT
    enum: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES
    enum: VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE
    enum: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV
    enum: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD
    enum: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2
    enum: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT

    ctypedef struct VkBaseOutStructure:
        VkStructureType sType
        VkBaseOutStructure* pNext
    ctypedef struct VkApplicationInfo:
        VkStructureType sType
        const char* pApplicationName
        const char* pEngineName
        uint32_t apiVersion
    ctypedef struct VkInstanceCreateInfo:
        VkStructureType sType
        const VkApplicationInfo* pApplicationInfo
    ctypedef struct VkPhysicalDeviceLimits:
        uint32_t maxStorageBufferRange
        uint32_t maxPushConstantsSize
        uint32_t maxPerStageDescriptorStorageBuffers
        uint32_t maxComputeSharedMemorySize
        uint32_t[3] maxComputeWorkGroupCount
        uint32_t maxComputeWorkGroupInvocations
        uint32_t[3] maxComputeWorkGroupSize
        size_t minMemoryMapAlignment
        VkDeviceSize minStorageBufferOffsetAlignment
        VkDeviceSize nonCoherentAtomSize
        uint32_t maxMemoryAllocationCount
        VkBool32 timestampComputeAndGraphics
        float timestampPeriod
    ctypedef struct VkPhysicalDeviceProperties:
        uint32_t apiVersion
        uint32_t driverVersion
        uint32_t vendorID
        uint32_t deviceID
        int32_t deviceType
        char* deviceName
        uint8_t* pipelineCacheUUID
        VkPhysicalDeviceLimits limits
    ctypedef struct VkPhysicalDeviceProperties2:
        VkStructureType sType
        void* pNext
        VkPhysicalDeviceProperties properties
    ctypedef struct VkPhysicalDeviceIDProperties:
        uint8_t* deviceUUID
        uint8_t* driverUUID
    ctypedef struct VkPhysicalDeviceSubgroupProperties:
        uint32_t subgroupSize
        uint32_t supportedStages
        uint32_t supportedOperations
    ctypedef struct VkPhysicalDeviceMaintenance3Properties:
        uint32_t maxPerSetDescriptors
        VkDeviceSize maxMemoryAllocationSize
    ctypedef struct VkPhysicalDeviceMaintenance4Properties:
        VkDeviceSize maxBufferSize
    ctypedef struct VkPhysicalDeviceSubgroupSizeControlProperties:
        uint32_t minSubgroupSize
        uint32_t maxSubgroupSize
        uint32_t maxComputeWorkgroupSubgroups
        uint32_t requiredSubgroupSizeStages
    ctypedef struct VkPhysicalDeviceRobustness2PropertiesEXT:
        VkDeviceSize robustStorageBufferAccessSizeAlignment
    ctypedef struct VkPhysicalDeviceFloatControlsProperties:
        int32_t denormBehaviorIndependence
        int32_t roundingModeIndependence
        VkBool32 shaderSignedZeroInfNanPreserveFloat16
        VkBool32 shaderSignedZeroInfNanPreserveFloat32
        VkBool32 shaderSignedZeroInfNanPreserveFloat64
        VkBool32 shaderDenormPreserveFloat16
        VkBool32 shaderDenormPreserveFloat32
        VkBool32 shaderDenormPreserveFloat64
        VkBool32 shaderDenormFlushToZeroFloat16
        VkBool32 shaderDenormFlushToZeroFloat32
        VkBool32 shaderDenormFlushToZeroFloat64
        VkBool32 shaderRoundingModeRTEFloat16
        VkBool32 shaderRoundingModeRTEFloat32
        VkBool32 shaderRoundingModeRTEFloat64
        VkBool32 shaderRoundingModeRTZFloat16
        VkBool32 shaderRoundingModeRTZFloat32
        VkBool32 shaderRoundingModeRTZFloat64
    ctypedef struct VkPhysicalDeviceShaderSMBuiltinsPropertiesNV:
        uint32_t shaderSMCount
    ctypedef struct VkPhysicalDeviceShaderCoreProperties2AMD:
        uint32_t activeComputeUnitCount
    ctypedef struct VkConformanceVersion:
        uint8_t major
        uint8_t minor
        uint8_t subminor
        uint8_t patch
    ctypedef struct VkPhysicalDeviceDriverProperties:
        int32_t driverID
        char* driverName
        char* driverInfo
        VkConformanceVersion conformanceVersion
    ctypedef struct VkPhysicalDevicePCIBusInfoPropertiesEXT:
        uint32_t pciDomain
        uint32_t pciBus
        uint32_t pciDevice
        uint32_t pciFunction
    ctypedef struct VkExtensionProperties:
        char* extensionName
        uint32_t specVersion
    ctypedef struct VkQueueFamilyProperties:
        uint32_t queueFlags
        uint32_t queueCount
        uint32_t timestampValidBits
    ctypedef struct VkMemoryHeap:
        VkDeviceSize size
        uint32_t flags
    ctypedef struct VkMemoryType:
        uint32_t propertyFlags
        uint32_t heapIndex
    ctypedef struct VkPhysicalDeviceMemoryProperties:
        uint32_t memoryTypeCount
        VkMemoryType* memoryTypes
        uint32_t memoryHeapCount
        VkMemoryHeap* memoryHeaps
    ctypedef struct VkPhysicalDeviceMemoryProperties2:
        VkStructureType sType
        void* pNext
        VkPhysicalDeviceMemoryProperties memoryProperties
    ctypedef struct VkPhysicalDeviceMemoryBudgetPropertiesEXT:
        VkDeviceSize* heapBudget
        VkDeviceSize* heapUsage

    ctypedef struct VkPhysicalDeviceFeatures:
        pass
    ctypedef struct VkPhysicalDeviceFeatures2:
        pass
    ctypedef void (*PFN_vkGetPhysicalDeviceFeatures)(VkPhysicalDevice, VkPhysicalDeviceFeatures*)
    ctypedef void (*PFN_vkGetPhysicalDeviceFeatures2)(VkPhysicalDevice, VkPhysicalDeviceFeatures2*)
    ctypedef PFN_vkVoidFunction (*PFN_vkGetInstanceProcAddr)(VkInstance, const char*)
    ctypedef VkResult (*PFN_vkEnumerateInstanceVersion)(uint32_t*)
    ctypedef VkResult (*PFN_vkCreateInstance)(const VkInstanceCreateInfo*, const void*, VkInstance*)
    ctypedef void (*PFN_vkDestroyInstance)(VkInstance, const void*)
    ctypedef VkResult (*PFN_vkEnumeratePhysicalDevices)(VkInstance, uint32_t*, VkPhysicalDevice*)
    ctypedef void (*PFN_vkGetPhysicalDeviceProperties)(VkPhysicalDevice, VkPhysicalDeviceProperties*)
    ctypedef void (*PFN_vkGetPhysicalDeviceProperties2)(VkPhysicalDevice, VkPhysicalDeviceProperties2*)
    ctypedef VkResult (*PFN_vkEnumerateDeviceExtensionProperties)(
        VkPhysicalDevice, const char*, uint32_t*, VkExtensionProperties*)
    ctypedef void (*PFN_vkGetPhysicalDeviceQueueFamilyProperties)(
        VkPhysicalDevice, uint32_t*, VkQueueFamilyProperties*)
    ctypedef void (*PFN_vkGetPhysicalDeviceMemoryProperties)(
        VkPhysicalDevice, VkPhysicalDeviceMemoryProperties*)
    ctypedef void (*PFN_vkGetPhysicalDeviceMemoryProperties2)(
        VkPhysicalDevice, VkPhysicalDeviceMemoryProperties2*)


# Newer than the oldest headers that the package builds with (scripts/vulkan_tables.py).
cdef extern from "vulkan_tables.h" nogil:
    enum: VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR
    enum: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_PROPERTIES_KHR
    enum: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR
    enum: VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV
    enum: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_PROPERTIES_NV

    ctypedef struct VkPhysicalDeviceCooperativeMatrixPropertiesKHR:
        uint32_t cooperativeMatrixSupportedStages
    ctypedef struct VkCooperativeMatrixPropertiesKHR:
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
    ctypedef struct VkPhysicalDeviceCooperativeMatrix2PropertiesNV:
        uint32_t cooperativeMatrixWorkgroupScopeMaxWorkgroupSize
        uint32_t cooperativeMatrixFlexibleDimensionsMaxDimension
        uint32_t cooperativeMatrixWorkgroupScopeReservedSharedMemory
    ctypedef struct VkCooperativeMatrixFlexibleDimensionsPropertiesNV:
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
    ctypedef struct VkPhysicalDevicePipelineBinaryPropertiesKHR:
        VkBool32 pipelineBinaryInternalCache
        VkBool32 pipelineBinaryInternalCacheControl
        VkBool32 pipelineBinaryPrefersInternalCache
        VkBool32 pipelineBinaryPrecompiledInternalCache
        VkBool32 pipelineBinaryCompressedData
