"""The SPIR-V opcodes of function bodies that the emitter writes.

Source: SPIR-V 1.6, sections 3.25 (memory semantics), 3.27 (scope), 3.29 (group operation), 3.42 (instructions); "SPIR-V
Extended Instructions for GLSL", section 2 (numbers of the instructions).
"""

from __future__ import annotations

from enum import IntEnum


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
