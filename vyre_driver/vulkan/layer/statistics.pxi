"""The driver's statistics of a pipeline's code: included by _layer.pyx."""


cdef extern from "<string.h>" nogil:
    size_t strnlen(const char* text, size_t most)


cdef extern from "statistics.h" nogil:
    enum: VK_MAX_DESCRIPTION_SIZE
    ctypedef enum VkPipelineExecutableStatisticFormatKHR:
        VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR
        VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR
        VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR
        VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR
    ctypedef union VkPipelineExecutableStatisticValueKHR:
        uint32_t b32
        int64_t i64
        uint64_t u64
        double f64
    ctypedef struct VkPipelineExecutableStatisticKHR:
        char[256] name
        char[256] description
        VkPipelineExecutableStatisticFormatKHR format
        VkPipelineExecutableStatisticValueKHR value
    ctypedef struct VkPipelineExecutablePropertiesKHR:
        char[256] name
        char[256] description
        uint32_t subgroupSize
    ctypedef struct vyre_executable:
        VkPipelineExecutablePropertiesKHR properties
        uint32_t statistic_count
        VkPipelineExecutableStatisticKHR* statistics
    uint32_t vyre_read_executables(vyre_device* device, const vyre_bound* bound, vyre_executable** out)
    void vyre_free_executables(vyre_executable* executables, uint32_t count)


class PipelineStatistic(NamedTuple):
    """A number that the driver gives of a pipeline's code, under the driver's own name; ``value`` None: of a kind unknown here.

    Source: ``VkPipelineExecutableStatisticKHR``.
    """

    name: str
    value: bool | int | float | None
    description: str


class PipelineExecutable(NamedTuple):
    """One piece of a pipeline's code as the driver describes it; ``subgroup_size`` in invocations, 0 where it does not tell.

    Source: ``VkPipelineExecutablePropertiesKHR``.
    """

    name: str
    description: str
    subgroup_size: int
    statistics: tuple[PipelineStatistic, ...]


cdef str told(const char* text):
    """Return what a driver has written into a text of Vulkan's, which ends in a NUL unless it is full."""
    return text[:strnlen(text, VK_MAX_DESCRIPTION_SIZE)].decode("utf-8", "replace")


cdef object value_of(const VkPipelineExecutableStatisticKHR* one):
    if one.format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
        return one.value.b32 != 0
    if one.format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
        return one.value.i64
    if one.format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
        return one.value.u64
    return one.value.f64 if one.format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR else None


cdef tuple executables_of(vyre_device* device, const vyre_bound* bound):
    """Return the driver's statistics of a pipeline's code."""
    cdef vyre_executable* found = NULL
    cdef uint32_t count = vyre_read_executables(device, bound, &found)
    cdef uint32_t i, k
    cdef const VkPipelineExecutablePropertiesKHR* properties
    cdef const VkPipelineExecutableStatisticKHR* one
    try:
        made = []
        for i in range(count):
            statistics = []
            for k in range(found[i].statistic_count):
                one = &found[i].statistics[k]
                statistics.append(PipelineStatistic(told(one.name), value_of(one), told(one.description)))
            properties = &found[i].properties
            made.append(PipelineExecutable(told(properties.name), told(properties.description), properties.subgroupSize,
                                           tuple(statistics)))
        return tuple(made)
    finally:
        vyre_free_executables(found, count)
