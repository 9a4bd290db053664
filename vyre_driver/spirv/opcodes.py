"""The SPIR-V numbers that reflection reads and the builder writes; those of function bodies are in instructions.py.

Source: SPIR-V 1.6, sections 3.3 (execution model), 3.4 (addressing model), 3.5 (memory model), 3.6 (execution mode), 3.7
(storage class), 3.8 (dimension), 3.20 (decoration), 3.21 (built-in), 3.31 (capability), 3.42 (instructions).
"""

from __future__ import annotations

from enum import IntEnum


class Op(IntEnum):
    """Opcodes of declarations; names as in the specification without their ``Op``."""

    Name = 5
    MemberName = 6
    Extension = 10
    ExtInstImport = 11
    MemoryModel = 14
    EntryPoint = 15
    ExecutionMode = 16
    Capability = 17
    TypeVoid = 19
    TypeBool = 20
    TypeInt = 21
    TypeFloat = 22
    TypeVector = 23
    TypeMatrix = 24
    TypeImage = 25
    TypeSampler = 26
    TypeSampledImage = 27
    TypeArray = 28
    TypeRuntimeArray = 29
    TypeStruct = 30
    TypePointer = 32
    TypeFunction = 33
    TypeForwardPointer = 39
    ConstantTrue = 41
    ConstantFalse = 42
    Constant = 43
    ConstantComposite = 44
    SpecConstantTrue = 48
    SpecConstantFalse = 49
    SpecConstant = 50
    SpecConstantComposite = 51
    SpecConstantOp = 52
    Variable = 59
    Decorate = 71
    MemberDecorate = 72
    GroupDecorate = 74
    ExecutionModeId = 331
    TypeAccelerationStructure = 5341


# The operands that an instruction which is read has at least; those of types begin with their result id.
LEAST_OPERANDS: dict[int, int] = {
    Op.Extension: 1,
    Op.MemoryModel: 2,
    Op.EntryPoint: 3,
    Op.ExecutionMode: 2,
    Op.ExecutionModeId: 2,
    Op.Capability: 1,
    Op.Name: 2,
    Op.MemberName: 3,
    Op.Decorate: 2,
    Op.MemberDecorate: 3,
    Op.GroupDecorate: 1,
    Op.Variable: 3,
    Op.TypeVoid: 1,
    Op.TypeBool: 1,
    Op.TypeImage: 8,
    Op.TypeSampler: 1,
    Op.TypeSampledImage: 2,
    Op.TypeAccelerationStructure: 1,
    Op.TypeInt: 3,
    Op.TypeFloat: 2,
    Op.TypeVector: 3,
    Op.TypeMatrix: 3,
    Op.TypeArray: 3,
    Op.TypeRuntimeArray: 2,
    Op.TypePointer: 3,
    Op.TypeStruct: 1,
    Op.ConstantTrue: 2,
    Op.ConstantFalse: 2,
    Op.Constant: 3,
    Op.ConstantComposite: 2,
    Op.SpecConstantTrue: 2,
    Op.SpecConstantFalse: 2,
    Op.SpecConstant: 3,
    Op.SpecConstantComposite: 2,
    Op.SpecConstantOp: 3,
}


class StorageClass(IntEnum):
    """Storage classes of module-scope variables."""

    UNIFORM_CONSTANT = 0
    INPUT = 1
    UNIFORM = 2
    WORKGROUP = 4
    FUNCTION = 7
    PUSH_CONSTANT = 9
    STORAGE_BUFFER = 12
    PHYSICAL_STORAGE_BUFFER = 5349


class Decoration(IntEnum):
    """Decorations that say how a resource is bound and laid out."""

    SPEC_ID = 1
    BLOCK = 2
    BUFFER_BLOCK = 3
    ROW_MAJOR = 4
    ARRAY_STRIDE = 6
    MATRIX_STRIDE = 7
    BUILT_IN = 11
    RESTRICT = 19
    COHERENT = 23
    NON_WRITABLE = 24
    NON_READABLE = 25
    BINDING = 33
    DESCRIPTOR_SET = 34
    OFFSET = 35
    NO_CONTRACTION = 42


class BuiltIn(IntEnum):
    """Variables that the device fills."""

    WORKGROUP_ID = 26
    LOCAL_INVOCATION_ID = 27
    GLOBAL_INVOCATION_ID = 28
    LOCAL_INVOCATION_INDEX = 29
    SUBGROUP_SIZE = 36
    SUBGROUP_LOCAL_INVOCATION_ID = 41


ENTRY_POINT = "main"
"""The name that kompute runs."""

GL_COMPUTE = 5
BUILT_IN_WORKGROUP_SIZE = 25
MODE_LOCAL_SIZE = 17
MODE_LOCAL_SIZE_ID = 38
MODE_DENORM_FLUSH_TO_ZERO = 4460
MODE_SIGNED_ZERO_INF_NAN_PRESERVE = 4461
MODE_ROUNDING_MODE_RTE = 4462

# What any Vulkan 1.1 device with a compute queue accepts without a feature being enabled (Vulkan 1.3, appendix "SPIR-V
# Environment"); the GroupNonUniform family depends on the subgroup operations the device reports.
CORE_CAPABILITIES = frozenset({0, 1, 43, 44, 46, 47, 49, 50, 4437})

# Capability -> bit of VkSubgroupFeatureFlagBits.
SUBGROUP_CAPABILITIES = {61: 0x1, 62: 0x2, 63: 0x4, 64: 0x8, 65: 0x10, 66: 0x20, 67: 0x40, 68: 0x80}

# Capability -> the device feature that Vulkan asks to be enabled for it.
FEATURE_OF_CAPABILITY = {
    9: "shaderFloat16",
    10: "shaderFloat64",
    11: "shaderInt64",
    12: "shaderBufferInt64Atomics",
    22: "shaderInt16",
    39: "shaderInt8",
    4433: "storageBuffer16BitAccess",
    4434: "uniformAndStorageBuffer16BitAccess",
    4435: "storagePushConstant16",
    4441: "variablePointersStorageBuffer",
    4442: "variablePointers",
    4448: "storageBuffer8BitAccess",
    4449: "uniformAndStorageBuffer8BitAccess",
    4450: "storagePushConstant8",
    4465: "shaderDenormFlushToZeroFloat32",
    4466: "shaderSignedZeroInfNanPreserveFloat32",
    4467: "shaderRoundingModeRTEFloat32",
    5345: "vulkanMemoryModel",
    5346: "vulkanMemoryModelDeviceScope",
    6016: "shaderIntegerDotProduct",
    6017: "shaderIntegerDotProduct",
    6018: "shaderIntegerDotProduct",
    6019: "shaderIntegerDotProduct",
    6022: "cooperativeMatrix",
    6033: "shaderBufferFloat32AtomicAdd",
}

CAPABILITY_NAMES = {
    0: "Matrix",
    1: "Shader",
    4: "Addresses",
    5: "Linkage",
    6: "Kernel",
    9: "Float16",
    10: "Float64",
    11: "Int64",
    12: "Int64Atomics",
    22: "Int16",
    25: "ImageGatherExtended",
    27: "StorageImageMultisample",
    28: "UniformBufferArrayDynamicIndexing",
    29: "SampledImageArrayDynamicIndexing",
    30: "StorageBufferArrayDynamicIndexing",
    31: "StorageImageArrayDynamicIndexing",
    39: "Int8",
    43: "Sampled1D",
    44: "Image1D",
    46: "SampledBuffer",
    47: "ImageBuffer",
    49: "StorageImageExtendedFormats",
    50: "ImageQuery",
    55: "StorageImageReadWithoutFormat",
    56: "StorageImageWriteWithoutFormat",
    61: "GroupNonUniform",
    62: "GroupNonUniformVote",
    63: "GroupNonUniformArithmetic",
    64: "GroupNonUniformBallot",
    65: "GroupNonUniformShuffle",
    66: "GroupNonUniformShuffleRelative",
    67: "GroupNonUniformClustered",
    68: "GroupNonUniformQuad",
    4423: "SubgroupBallotKHR",
    4431: "SubgroupVoteKHR",
    4433: "StorageBuffer16BitAccess",
    4434: "UniformAndStorageBuffer16BitAccess",
    4435: "StoragePushConstant16",
    4437: "DeviceGroup",
    4441: "VariablePointersStorageBuffer",
    4442: "VariablePointers",
    4448: "StorageBuffer8BitAccess",
    4449: "UniformAndStorageBuffer8BitAccess",
    4450: "StoragePushConstant8",
    4465: "DenormFlushToZero",
    4466: "SignedZeroInfNanPreserve",
    4467: "RoundingModeRTE",
    5055: "ShaderClockKHR",
    5301: "ShaderNonUniform",
    5345: "VulkanMemoryModel",
    5346: "VulkanMemoryModelDeviceScope",
    5347: "PhysicalStorageBufferAddresses",
    5357: "CooperativeMatrixNV",
    6019: "DotProduct",
    6022: "CooperativeMatrixKHR",
    6033: "AtomicFloat32AddEXT",
    6034: "AtomicFloat64AddEXT",
}


ADDRESSING_MODELS = {0: "Logical", 1: "Physical32", 2: "Physical64", 5348: "PhysicalStorageBuffer64"}
MEMORY_MODELS = {0: "Simple", 1: "GLSL450", 2: "OpenCL", 3: "Vulkan"}
DIMENSIONS = {0: "1D", 1: "2D", 2: "3D", 3: "Cube", 4: "Rect", 5: "Buffer", 6: "SubpassData"}

# Of the capabilities with which a module looks at or depends on subgroups.
SUBGROUP_USES = frozenset({*SUBGROUP_CAPABILITIES, 4423, 4431, 5249, 5297, 6026})


def capability_name(number: int) -> str:
    """Return the specification's name of a capability, or its number as text."""
    return CAPABILITY_NAMES.get(number, f"capability {number}")
