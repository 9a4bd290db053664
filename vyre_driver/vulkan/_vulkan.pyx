# cython: language_level=3, embedsignature=True, binding=True
"""Query the Vulkan loader for devices: with an instance of our own, and without creating a device.

libvulkan.so.1 is opened with dlopen, never linked, so that this module imports on a machine without Vulkan. What comes back
is plain data; devices.py gives it types and meaning.

Source: Vulkan 1.3, chapters "Instances" and "Physical Device Enumeration".
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from vyre_driver.vulkan.vk cimport *


cdef extern from "<unistd.h>" nogil:
    int getpid()


cdef extern from "dlfcn.h" nogil:
    void* dlopen(const char* name, int flags)
    void* dlsym(void* handle, const char* name)
    char* dlerror()
    int RTLD_NOW
    int RTLD_LOCAL
    int RTLD_NOLOAD


cdef extern from "link.h":
    cdef struct dl_phdr_info:
        const char* dlpi_name
    int dl_iterate_phdr(int (*callback)(dl_phdr_info*, size_t, void*), void* data)


cdef extern from "device_features.h" nogil:
    const char* vyre_feature_name(uint32_t index)
    uint64_t vyre_supported_features(
        uint32_t api_version, VkPhysicalDevice device, PFN_vkGetPhysicalDeviceFeatures features,
        PFN_vkGetPhysicalDeviceFeatures2 features2)


include "loader.pxi"


# What vkGetPhysicalDeviceProperties2 fills; a structure that was not chained stays zero.
cdef struct Properties:
    VkPhysicalDeviceProperties2 core
    VkPhysicalDeviceIDProperties identity
    VkPhysicalDeviceSubgroupProperties subgroup
    VkPhysicalDeviceMaintenance3Properties maintenance3
    VkPhysicalDeviceMaintenance4Properties maintenance4
    VkPhysicalDeviceDriverProperties driver
    VkPhysicalDeviceSubgroupSizeControlProperties subgroup_size
    VkPhysicalDeviceRobustness2PropertiesEXT robustness2
    VkPhysicalDeviceFloatControlsProperties float_controls
    VkPhysicalDevicePCIBusInfoPropertiesEXT pci
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nvidia
    VkPhysicalDeviceShaderCoreProperties2AMD amd
    VkPhysicalDeviceCooperativeMatrixPropertiesKHR matrix
    VkPhysicalDevicePipelineBinaryPropertiesKHR pipeline_binary
    VkPhysicalDeviceCooperativeMatrix2PropertiesNV matrix2


cdef frozenset extension_names(Loader* vk, VkPhysicalDevice device):
    cdef uint32_t count = 0
    cdef uint32_t i
    cdef VkExtensionProperties* found
    if vk.extensions(device, NULL, &count, NULL) != VK_SUCCESS or count == 0:
        return frozenset()
    found = <VkExtensionProperties*> calloc(count, sizeof(VkExtensionProperties))
    if found == NULL:
        raise MemoryError
    try:
        # A shorter list (VK_INCOMPLETE) is still a list of true names.
        if vk.extensions(device, NULL, &count, found) < 0:
            return frozenset()
        return frozenset((<bytes> found[i].extensionName).decode("ascii", "replace") for i in range(count))
    finally:
        free(found)


cdef frozenset feature_names(Loader* vk, VkPhysicalDevice device, uint32_t usable_version):
    cdef uint64_t found = vyre_supported_features(usable_version, device, vk.features, vk.features2)
    cdef uint32_t i = 0
    names = []
    while vyre_feature_name(i) != NULL:
        if found >> i & 1:
            names.append((<bytes> vyre_feature_name(i)).decode("ascii"))
        i += 1
    return frozenset(names)


cdef list queue_family_facts(Loader* vk, VkPhysicalDevice device):
    cdef uint32_t count = 0
    cdef uint32_t i
    cdef VkQueueFamilyProperties* found
    vk.queue_families(device, &count, NULL)
    found = <VkQueueFamilyProperties*> calloc(max(count, <uint32_t> 1), sizeof(VkQueueFamilyProperties))
    if found == NULL:
        raise MemoryError
    try:
        vk.queue_families(device, &count, found)
        return [(i, found[i].queueFlags, found[i].queueCount, found[i].timestampValidBits) for i in range(count)]
    finally:
        free(found)


cdef dict memory_facts(Loader* vk, VkPhysicalDevice device, bint has_budget):
    cdef VkPhysicalDeviceMemoryProperties2 memory
    cdef VkPhysicalDeviceMemoryBudgetPropertiesEXT budget
    cdef VkPhysicalDeviceMemoryProperties* found = &memory.memoryProperties
    cdef uint32_t i
    memset(&memory, 0, sizeof(memory))
    memset(&budget, 0, sizeof(budget))
    memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2
    if has_budget:
        link(&memory, &budget, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT, True)
        vk.memory2(device, &memory)
    else:
        vk.memory(device, found)
    return {
        "memory_types": [
            (found.memoryTypes[i].propertyFlags, found.memoryTypes[i].heapIndex) for i in range(found.memoryTypeCount)
        ],
        "memory_heaps": [(found.memoryHeaps[i].size, found.memoryHeaps[i].flags) for i in range(found.memoryHeapCount)],
        "memory_budget": [
            (budget.heapBudget[i], budget.heapUsage[i]) for i in range(found.memoryHeapCount if has_budget else 0)
        ],
    }


cdef list matrix_facts(Loader* vk, VkPhysicalDevice device):
    cdef uint32_t count = 0
    cdef uint32_t i
    cdef VkCooperativeMatrixPropertiesKHR* found
    if vk.matrix_shapes == NULL or vk.matrix_shapes(device, &count, NULL) != VK_SUCCESS or count == 0:
        return []
    found = <VkCooperativeMatrixPropertiesKHR*> calloc(count, sizeof(VkCooperativeMatrixPropertiesKHR))
    if found == NULL:
        raise MemoryError
    try:
        for i in range(count):
            found[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR
        if vk.matrix_shapes(device, &count, found) < 0:
            return []
        return [
            (found[i].MSize, found[i].NSize, found[i].KSize, found[i].AType, found[i].BType, found[i].CType,
             found[i].ResultType, found[i].saturatingAccumulation, found[i].scope)
            for i in range(count)
        ]
    finally:
        free(found)


cdef list flexible_matrix_facts(Loader* vk, VkPhysicalDevice device):
    cdef uint32_t count = 0
    cdef uint32_t i
    cdef VkCooperativeMatrixFlexibleDimensionsPropertiesNV* found
    if vk.flexible_shapes == NULL or vk.flexible_shapes(device, &count, NULL) != VK_SUCCESS or count == 0:
        return []
    found = <VkCooperativeMatrixFlexibleDimensionsPropertiesNV*> calloc(
        count, sizeof(VkCooperativeMatrixFlexibleDimensionsPropertiesNV))
    if found == NULL:
        raise MemoryError
    try:
        for i in range(count):
            found[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV
        if vk.flexible_shapes(device, &count, found) < 0:
            return []
        return [
            (found[i].MGranularity, found[i].NGranularity, found[i].KGranularity, found[i].AType, found[i].BType,
             found[i].CType, found[i].ResultType, found[i].saturatingAccumulation, found[i].scope,
             found[i].workgroupInvocations)
            for i in range(count)
        ]
    finally:
        free(found)


cdef tuple matrix2_facts(Properties* found):
    cdef VkPhysicalDeviceCooperativeMatrix2PropertiesNV* limits = &found.matrix2
    return (
        limits.cooperativeMatrixWorkgroupScopeMaxWorkgroupSize, limits.cooperativeMatrixFlexibleDimensionsMaxDimension,
        limits.cooperativeMatrixWorkgroupScopeReservedSharedMemory,
    )


cdef dict limit_facts(Properties* found):
    cdef VkPhysicalDeviceLimits* limits = &found.core.properties.limits
    return {
        "max_storage_buffer_range": limits.maxStorageBufferRange,
        "max_push_constants_size": limits.maxPushConstantsSize,
        "max_per_stage_descriptor_storage_buffers": limits.maxPerStageDescriptorStorageBuffers,
        "max_compute_shared_memory_size": limits.maxComputeSharedMemorySize,
        "max_compute_work_group_count": tuple([limits.maxComputeWorkGroupCount[i] for i in range(3)]),
        "max_compute_work_group_invocations": limits.maxComputeWorkGroupInvocations,
        "max_compute_work_group_size": tuple([limits.maxComputeWorkGroupSize[i] for i in range(3)]),
        "timestamp_compute_and_graphics": bool(limits.timestampComputeAndGraphics),
        "timestamp_period_ns": limits.timestampPeriod,
        "min_storage_buffer_offset_alignment": limits.minStorageBufferOffsetAlignment,
        "min_memory_map_alignment": limits.minMemoryMapAlignment,
        "non_coherent_atom_size": limits.nonCoherentAtomSize,
        "max_memory_allocation_count": limits.maxMemoryAllocationCount,
        "max_memory_allocation_size": found.maintenance3.maxMemoryAllocationSize,
        "max_per_set_descriptors": found.maintenance3.maxPerSetDescriptors,
        "max_buffer_size": found.maintenance4.maxBufferSize,
        "robust_storage_buffer_access_size_alignment": found.robustness2.robustStorageBufferAccessSizeAlignment,
    }


cdef void link(void* head, void* structure, VkStructureType structure_type, bint known) noexcept:
    """Chain a structure behind the head; a device may only be handed those that it knows."""
    cdef VkBaseOutStructure* first = <VkBaseOutStructure*> head
    cdef VkBaseOutStructure* added = <VkBaseOutStructure*> structure
    if known:
        added.sType = structure_type
        added.pNext = first.pNext
        first.pNext = added


cdef void read_properties(Loader* vk, VkPhysicalDevice device, uint32_t usable, frozenset extensions, Properties* found):
    """Fill all that the device knows, by its usable version or by the extension that brought the structure."""
    cdef VkPhysicalDeviceProperties2* head = &found.core
    head.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2
    link(head, &found.identity, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES, True)
    link(head, &found.subgroup, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, True)
    link(head, &found.maintenance3, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES, True)
    link(head, &found.maintenance4, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES,
         usable >= VK_API_VERSION_1_3 or "VK_KHR_maintenance4" in extensions)
    link(head, &found.driver, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
         usable >= VK_API_VERSION_1_2 or "VK_KHR_driver_properties" in extensions)
    link(head, &found.subgroup_size, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES,
         usable >= VK_API_VERSION_1_3 or "VK_EXT_subgroup_size_control" in extensions)
    link(head, &found.robustness2, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_PROPERTIES_EXT,
         "VK_EXT_robustness2" in extensions)
    link(head, &found.float_controls, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES,
         usable >= VK_API_VERSION_1_2 or "VK_KHR_shader_float_controls" in extensions)
    link(head, &found.pci, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT, "VK_EXT_pci_bus_info" in extensions)
    link(head, &found.nvidia, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV,
         "VK_NV_shader_sm_builtins" in extensions)
    link(head, &found.amd, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD,
         "VK_AMD_shader_core_properties2" in extensions)
    link(head, &found.matrix, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_PROPERTIES_KHR,
         "VK_KHR_cooperative_matrix" in extensions)
    link(head, &found.pipeline_binary, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR,
         "VK_KHR_pipeline_binary" in extensions)
    link(head, &found.matrix2, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_PROPERTIES_NV,
         "VK_NV_cooperative_matrix2" in extensions)
    vk.properties2(device, head)


cdef dict identity_facts(Properties* found):
    cdef VkPhysicalDeviceProperties* core = &found.core.properties
    cdef VkPhysicalDeviceDriverProperties* driver = &found.driver
    return {
        "name": (<bytes> core.deviceName).decode("utf-8", "replace"),
        "device_type": core.deviceType,
        "vendor_id": core.vendorID,
        "device_id": core.deviceID,
        "api_version": core.apiVersion,
        "driver_version": core.driverVersion,
        "driver_id": driver.driverID,
        "driver_name": (<bytes> <char*> driver.driverName).decode("utf-8", "replace"),
        "driver_info": (<bytes> <char*> driver.driverInfo).decode("utf-8", "replace"),
        "conformance": (
            driver.conformanceVersion.major, driver.conformanceVersion.minor,
            driver.conformanceVersion.subminor, driver.conformanceVersion.patch,
        ),
        "driver_uuid": <bytes> (<char*> found.identity.driverUUID)[:VK_UUID_SIZE],
        "device_uuid": <bytes> (<char*> found.identity.deviceUUID)[:VK_UUID_SIZE],
        "pipeline_cache_uuid": <bytes> (<char*> core.pipelineCacheUUID)[:VK_UUID_SIZE],
    }


cdef tuple subgroup_size_facts(Properties* found):
    cdef VkPhysicalDeviceSubgroupSizeControlProperties* sizes = &found.subgroup_size
    if sizes.maxSubgroupSize == 0:
        return None
    return (sizes.minSubgroupSize, sizes.maxSubgroupSize, sizes.maxComputeWorkgroupSubgroups, sizes.requiredSubgroupSizeStages)


cdef frozenset float_control_names(Properties* found):
    cdef VkPhysicalDeviceFloatControlsProperties* controls = &found.float_controls
    # Independence is a number; a device that tells nothing has zeros everywhere, and no control to be independent.
    cdef list reported = [
        ("shaderSignedZeroInfNanPreserveFloat16", controls.shaderSignedZeroInfNanPreserveFloat16),
        ("shaderSignedZeroInfNanPreserveFloat32", controls.shaderSignedZeroInfNanPreserveFloat32),
        ("shaderSignedZeroInfNanPreserveFloat64", controls.shaderSignedZeroInfNanPreserveFloat64),
        ("shaderDenormPreserveFloat16", controls.shaderDenormPreserveFloat16),
        ("shaderDenormPreserveFloat32", controls.shaderDenormPreserveFloat32),
        ("shaderDenormPreserveFloat64", controls.shaderDenormPreserveFloat64),
        ("shaderDenormFlushToZeroFloat16", controls.shaderDenormFlushToZeroFloat16),
        ("shaderDenormFlushToZeroFloat32", controls.shaderDenormFlushToZeroFloat32),
        ("shaderDenormFlushToZeroFloat64", controls.shaderDenormFlushToZeroFloat64),
        ("shaderRoundingModeRTEFloat16", controls.shaderRoundingModeRTEFloat16),
        ("shaderRoundingModeRTEFloat32", controls.shaderRoundingModeRTEFloat32),
        ("shaderRoundingModeRTEFloat64", controls.shaderRoundingModeRTEFloat64),
        ("shaderRoundingModeRTZFloat16", controls.shaderRoundingModeRTZFloat16),
        ("shaderRoundingModeRTZFloat32", controls.shaderRoundingModeRTZFloat32),
        ("shaderRoundingModeRTZFloat64", controls.shaderRoundingModeRTZFloat64),
    ]
    names = frozenset([name for name, has in reported if has])
    if names and controls.denormBehaviorIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE:
        names |= {"denormBehaviorIndependence"}
    if names and controls.roundingModeIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE:
        names |= {"roundingModeIndependence"}
    return names


cdef tuple pipeline_binary_facts(Properties* found):
    cdef VkPhysicalDevicePipelineBinaryPropertiesKHR* binary = &found.pipeline_binary
    return (
        bool(binary.pipelineBinaryInternalCache), bool(binary.pipelineBinaryInternalCacheControl),
        bool(binary.pipelineBinaryPrefersInternalCache), bool(binary.pipelineBinaryPrecompiledInternalCache),
        bool(binary.pipelineBinaryCompressedData),
    )


cdef dict device_facts(Loader* vk, VkPhysicalDevice device, uint32_t instance_version):
    cdef Properties found
    cdef uint32_t usable
    memset(&found, 0, sizeof(found))
    extensions = extension_names(vk, device)
    vk.properties(device, &found.core.properties)
    usable = min(instance_version, found.core.properties.apiVersion)
    cdef bint chained = vk.properties2 != NULL and usable >= VK_API_VERSION_1_1
    cdef bint is_flexible = chained and "VK_NV_cooperative_matrix2" in extensions
    if chained:
        read_properties(vk, device, usable, extensions, &found)
    return {
        **identity_facts(&found),
        "pci": (
            (found.pci.pciDomain, found.pci.pciBus, found.pci.pciDevice, found.pci.pciFunction)
            if chained and "VK_EXT_pci_bus_info" in extensions else None
        ),
        "subgroup_size": found.subgroup.subgroupSize,
        "subgroup_stages": found.subgroup.supportedStages,
        "subgroup_operations": found.subgroup.supportedOperations,
        "subgroup_size_control": subgroup_size_facts(&found),
        "compute_units": found.nvidia.shaderSMCount or found.amd.activeComputeUnitCount,
        "limits": limit_facts(&found),
        "queue_families": queue_family_facts(vk, device),
        **memory_facts(vk, device, chained and vk.memory2 != NULL and "VK_EXT_memory_budget" in extensions),
        "cooperative_matrix_stages": found.matrix.cooperativeMatrixSupportedStages,
        "cooperative_matrices": matrix_facts(vk, device) if chained and "VK_KHR_cooperative_matrix" in extensions else [],
        "flexible_matrices": flexible_matrix_facts(vk, device) if is_flexible else [],
        "cooperative_matrix2": matrix2_facts(&found) if is_flexible else None,
        "pipeline_binary": pipeline_binary_facts(&found) if chained and "VK_KHR_pipeline_binary" in extensions else None,
        "float_controls": float_control_names(&found),
        "extensions": extensions,
        "features": feature_names(vk, device, usable),
    }


cdef list all_device_facts(Loader* vk, VkInstance instance, uint32_t instance_version):
    cdef uint32_t count = 0
    cdef uint32_t i
    cdef VkPhysicalDevice* devices
    cdef VkResult result = vk.enumerate_devices(instance, &count, NULL)
    if result != VK_SUCCESS:
        raise InstanceFailed("vkEnumeratePhysicalDevices", result)
    devices = <VkPhysicalDevice*> calloc(max(count, <uint32_t> 1), sizeof(VkPhysicalDevice))
    if devices == NULL:
        raise MemoryError
    try:
        result = vk.enumerate_devices(instance, &count, devices)
        if result != VK_SUCCESS and result != VK_INCOMPLETE:
            raise InstanceFailed("vkEnumeratePhysicalDevices", result)
        return [device_facts(vk, devices[i], instance_version) for i in range(count)]
    finally:
        free(devices)


def probe() -> tuple[int, list[dict[str, object]]]:
    """Return the loader's Vulkan version and the facts of each physical device, in the loader's order.

    Raises LoaderMissing without a loader, InstanceFailed (``result`` -9: no driver at all) when no instance can be made.
    """
    cdef PFN_vkGetInstanceProcAddr get_proc = open_loader()
    cdef uint32_t version = loader_version(get_proc)
    cdef set before = loaded_libraries()
    cdef VkInstance instance = create_instance(get_proc, version)
    cdef Loader vk = bind_instance(get_proc, instance)
    try:
        keep_libraries_since(before)
        return version, all_device_facts(&vk, instance, version)
    finally:
        vk.destroy_instance(instance, NULL)
