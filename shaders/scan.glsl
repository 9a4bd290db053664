#extension GL_EXT_control_flow_attributes : require
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
// Running sums of each block of an array, with the number before the block's own place among the offsets added.
//
// A block is a run of tiles that one workgroup takes one after the other, so there are as many blocks as workgroups, few enough
// that one workgroup scans their sums. Nobody waits for another workgroup: Vulkan does not promise that it runs meanwhile.
layout(constant_id = 0) const uint WORKGROUP_X = 256;
layout(constant_id = 1) const uint UNROLL = 4;
layout(constant_id = 2) const uint BLOCKS = 2112;
layout(constant_id = 3) const uint KIND = 0;
layout(local_size_x_id = 0) in;

const uint SUM_F32 = 0u;

// A structure of one word has no scalar type, so arrays of any type may be bound.
struct Word { uint bits; };
layout(set = 0, binding = 0) readonly buffer X { Word x[]; };
layout(set = 0, binding = 0) readonly buffer XV { uvec4 xv[]; };
layout(set = 0, binding = 1) readonly buffer Offsets { Word offsets[]; };
layout(set = 0, binding = 2) writeonly buffer Sums { Word sums[]; };
layout(set = 0, binding = 2) writeonly buffer SumsV { uvec4 sumsv[]; };
layout(push_constant) uniform Push { uint count; };

// A tile is UNROLL rows of a vector for each invocation, one row behind the other.
shared uint totals[WORKGROUP_X * UNROLL];
shared uint grand_total;
uvec4 vectors[UNROLL];
uint before[UNROLL]; // the sum of this invocation's vector of a row; then of all that comes before it
uint carry;          // the sum of all that comes before the tile

uvec4 added(uvec4 a, uvec4 b) {
    return KIND == SUM_F32 ? floatBitsToUint(uintBitsToFloat(a) + uintBitsToFloat(b)) : a + b;
}

uint added(uint a, uint b) {
    return added(uvec4(a), uvec4(b)).x;
}

#ifdef SUBGROUPS
uint lanes; // invocations of this subgroup: Vulkan does not promise that it is full
uint lane;  // place among them
bool is_last;

uint before_in_subgroup(uint own) {
    return KIND == SUM_F32 ? floatBitsToUint(subgroupExclusiveAdd(uintBitsToFloat(own))) : subgroupExclusiveAdd(own);
}

uint of_subgroup(uint own) {
    return KIND == SUM_F32 ? floatBitsToUint(subgroupAdd(uintBitsToFloat(own))) : subgroupAdd(own);
}

// Return the place in the workgroup, subgroup after subgroup; local invocation indices need not be in that order.
uint place() {
    lanes = subgroupAdd(1u);
    lane = subgroupExclusiveAdd(1u);
    is_last = lane + 1u == lanes;
    if (gl_NumSubgroups * gl_SubgroupSize == WORKGROUP_X) {
        return gl_SubgroupID * gl_SubgroupSize + lane; // all are full
    }
    if (is_last) {
        totals[gl_SubgroupID] = lanes;
    }
    barrier();
    uint found = lane;
    for (uint i = 0u; i < gl_SubgroupID; ++i) {
        found += totals[i];
    }
    barrier();
    return found;
}

void scan_tile() {
    [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
        uint own = before[k];
        before[k] = before_in_subgroup(own);
        if (is_last) {
            totals[k * gl_NumSubgroups + gl_SubgroupID] = added(before[k], own);
        }
    }
    barrier();
    if (gl_SubgroupID == 0u) {
        uint number = UNROLL * gl_NumSubgroups;
        uint sum = 0u;
        for (uint first = 0u; first < number; first += lanes) {
            uint i = first + lane;
            uint own = i < number ? totals[i] : 0u;
            uint found = added(sum, before_in_subgroup(own));
            sum = added(sum, of_subgroup(own));
            if (i < number) {
                totals[i] = found;
            }
        }
        if (is_last) {
            grand_total = sum;
        }
    }
    barrier();
    [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
        before[k] = added(carry, added(totals[k * gl_NumSubgroups + gl_SubgroupID], before[k]));
    }
    carry = added(carry, grand_total);
    barrier();
}
#else
uint place() {
    return gl_LocalInvocationIndex;
}

void scan_tile() {
    uint lane = gl_LocalInvocationIndex;
    [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
        totals[k * WORKGROUP_X + lane] = before[k];
    }
    barrier();
    for (uint distance = 1u; distance < WORKGROUP_X; distance *= 2u) {
        [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
            before[k] = lane >= distance ? totals[k * WORKGROUP_X + lane - distance] : 0u;
        }
        barrier();
        if (lane >= distance) {
            [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
                totals[k * WORKGROUP_X + lane] = added(before[k], totals[k * WORKGROUP_X + lane]);
            }
        }
        barrier();
    }
    [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
        before[k] = lane > 0u ? added(carry, totals[k * WORKGROUP_X + lane - 1u]) : carry;
        carry = added(carry, totals[k * WORKGROUP_X + WORKGROUP_X - 1u]);
    }
    barrier();
}
#endif

// The vector at a place of which some numbers, or all, may be past the end.
uvec4 guarded(uint at) {
    uvec4 found = uvec4(0u);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        if (4u * at + i < count) {
            found[i] = x[4u * at + i].bits;
        }
    }
    return found;
}

void store_guarded(uint at, uvec4 found) {
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        if (4u * at + i < count) {
            sums[4u * at + i].bits = found[i];
        }
    }
}

void main() {
    uint tile = WORKGROUP_X * UNROLL;
    uint tiles = ((count + 3u) / 4u + tile - 1u) / tile;
    uint blocks = min(gl_NumWorkGroups.x, BLOCKS);
    if (gl_WorkGroupID.x >= blocks) {
        return;
    }
    uint share = (tiles + blocks - 1u) / blocks;
    uint first = gl_WorkGroupID.x * share;
    uint end = min(first + share, tiles);
    uint own_place = place();
    carry = gl_WorkGroupID.x > 0u ? offsets[gl_WorkGroupID.x - 1u].bits : 0u;
    for (uint i = first; i < end; ++i) {
        uint at = i * tile + own_place;
        bool is_whole = (i + 1u) * tile <= count / 4u;
        if (is_whole) {
            [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
                vectors[k] = xv[at + k * WORKGROUP_X];
            }
        } else {
            [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
                vectors[k] = guarded(at + k * WORKGROUP_X);
            }
        }
        [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
            vectors[k].y = added(vectors[k].x, vectors[k].y);
            vectors[k].z = added(vectors[k].y, vectors[k].z);
            vectors[k].w = added(vectors[k].z, vectors[k].w);
            before[k] = vectors[k].w;
        }
        scan_tile();
        [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
            vectors[k] = added(uvec4(before[k]), vectors[k]);
        }
        if (is_whole) {
            [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
                sumsv[at + k * WORKGROUP_X] = vectors[k];
            }
        } else {
            [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
                store_guarded(at + k * WORKGROUP_X, vectors[k]);
            }
        }
    }
}
