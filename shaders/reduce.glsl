#extension GL_EXT_control_flow_attributes : require
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
// Sum or maximum of each block of an array: one number a workgroup, at the workgroup's place among the results.
//
// Numbers are taken as unsigned words whose least, 0, changes nothing. Of a maximum the words are in the order of the numbers:
// floats from minus infinity to infinity, and behind that every NaN, so that a NaN wins; nothing is compared as a float, so
// that denormal numbers stay what they are and +0 is greater than -0.
layout(constant_id = 0) const uint WORKGROUP_X = 256;
layout(constant_id = 1) const uint UNROLL = 4;
layout(constant_id = 2) const uint BLOCKS = 2112;
layout(constant_id = 3) const uint KIND = 0;
layout(constant_id = 4) const bool CONSECUTIVE = false;
layout(local_size_x_id = 0) in;

const uint SUM_F32 = 0u;
const uint SUM_U32 = 1u;
const uint MAX_F32 = 2u;
const uint MAX_U32 = 3u;
const uint MAX_I32 = 4u;
// A negative float's bits, all but the sign inverted, are in order as signed numbers; minus infinity is this one of them.
const uint LEAST_F32 = 0x807fffffu;

// A structure of one word has no scalar type, so arrays of any type may be bound.
struct Word { uint bits; };
layout(set = 0, binding = 0) readonly buffer X { Word x[]; };
layout(set = 0, binding = 0) readonly buffer XV { uvec4 xv[]; };
layout(set = 0, binding = 1) writeonly buffer Results { Word results[]; };
layout(push_constant) uniform Push { uint count; };

shared uint parts[WORKGROUP_X];

uvec4 in_order(uvec4 bits) {
    return bits ^ (uvec4(ivec4(bits) >> 31) & 0x7fffffffu);
}

uvec4 taken(uvec4 bits) {
    if (KIND == MAX_F32) return in_order(bits) - LEAST_F32;
    if (KIND == MAX_I32) return bits ^ 0x80000000u;
    return bits;
}

uint given(uint word) {
    if (KIND == MAX_F32) return in_order(uvec4(word + LEAST_F32)).x;
    if (KIND == MAX_I32) return word ^ 0x80000000u;
    return word;
}

uvec4 combined(uvec4 a, uvec4 b) {
    if (KIND == SUM_F32) return floatBitsToUint(uintBitsToFloat(a) + uintBitsToFloat(b));
    if (KIND == SUM_U32) return a + b;
    return max(a, b);
}

uint combined(uint a, uint b) {
    return combined(uvec4(a), uvec4(b)).x;
}

// The vector at a place of which some numbers, or all, may be past the end.
uvec4 guarded(uint at) {
    uvec4 found = uvec4(0u);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        if (4u * at + i < count) {
            found[i] = taken(uvec4(x[4u * at + i].bits)).x;
        }
    }
    return found;
}

#ifdef SUBGROUPS
uint of_subgroup(uint own) {
    if (KIND == SUM_F32) return floatBitsToUint(subgroupAdd(uintBitsToFloat(own)));
    if (KIND == SUM_U32) return subgroupAdd(own);
    return subgroupMax(own);
}

void store(uint own) {
    uint part = of_subgroup(own);
    if (subgroupElect()) {
        parts[gl_SubgroupID] = part;
    }
    barrier();
    if (gl_SubgroupID == 0u) {
        // Counted, not gl_SubgroupSize: Vulkan does not promise that a subgroup is full.
        uint lanes = subgroupAdd(1u);
        uint lane = subgroupExclusiveAdd(1u);
        uint all = 0u;
        for (uint first = 0u; first < gl_NumSubgroups; first += lanes) {
            all = combined(all, first + lane < gl_NumSubgroups ? parts[first + lane] : 0u);
        }
        all = of_subgroup(all);
        if (subgroupElect()) {
            results[gl_WorkGroupID.x].bits = given(all);
        }
    }
}
#else
void store(uint own) {
    uint lane = gl_LocalInvocationIndex;
    parts[lane] = own;
    barrier();
    for (uint left = WORKGROUP_X; left > 1u; left = (left + 1u) / 2u) {
        uint upper = (left + 1u) / 2u;
        if (lane + upper < left) {
            parts[lane] = combined(parts[lane], parts[lane + upper]);
        }
        barrier();
    }
    if (lane == 0u) {
        results[gl_WorkGroupID.x].bits = given(parts[0]);
    }
}
#endif

void main() {
    uint tile = WORKGROUP_X * UNROLL;
    uint tiles = ((count + 3u) / 4u + tile - 1u) / tile;
    uint blocks = min(gl_NumWorkGroups.x, BLOCKS);
    if (gl_WorkGroupID.x >= blocks) {
        return;
    }
    uint share = (tiles + blocks - 1u) / blocks;
    uint step = CONSECUTIVE ? 1u : blocks;
    uint first = CONSECUTIVE ? gl_WorkGroupID.x * share : gl_WorkGroupID.x;
    uint end = CONSECUTIVE ? min(first + share, tiles) : tiles;
    uvec4 found = uvec4(0u);
    for (uint i = first; i < end; i += step) {
        uint at = i * tile + gl_LocalInvocationIndex;
        uvec4 row[UNROLL];
        if ((i + 1u) * tile <= count / 4u) {
            [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
                row[k] = xv[at + k * WORKGROUP_X];
            }
            [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
                row[k] = taken(row[k]);
            }
        } else {
            [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
                row[k] = guarded(at + k * WORKGROUP_X);
            }
        }
        [[unroll]] for (uint k = 1u; k < UNROLL; ++k) {
            row[0] = combined(row[0], row[k]);
        }
        found = combined(found, row[0]);
    }
    store(combined(combined(found.x, found.y), combined(found.z, found.w)));
}
