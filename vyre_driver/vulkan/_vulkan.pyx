# cython: language_level=3, embedsignature=True, binding=True, freethreading_compatible=True
"""The Vulkan loader, asked what devices there are: an instance of our own, no device created.

libvulkan.so.1 is opened with dlopen, never linked, so that this module imports on a machine without Vulkan. What comes back
is plain data; devices.py gives it types and meaning.

Source: Vulkan 1.3, chapters "Instances" and "Physical Device Enumeration".
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

import threading

from vyre_driver.vulkan.vk cimport *


cdef extern from "<unistd.h>" nogil:
    int getpid()


cdef extern from "dlfcn.h" nogil:
    void* dlopen(const char* name, int flags)
    void* dlsym(void* handle, const char* name)
    char* dlerror()
    int RTLD_NOW
    int RTLD_LOCAL


cdef extern from "layer.h" nogil:
    const char* vyre_feature_name(uint32_t index)
    uint64_t vyre_supported_features(
        uint32_t api_version, VkPhysicalDevice device, PFN_vkGetPhysicalDeviceFeatures features,
        PFN_vkGetPhysicalDeviceFeatures2 features2)


class LoaderMissing(OSError):
    """libvulkan.so.1 could not be opened; the text is the dynamic linker's."""


class InstanceFailed(OSError):
    """vkCreateInstance or the enumeration failed; ``result`` is the VkResult."""

    def __init__(self, str call, int result):
        super().__init__(f"{call} returned {result}")
        self.call = call
        self.result = result


cdef struct Loader:
    PFN_vkGetInstanceProcAddr get_proc
    PFN_vkEnumeratePhysicalDevices enumerate_devices
    PFN_vkGetPhysicalDeviceProperties properties
    PFN_vkGetPhysicalDeviceProperties2 properties2
    PFN_vkGetPhysicalDeviceFeatures features
    PFN_vkGetPhysicalDeviceFeatures2 features2
    PFN_vkEnumerateDeviceExtensionProperties extensions
    PFN_vkGetPhysicalDeviceQueueFamilyProperties queue_families
    PFN_vkGetPhysicalDeviceMemoryProperties memory
    PFN_vkDestroyInstance destroy_instance


cdef PFN_vkGetInstanceProcAddr open_loader() except NULL:
    cdef void* library
    cdef void* symbol
    with nogil:
        library = dlopen(b"libvulkan.so.1", RTLD_NOW | RTLD_LOCAL)
    if library == NULL:
        raise LoaderMissing((<bytes> dlerror()).decode("utf-8", "replace"))
    symbol = dlsym(library, b"vkGetInstanceProcAddr")
    if symbol == NULL:
        raise LoaderMissing((<bytes> dlerror()).decode("utf-8", "replace"))
    return <PFN_vkGetInstanceProcAddr> symbol


cdef uint32_t loader_version(PFN_vkGetInstanceProcAddr get_proc) noexcept:
    cdef uint32_t version = VK_API_VERSION_1_0
    cdef PFN_vkEnumerateInstanceVersion call = <PFN_vkEnumerateInstanceVersion> get_proc(
        NULL, b"vkEnumerateInstanceVersion")
    if call != NULL and call(&version) != VK_SUCCESS:
        version = VK_API_VERSION_1_0
    return version


cdef VkInstance create_instance(PFN_vkGetInstanceProcAddr get_proc, uint32_t version) except NULL:
    cdef VkApplicationInfo application
    cdef VkInstanceCreateInfo info
    cdef VkInstance instance = NULL
    cdef VkResult result
    cdef PFN_vkCreateInstance create = <PFN_vkCreateInstance> get_proc(NULL, b"vkCreateInstance")
    memset(&application, 0, sizeof(application))
    memset(&info, 0, sizeof(info))
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO
    application.pApplicationName = b"vyre_driver probe"
    application.apiVersion = min(version, <uint32_t> VK_API_VERSION_1_3)
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO
    info.pApplicationInfo = &application
    with nogil:
        result = create(&info, NULL, &instance)
    if result != VK_SUCCESS:
        raise InstanceFailed("vkCreateInstance", result)
    return instance


cdef Loader bind_instance(PFN_vkGetInstanceProcAddr get_proc, VkInstance instance) noexcept:
    cdef Loader vk
    vk.get_proc = get_proc
    vk.enumerate_devices = <PFN_vkEnumeratePhysicalDevices> get_proc(instance, b"vkEnumeratePhysicalDevices")
    vk.properties = <PFN_vkGetPhysicalDeviceProperties> get_proc(instance, b"vkGetPhysicalDeviceProperties")
    vk.properties2 = <PFN_vkGetPhysicalDeviceProperties2> get_proc(instance, b"vkGetPhysicalDeviceProperties2")
    vk.features = <PFN_vkGetPhysicalDeviceFeatures> get_proc(instance, b"vkGetPhysicalDeviceFeatures")
    vk.features2 = <PFN_vkGetPhysicalDeviceFeatures2> get_proc(instance, b"vkGetPhysicalDeviceFeatures2")
    vk.extensions = <PFN_vkEnumerateDeviceExtensionProperties> get_proc(
        instance, b"vkEnumerateDeviceExtensionProperties")
    vk.queue_families = <PFN_vkGetPhysicalDeviceQueueFamilyProperties> get_proc(
        instance, b"vkGetPhysicalDeviceQueueFamilyProperties")
    vk.memory = <PFN_vkGetPhysicalDeviceMemoryProperties> get_proc(
        instance, b"vkGetPhysicalDeviceMemoryProperties")
    vk.destroy_instance = <PFN_vkDestroyInstance> get_proc(instance, b"vkDestroyInstance")
    return vk


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


cdef list memory_heap_facts(Loader* vk, VkPhysicalDevice device):
    cdef VkPhysicalDeviceMemoryProperties memory
    cdef uint32_t i
    vk.memory(device, &memory)
    return [(memory.memoryHeaps[i].size, memory.memoryHeaps[i].flags) for i in range(memory.memoryHeapCount)]


cdef dict limit_facts(VkPhysicalDeviceLimits* limits):
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
    }


cdef dict device_facts(Loader* vk, VkPhysicalDevice device, uint32_t instance_version):
    cdef VkPhysicalDeviceProperties2 properties
    cdef VkPhysicalDeviceIDProperties identity
    cdef VkPhysicalDeviceSubgroupProperties subgroup
    cdef VkPhysicalDeviceDriverProperties driver
    cdef VkPhysicalDevicePCIBusInfoPropertiesEXT pci
    memset(&properties, 0, sizeof(properties))
    memset(&identity, 0, sizeof(identity))
    memset(&subgroup, 0, sizeof(subgroup))
    memset(&driver, 0, sizeof(driver))
    memset(&pci, 0, sizeof(pci))
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2
    identity.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES
    subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES
    driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES
    pci.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT
    extensions = extension_names(vk, device)
    vk.properties(device, &properties.properties)
    # A structure may be chained only if the device knows it: by its version, or by the extension that brought it.
    cdef bint chained = (
        vk.properties2 != NULL
        and instance_version >= VK_API_VERSION_1_1
        and properties.properties.apiVersion >= VK_API_VERSION_1_1
    )
    cdef bint has_driver = chained and (
        properties.properties.apiVersion >= VK_API_VERSION_1_2 or "VK_KHR_driver_properties" in extensions
    )
    cdef bint has_pci = chained and "VK_EXT_pci_bus_info" in extensions
    if chained:
        properties.pNext = &identity
        identity.pNext = &subgroup
        if has_driver:
            driver.pNext = subgroup.pNext
            subgroup.pNext = &driver
        if has_pci:
            pci.pNext = subgroup.pNext
            subgroup.pNext = &pci
        vk.properties2(device, &properties)
    return {
        "name": (<bytes> properties.properties.deviceName).decode("utf-8", "replace"),
        "device_type": properties.properties.deviceType,
        "vendor_id": properties.properties.vendorID,
        "device_id": properties.properties.deviceID,
        "api_version": properties.properties.apiVersion,
        "driver_version": properties.properties.driverVersion,
        "driver_id": driver.driverID,
        "driver_name": (<bytes> <char*> driver.driverName).decode("utf-8", "replace"),
        "driver_info": (<bytes> <char*> driver.driverInfo).decode("utf-8", "replace"),
        "conformance": (
            driver.conformanceVersion.major, driver.conformanceVersion.minor,
            driver.conformanceVersion.subminor, driver.conformanceVersion.patch,
        ),
        "driver_uuid": <bytes> (<char*> identity.driverUUID)[:VK_UUID_SIZE],
        "device_uuid": <bytes> (<char*> identity.deviceUUID)[:VK_UUID_SIZE],
        "pipeline_cache_uuid": <bytes> (<char*> properties.properties.pipelineCacheUUID)[:VK_UUID_SIZE],
        "pci": (pci.pciDomain, pci.pciBus, pci.pciDevice, pci.pciFunction) if has_pci else None,
        "subgroup_size": subgroup.subgroupSize,
        "subgroup_stages": subgroup.supportedStages,
        "subgroup_operations": subgroup.supportedOperations,
        "limits": limit_facts(&properties.properties.limits),
        "queue_families": queue_family_facts(vk, device),
        "memory_heaps": memory_heap_facts(vk, device),
        "extensions": extensions,
        "features": feature_names(vk, device, min(instance_version, properties.properties.apiVersion)),
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


# The last probe's instance stays open, and the drivers with it. The loader closes a driver's libraries with the last instance,
# and some can be opened only about thirty times in a process: each time takes thread-local storage that never comes back.
cdef VkInstance kept_instance = NULL
cdef int kept_in_process = 0
_keeping = threading.Lock()


cdef int keep_instance(Loader* vk, VkInstance instance) except -1:
    global kept_instance, kept_in_process
    cdef VkInstance before
    with _keeping:
        # A forked child leaves its parent's instance alone: the driver's threads did not come along.
        before = kept_instance if kept_in_process == getpid() else NULL
        kept_instance = instance
        kept_in_process = getpid()
    if before != NULL:
        vk.destroy_instance(before, NULL)
    return 0


def probe() -> tuple[int, list[dict[str, object]]]:
    """Return the loader's Vulkan version and the facts of each physical device, in the loader's order.

    Raises LoaderMissing without a loader, InstanceFailed (``result`` -9: no driver at all) when no instance can be made.
    """
    cdef PFN_vkGetInstanceProcAddr get_proc = open_loader()
    cdef uint32_t version = loader_version(get_proc)
    cdef VkInstance instance = create_instance(get_proc, version)
    cdef Loader vk = bind_instance(get_proc, instance)
    try:
        facts = all_device_facts(&vk, instance, version)
    except BaseException:
        vk.destroy_instance(instance, NULL)
        raise
    keep_instance(&vk, instance)
    return version, facts
