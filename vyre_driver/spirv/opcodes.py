"""The SPIR-V numbers that reflection reads and emitters write: of declarations, of function bodies, and what devices call them.

Source: SPIR-V 1.6, sections 3.3 (execution model), 3.4 (addressing model), 3.5 (memory model), 3.6 (execution mode), 3.7
(storage class), 3.8 (dimension), 3.20 (decoration), 3.21 (built-in), 3.25 (memory semantics), 3.27 (scope), 3.29 (group
operation), 3.31 (capability), 3.42 (instructions); "SPIR-V Extended Instructions for GLSL", section 2
(numbers of the instructions).
"""

from __future__ import annotations

from enum import IntEnum


class Op(IntEnum):
    """Opcodes of declarations; names as in the specification without their ``Op``."""

    Source = 3
    Name = 5
    MemberName = 6
    String = 7
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
    ConstantNull = 46
    SpecConstantTrue = 48
    SpecConstantFalse = 49
    SpecConstant = 50
    SpecConstantComposite = 51
    SpecConstantOp = 52
    Function = 54
    Variable = 59
    Decorate = 71
    MemberDecorate = 72
    GroupDecorate = 74
    ExecutionModeId = 331
    TypeAccelerationStructure = 5341


class StorageClass(IntEnum):
    """Storage classes of module-scope variables."""

    UNIFORM_CONSTANT = 0
    INPUT = 1
    UNIFORM = 2
    WORKGROUP = 4
    PRIVATE = 6
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

    NUM_WORKGROUPS = 24
    WORKGROUP_ID = 26
    LOCAL_INVOCATION_ID = 27
    GLOBAL_INVOCATION_ID = 28
    LOCAL_INVOCATION_INDEX = 29
    SUBGROUP_SIZE = 36
    SUBGROUP_ID = 40
    SUBGROUP_LOCAL_INVOCATION_ID = 41


ENTRY_POINT = "main"
"""The name that kompute runs."""

# Languages whose compilers store row i of a matrix as column i of SPIR-V's: HLSL and Slang, as OpSource names them, and the
# generators that are compilers of those two alone: DXC ("spiregg") and Slang's.
LANGUAGES_BY_ROWS = frozenset({5, 11})
GENERATORS_BY_ROWS = frozenset({14, 40})
LANGUAGE_UNKNOWN = 0

GL_COMPUTE = 5
BUILT_IN_WORKGROUP_SIZE = 25
MODE_LOCAL_SIZE = 17
MODE_LOCAL_SIZE_ID = 38
MODE_DENORM_PRESERVE = 4459
MODE_DENORM_FLUSH_TO_ZERO = 4460
MODE_SIGNED_ZERO_INF_NAN_PRESERVE = 4461
MODE_ROUNDING_MODE_RTE = 4462
MODE_ROUNDING_MODE_RTZ = 4463


class Capability(IntEnum):
    """What a module may declare that it needs; names as in the specification."""

    Matrix = 0
    Shader = 1
    Addresses = 4
    Linkage = 5
    Kernel = 6
    Float16 = 9
    Float64 = 10
    Int64 = 11
    Int64Atomics = 12
    Int16 = 22
    ImageGatherExtended = 25
    StorageImageMultisample = 27
    UniformBufferArrayDynamicIndexing = 28
    SampledImageArrayDynamicIndexing = 29
    StorageBufferArrayDynamicIndexing = 30
    StorageImageArrayDynamicIndexing = 31
    Int8 = 39
    Sampled1D = 43
    Image1D = 44
    SampledBuffer = 46
    ImageBuffer = 47
    StorageImageExtendedFormats = 49
    ImageQuery = 50
    StorageImageReadWithoutFormat = 55
    StorageImageWriteWithoutFormat = 56
    GroupNonUniform = 61
    GroupNonUniformVote = 62
    GroupNonUniformArithmetic = 63
    GroupNonUniformBallot = 64
    GroupNonUniformShuffle = 65
    GroupNonUniformShuffleRelative = 66
    GroupNonUniformClustered = 67
    GroupNonUniformQuad = 68
    Float8EXT = 4212
    Float8CooperativeMatrixEXT = 4213
    SubgroupBallotKHR = 4423
    SubgroupVoteKHR = 4431
    StorageBuffer16BitAccess = 4433
    UniformAndStorageBuffer16BitAccess = 4434
    StoragePushConstant16 = 4435
    DeviceGroup = 4437
    VariablePointersStorageBuffer = 4441
    VariablePointers = 4442
    StorageBuffer8BitAccess = 4448
    UniformAndStorageBuffer8BitAccess = 4449
    StoragePushConstant8 = 4450
    DenormPreserve = 4464
    DenormFlushToZero = 4465
    SignedZeroInfNanPreserve = 4466
    RoundingModeRTE = 4467
    RoundingModeRTZ = 4468
    ShaderClockKHR = 5055
    BFloat16TypeKHR = 5116
    BFloat16DotProductKHR = 5117
    BFloat16CooperativeMatrixKHR = 5118
    GroupNonUniformPartitionedNV = 5297
    ShaderNonUniform = 5301
    VulkanMemoryModel = 5345
    VulkanMemoryModelDeviceScope = 5346
    PhysicalStorageBufferAddresses = 5347
    CooperativeMatrixNV = 5357
    CooperativeMatrixReductionsNV = 5430
    CooperativeMatrixConversionsNV = 5431
    CooperativeMatrixPerElementOperationsNV = 5432
    CooperativeMatrixTensorAddressingNV = 5433
    CooperativeMatrixBlockLoadsNV = 5434
    TensorAddressingNV = 5439
    DotProductInputAll = 6016
    DotProductInput4x8Bit = 6017
    DotProductInput4x8BitPacked = 6018
    DotProduct = 6019
    CooperativeMatrixKHR = 6022
    GroupNonUniformRotateKHR = 6026
    AtomicFloat32AddEXT = 6033
    AtomicFloat64AddEXT = 6034


# What any Vulkan 1.1 device with a compute queue accepts without a feature being enabled (Vulkan 1.3, appendix "SPIR-V
# Environment"); the GroupNonUniform family depends on the subgroup operations the device reports.
CORE_CAPABILITIES: frozenset[int] = frozenset(
    {
        Capability.Matrix,
        Capability.Shader,
        Capability.Sampled1D,
        Capability.Image1D,
        Capability.SampledBuffer,
        Capability.ImageBuffer,
        Capability.StorageImageExtendedFormats,
        Capability.ImageQuery,
        Capability.DeviceGroup,
    }
)

# Capability -> bit of VkSubgroupFeatureFlagBits.
SUBGROUP_CAPABILITIES: dict[int, int] = {
    Capability.GroupNonUniform: 0x1,
    Capability.GroupNonUniformVote: 0x2,
    Capability.GroupNonUniformArithmetic: 0x4,
    Capability.GroupNonUniformBallot: 0x8,
    Capability.GroupNonUniformShuffle: 0x10,
    Capability.GroupNonUniformShuffleRelative: 0x20,
    Capability.GroupNonUniformClustered: 0x40,
    Capability.GroupNonUniformQuad: 0x80,
}

# Capability -> the device feature that Vulkan asks to be enabled for it.
FEATURE_OF_CAPABILITY: dict[int, str] = {
    Capability.Float16: "shaderFloat16",
    Capability.Float64: "shaderFloat64",
    Capability.Int64: "shaderInt64",
    Capability.Int64Atomics: "shaderBufferInt64Atomics",
    Capability.Int16: "shaderInt16",
    Capability.Int8: "shaderInt8",
    Capability.StorageBuffer16BitAccess: "storageBuffer16BitAccess",
    Capability.UniformAndStorageBuffer16BitAccess: "uniformAndStorageBuffer16BitAccess",
    Capability.StoragePushConstant16: "storagePushConstant16",
    Capability.VariablePointersStorageBuffer: "variablePointersStorageBuffer",
    Capability.VariablePointers: "variablePointers",
    Capability.StorageBuffer8BitAccess: "storageBuffer8BitAccess",
    Capability.UniformAndStorageBuffer8BitAccess: "uniformAndStorageBuffer8BitAccess",
    Capability.StoragePushConstant8: "storagePushConstant8",
    Capability.VulkanMemoryModel: "vulkanMemoryModel",
    Capability.VulkanMemoryModelDeviceScope: "vulkanMemoryModelDeviceScope",
    Capability.DotProductInputAll: "shaderIntegerDotProduct",
    Capability.DotProductInput4x8Bit: "shaderIntegerDotProduct",
    Capability.DotProductInput4x8BitPacked: "shaderIntegerDotProduct",
    Capability.DotProduct: "shaderIntegerDotProduct",
    Capability.CooperativeMatrixKHR: "cooperativeMatrix",
    Capability.BFloat16TypeKHR: "shaderBFloat16Type",
    Capability.BFloat16DotProductKHR: "shaderBFloat16DotProduct",
    Capability.BFloat16CooperativeMatrixKHR: "shaderBFloat16CooperativeMatrix",
    Capability.Float8EXT: "shaderFloat8",
    Capability.Float8CooperativeMatrixEXT: "shaderFloat8CooperativeMatrix",
    Capability.CooperativeMatrixReductionsNV: "cooperativeMatrixReductions",
    Capability.CooperativeMatrixConversionsNV: "cooperativeMatrixConversions",
    Capability.CooperativeMatrixPerElementOperationsNV: "cooperativeMatrixPerElementOperations",
    Capability.CooperativeMatrixTensorAddressingNV: "cooperativeMatrixTensorAddressing",
    Capability.CooperativeMatrixBlockLoadsNV: "cooperativeMatrixBlockLoads",
    Capability.TensorAddressingNV: "cooperativeMatrixTensorAddressing",
    Capability.AtomicFloat32AddEXT: "shaderBufferFloat32AtomicAdd",
}

# Execution mode -> its capability, of the float controls: no feature is enabled for them, and each is there by width.
FLOAT_CONTROLS: dict[int, Capability] = {
    MODE_DENORM_PRESERVE: Capability.DenormPreserve,
    MODE_DENORM_FLUSH_TO_ZERO: Capability.DenormFlushToZero,
    MODE_SIGNED_ZERO_INF_NAN_PRESERVE: Capability.SignedZeroInfNanPreserve,
    MODE_ROUNDING_MODE_RTE: Capability.RoundingModeRTE,
    MODE_ROUNDING_MODE_RTZ: Capability.RoundingModeRTZ,
}
FLOAT_CONTROL_WIDTHS = (16, 32, 64)
# Those of which an entry point states one a width -> the property that says whether widths may differ.
FLOAT_ALTERNATIVES: dict[tuple[Capability, Capability], str] = {
    (Capability.DenormPreserve, Capability.DenormFlushToZero): "denormBehaviorIndependence",
    (Capability.RoundingModeRTE, Capability.RoundingModeRTZ): "roundingModeIndependence",
}

ADDRESSING_MODELS = {0: "Logical", 1: "Physical32", 2: "Physical64", 5348: "PhysicalStorageBuffer64"}
MEMORY_MODELS = {0: "Simple", 1: "GLSL450", 2: "OpenCL", 3: "Vulkan"}
DIMENSIONS = {0: "1D", 1: "2D", 2: "3D", 3: "Cube", 4: "Rect", 5: "Buffer", 6: "SubpassData"}

# Of the capabilities with which a module looks at or depends on subgroups.
SUBGROUP_USES = frozenset(
    {
        *SUBGROUP_CAPABILITIES,
        Capability.SubgroupBallotKHR,
        Capability.SubgroupVoteKHR,
        Capability.GroupNonUniformPartitionedNV,
        Capability.GroupNonUniformRotateKHR,
    }
)

# Capabilities that nothing here asks about: their names are for messages.
_OTHER_CAPABILITIES = {
    2: "Geometry",
    3: "Tessellation",
    7: "Vector16",
    8: "Float16Buffer",
    13: "ImageBasic",
    15: "ImageMipmap",
    18: "Groups",
    21: "AtomicStorage",
    23: "TessellationPointSize",
    24: "GeometryPointSize",
    32: "ClipDistance",
    33: "CullDistance",
    34: "ImageCubeArray",
    35: "SampleRateShading",
    38: "GenericPointer",
    40: "InputAttachment",
    41: "SparseResidency",
    42: "MinLod",
    45: "SampledCubeArray",
    48: "ImageMSArray",
    51: "DerivativeControl",
    52: "InterpolationFunction",
    53: "TransformFeedback",
    54: "GeometryStreams",
    57: "MultiViewport",
    69: "ShaderLayer",
    70: "ShaderViewportIndex",
    71: "UniformDecoration",
    4165: "CoreBuiltinsARM",
    4422: "FragmentShadingRateKHR",
    4427: "DrawParameters",
    4428: "WorkgroupMemoryExplicitLayoutKHR",
    4429: "WorkgroupMemoryExplicitLayout8BitAccessKHR",
    4430: "WorkgroupMemoryExplicitLayout16BitAccessKHR",
    4436: "StorageInputOutput16",
    4439: "MultiView",
    4472: "RayQueryKHR",
    4473: "UntypedPointersKHR",
    4478: "RayTraversalPrimitiveCullingKHR",
    4479: "RayTracingKHR",
    5013: "StencilExportEXT",
    5016: "Int64ImageEXT",
    5087: "QuadControlKHR",
    5283: "MeshShadingEXT",
    5284: "FragmentBarycentricKHR",
    5288: "ComputeDerivativeGroupQuadsKHR",
    5302: "RuntimeDescriptorArray",
    5303: "InputAttachmentArrayDynamicIndexing",
    5304: "UniformTexelBufferArrayDynamicIndexing",
    5305: "StorageTexelBufferArrayDynamicIndexing",
    5306: "UniformBufferArrayNonUniformIndexing",
    5307: "SampledImageArrayNonUniformIndexing",
    5308: "StorageBufferArrayNonUniformIndexing",
    5309: "StorageImageArrayNonUniformIndexing",
    5310: "InputAttachmentArrayNonUniformIndexing",
    5311: "UniformTexelBufferArrayNonUniformIndexing",
    5312: "StorageTexelBufferArrayNonUniformIndexing",
    5336: "RayTracingPositionFetchKHR",
    5350: "ComputeDerivativeGroupLinearKHR",
    5363: "FragmentShaderSampleInterlockEXT",
    5373: "ShaderSMBuiltinsNV",
    5378: "FragmentShaderPixelInterlockEXT",
    5379: "DemoteToHelperInvocation",
    5383: "ShaderInvocationReorderNV",
    5391: "RayQueryPositionFetchKHR",
    5394: "CooperativeVectorNV",
    5404: "AtomicFloat16VectorNV",
    5414: "RawAccessChainsNV",
    5426: "Shader64BitIndexingEXT",
    5584: "IntegerFunctions2INTEL",
    5612: "AtomicFloat32MinMaxEXT",
    5613: "AtomicFloat64MinMaxEXT",
    5616: "AtomicFloat16MinMaxEXT",
    5629: "ExpectAssumeKHR",
    6020: "RayCullMaskKHR",
    6024: "ReplicatedCompositesEXT",
    6025: "BitInstructions",
    6029: "FloatControls2",
    6095: "AtomicFloat16AddEXT",
    6141: "SplitBarrierINTEL",
    6400: "GroupUniformArithmeticKHR",
}
_CAPABILITY_NAMES = _OTHER_CAPABILITIES | {one.value: one.name for one in Capability}


def capability_name(number: int) -> str:
    """Return the specification's name of a capability, or its number as text."""
    return _CAPABILITY_NAMES.get(number, f"capability {number}")


def float_control(capability: int, width: int) -> str:
    """Return the member of VkPhysicalDeviceFloatControlsProperties for a float control and a width in bits."""
    return f"shader{capability_name(capability)}Float{width}"


class Ins:
    """Opcodes of functions; names as in the specification without their ``Op``.

    Plain numbers, as those below: members of an enumeration hash slowly, and these are in every key of a value.
    """

    Line = 8
    ExtInst = 12
    Function = 54
    FunctionEnd = 56
    FunctionCall = 57
    Variable = 59
    Load = 61
    Store = 62
    AccessChain = 65
    ArrayLength = 68
    CompositeConstruct = 80
    CompositeExtract = 81
    ConvertFToU = 109
    ConvertFToS = 110
    ConvertSToF = 111
    ConvertUToF = 112
    UConvert = 113
    SConvert = 114
    FConvert = 115
    Bitcast = 124
    FNegate = 127
    IAdd = 128
    FAdd = 129
    ISub = 130
    FSub = 131
    IMul = 132
    FMul = 133
    UDiv = 134
    SDiv = 135
    FDiv = 136
    UMod = 137
    IAddCarry = 149
    ISubBorrow = 150
    UMulExtended = 151
    All = 155
    LogicalEqual = 164
    LogicalNotEqual = 165
    LogicalOr = 166
    LogicalAnd = 167
    LogicalNot = 168
    Select = 169
    IEqual = 170
    INotEqual = 171
    UGreaterThan = 172
    SGreaterThan = 173
    UGreaterThanEqual = 174
    SGreaterThanEqual = 175
    ULessThan = 176
    SLessThan = 177
    ULessThanEqual = 178
    SLessThanEqual = 179
    FOrdEqual = 180
    FUnordNotEqual = 183
    FOrdLessThan = 184
    FOrdGreaterThan = 186
    FOrdLessThanEqual = 188
    FOrdGreaterThanEqual = 190
    ShiftRightLogical = 194
    ShiftRightArithmetic = 195
    ShiftLeftLogical = 196
    BitwiseOr = 197
    BitwiseXor = 198
    BitwiseAnd = 199
    Not = 200
    BitFieldSExtract = 202
    BitFieldUExtract = 203
    BitReverse = 204
    BitCount = 205
    ControlBarrier = 224
    AtomicLoad = 227
    AtomicExchange = 229
    AtomicCompareExchange = 230
    AtomicIAdd = 234
    AtomicSMin = 236
    AtomicUMin = 237
    AtomicSMax = 238
    AtomicUMax = 239
    AtomicAnd = 240
    AtomicOr = 241
    AtomicXor = 242
    Phi = 245
    LoopMerge = 246
    SelectionMerge = 247
    Label = 248
    Branch = 249
    BranchConditional = 250
    Switch = 251
    Kill = 252
    Return = 253
    ReturnValue = 254
    Unreachable = 255
    GroupNonUniformAll = 334
    GroupNonUniformAny = 335
    GroupNonUniformBallot = 339
    GroupNonUniformBallotBitExtract = 341
    GroupNonUniformShuffle = 345
    GroupNonUniformIAdd = 349
    GroupNonUniformFAdd = 350
    GroupNonUniformIMul = 351
    GroupNonUniformFMul = 352
    GroupNonUniformSMin = 353
    GroupNonUniformUMin = 354
    GroupNonUniformFMin = 355
    GroupNonUniformSMax = 356
    GroupNonUniformUMax = 357
    GroupNonUniformFMax = 358
    GroupNonUniformBitwiseAnd = 359
    GroupNonUniformBitwiseOr = 360
    GroupNonUniformBitwiseXor = 361
    TerminateInvocation = 4416
    AtomicFAdd = 6035


class Glsl:
    """Instructions of ``GLSL.std.450``."""

    RoundEven = 2
    Trunc = 3
    FAbs = 4
    Floor = 8
    Ceil = 9
    Sin = 13
    Cos = 14
    Tan = 15
    Asin = 16
    Acos = 17
    Atan = 18
    Sinh = 19
    Cosh = 20
    Tanh = 21
    Exp = 27
    Log = 28
    Exp2 = 29
    Log2 = 30
    Sqrt = 31
    InverseSqrt = 32
    UMin = 38
    SMin = 39
    UMax = 41
    SMax = 42
    Fma = 50
    FindILsb = 73
    FindUMsb = 75
    NMin = 79
    NMax = 80


class Scope(IntEnum):
    """How far an operation reaches."""

    DEVICE = 1
    WORKGROUP = 2
    SUBGROUP = 3
    QUEUE_FAMILY = 5


class Semantics(IntEnum):
    """Bits of memory semantics: an order, and the memory it holds for."""

    RELAXED = 0
    ACQUIRE = 0x2
    RELEASE = 0x4
    ACQUIRE_RELEASE = 0x8
    UNIFORM_MEMORY = 0x40
    WORKGROUP_MEMORY = 0x100


GROUP_REDUCE = 0
FUNCTION_CONTROL_NONE = 0
SELECTION_CONTROL_NONE = 0
LOOP_CONTROL_NONE = 0
LOOP_CONTROL_UNROLL = 1
GLSL_STD_450 = "GLSL.std.450"
