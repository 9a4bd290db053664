"""The Vulkan loader opened, and instances of our own: included by _vulkan.pyx."""

import os


cdef extern from "fork_guard.h" nogil:
    void vyre_keep_forks_out()
    void vyre_let_forks_in()
    void vyre_prepare_fork()
    void vyre_end_fork()


class LoaderMissing(OSError):
    """libvulkan.so.1 could not be opened; the text is the dynamic linker's."""


class InstanceFailed(OSError):
    """vkCreateInstance or the enumeration failed; ``result`` is the VkResult."""

    def __init__(self, str call, int result):
        super().__init__(f"{call} returned {result}")
        self.call = call
        self.result = result


ctypedef VkResult (*get_matrix_shapes)(VkPhysicalDevice, uint32_t*, VkCooperativeMatrixPropertiesKHR*) noexcept nogil
ctypedef VkResult (*get_flexible_shapes)(
    VkPhysicalDevice, uint32_t*, VkCooperativeMatrixFlexibleDimensionsPropertiesNV*) noexcept nogil


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
    PFN_vkGetPhysicalDeviceMemoryProperties2 memory2
    get_matrix_shapes matrix_shapes
    get_flexible_shapes flexible_shapes
    PFN_vkDestroyInstance destroy_instance


cdef PFN_vkGetInstanceProcAddr open_loader() except NULL:
    cdef void* library
    cdef void* symbol
    with nogil:
        vyre_keep_forks_out()
        library = dlopen(b"libvulkan.so.1", RTLD_NOW | RTLD_LOCAL)
        vyre_let_forks_in()
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


cdef int add_name(dl_phdr_info* library, size_t size, void* names) noexcept:
    (<set> names).add(<bytes> library.dlpi_name)
    return 0


cdef set loaded_libraries():
    """Return the paths of all shared libraries of the process. The callback needs the GIL, which nothing here lets go."""
    cdef set names = set()
    dl_iterate_phdr(add_name, <void*> names)
    return names


cdef int keep_libraries_since(set before) except -1:
    """Keep the libraries of drivers and layers that the loader has opened for an instance.

    The loader opens them anew for each instance. It closes those of drivers without a device as soon as it has asked for
    devices, and the others with the last instance. Each time some take thread-local storage (NVIDIA) or a thread-specific key
    (Mesa 26.1) that they never give back. A process has 1,024 of these keys, and other libraries abort when none is left.
    """
    for name in loaded_libraries() - before:
        dlopen(name, RTLD_NOW | RTLD_NOLOAD)
    return 0


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
        vyre_keep_forks_out()
        result = create(&info, NULL, &instance)
        vyre_let_forks_in()
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
    vk.memory2 = <PFN_vkGetPhysicalDeviceMemoryProperties2> get_proc(
        instance, b"vkGetPhysicalDeviceMemoryProperties2")
    vk.matrix_shapes = <get_matrix_shapes> get_proc(
        instance, b"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")
    vk.flexible_shapes = <get_flexible_shapes> get_proc(
        instance, b"vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV")
    vk.destroy_instance = <PFN_vkDestroyInstance> get_proc(instance, b"vkDestroyInstance")
    return vk


def prepare_fork():
    """Return, without the GIL meanwhile, when no other thread is in a call of the loader's.

    None gets into one until the fork.
    """
    with nogil:
        vyre_prepare_fork()


def end_fork():
    """In the parent: let other threads call the loader again, also where there was no fork."""
    vyre_end_fork()


os.register_at_fork(before=prepare_fork, after_in_parent=end_fork)
