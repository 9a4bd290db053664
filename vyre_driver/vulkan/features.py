"""Device features that the driver knows, by the version or extension of Vulkan that has them.

A row is all that a further feature needs: when the package is built, ``scripts/vulkan_tables.py`` looks up each name in
Vulkan's registry and writes the tables of ``device_features.c``.
"""

from __future__ import annotations

# Features that only widen what a shader may say, the types and sizes of its numbers, and what a pipeline may ask for, the size
# of its subgroups. They cost nothing while unused, and are on wherever the device has them.
_SHADER_FEATURES = {
    "VK_VERSION_1_0": ("shaderFloat64", "shaderInt64", "shaderInt16"),
    "VK_VERSION_1_1": (
        "storageBuffer16BitAccess",
        "uniformAndStorageBuffer16BitAccess",
        "storagePushConstant16",
        "variablePointersStorageBuffer",
        "variablePointers",
    ),
    "VK_VERSION_1_2": (
        "storageBuffer8BitAccess",
        "uniformAndStorageBuffer8BitAccess",
        "storagePushConstant8",
        "shaderFloat16",
        "shaderInt8",
        "shaderBufferInt64Atomics",
        "shaderSharedInt64Atomics",
        "shaderSubgroupExtendedTypes",
        "scalarBlockLayout",
        "uniformBufferStandardLayout",
        "vulkanMemoryModel",
        "vulkanMemoryModelDeviceScope",
    ),
    "VK_VERSION_1_3": ("subgroupSizeControl", "computeFullSubgroups", "shaderIntegerDotProduct"),
    "VK_KHR_cooperative_matrix": ("cooperativeMatrix",),
    "VK_EXT_shader_atomic_float": (
        "shaderBufferFloat32Atomics",
        "shaderBufferFloat32AtomicAdd",
        "shaderSharedFloat32AtomicAdd",
    ),
    "VK_KHR_shader_bfloat16": ("shaderBFloat16Type", "shaderBFloat16DotProduct", "shaderBFloat16CooperativeMatrix"),
    "VK_EXT_shader_float8": ("shaderFloat8", "shaderFloat8CooperativeMatrix"),
    "VK_NV_cooperative_matrix2": (
        "cooperativeMatrixWorkgroupScope",
        "cooperativeMatrixFlexibleDimensions",
        "cooperativeMatrixReductions",
        "cooperativeMatrixConversions",
        "cooperativeMatrixPerElementOperations",
        "cooperativeMatrixTensorAddressing",
        "cooperativeMatrixBlockLoads",
    ),
}
# Features that are on where something asks for them by name. Robust access, device addresses and their like change what other
# code compiles to.
_OTHER_FEATURES = {
    "VK_VERSION_1_0": ("robustBufferAccess",),
    "VK_VERSION_1_2": (
        "vulkanMemoryModelAvailabilityVisibilityChains",
        "bufferDeviceAddress",
        "timelineSemaphore",
        "hostQueryReset",
    ),
    "VK_VERSION_1_3": (
        "maintenance4",
        "shaderZeroInitializeWorkgroupMemory",
        "synchronization2",
        "pipelineCreationCacheControl",
    ),
    "VK_KHR_cooperative_matrix": ("cooperativeMatrixRobustBufferAccess",),
    "VK_EXT_robustness2": ("robustBufferAccess2", "nullDescriptor"),
    "VK_KHR_pipeline_binary": ("pipelineBinaries",),
    "VK_KHR_pipeline_executable_properties": ("pipelineExecutableInfo",),
}

SHADER_FEATURES = tuple(name for names in _SHADER_FEATURES.values() for name in names)
ORIGINS = {
    name: origin for features in (_SHADER_FEATURES, _OTHER_FEATURES) for origin, names in features.items() for name in names
}
"""A feature's version of Vulkan (``VK_VERSION_1_2``), or its extension."""


def extension_of(feature: str) -> str | None:
    """Return the extension that has to be on for a feature; None if it is of a version of Vulkan."""
    origin = ORIGINS[feature]
    return None if origin.startswith("VK_VERSION_") else origin
