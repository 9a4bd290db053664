#version 450
#extension GL_EXT_control_flow_attributes : require
// How often each value below `bins` occurs; other values are left out.
//
// A workgroup counts in shared memory, in several copies side by side: lanes that meet the same value count in different copies,
// which lie in different banks. Without room for one copy (`copies` is 0) all count in global memory at once.
layout(constant_id = 0) const uint WORKGROUP_X = 512;
layout(constant_id = 1) const uint UNROLL = 4;
layout(constant_id = 2) const uint SHARED_WORDS = 8192;
layout(constant_id = 3) const uint BLOCKS = 528;
layout(local_size_x_id = 0) in;

layout(set = 0, binding = 0) readonly buffer X { uint x[]; };
layout(set = 0, binding = 0) readonly buffer XV { uvec4 xv[]; };
layout(set = 0, binding = 1) buffer Counts { uint counts[]; };
layout(push_constant) uniform Push { uint count; uint bins; uint copies; };

const uint NO_VALUE = 0xffffffffu; // no array has so many bins

shared uint parts[SHARED_WORDS];

void tally(uint value, uint copy) {
    if (value < bins) {
        if (copies > 0u) {
            atomicAdd(parts[value * copies + copy], 1u);
        } else {
            atomicAdd(counts[value], 1u);
        }
    }
}

// The vector at a place of which some numbers, or all, may be past the end.
uvec4 guarded(uint at) {
    uvec4 found = uvec4(NO_VALUE);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        if (4u * at + i < count) {
            found[i] = x[4u * at + i];
        }
    }
    return found;
}

void main() {
    uint lane = gl_LocalInvocationIndex;
    uint tile = WORKGROUP_X * UNROLL;
    uint tiles = ((count + 3u) / 4u + tile - 1u) / tile;
    uint blocks = min(gl_NumWorkGroups.x, BLOCKS);
    for (uint i = lane; i < bins * copies; i += WORKGROUP_X) {
        parts[i] = 0u;
    }
    barrier();
    uint copy = copies > 0u ? lane & (copies - 1u) : 0u; // copies is a power of two
    for (uint i = gl_WorkGroupID.x; i < tiles && gl_WorkGroupID.x < blocks; i += blocks) {
        uint at = i * tile + lane;
        uvec4 row[UNROLL];
        if ((i + 1u) * tile <= count / 4u) {
            [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
                row[k] = xv[at + k * WORKGROUP_X];
            }
        } else {
            [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
                row[k] = guarded(at + k * WORKGROUP_X);
            }
        }
        [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
            tally(row[k].x, copy);
            tally(row[k].y, copy);
            tally(row[k].z, copy);
            tally(row[k].w, copy);
        }
    }
    barrier();
    if (copies > 0u) {
        for (uint bin = lane; bin < bins; bin += WORKGROUP_X) {
            uint sum = 0u;
            for (uint i = 0u; i < copies; ++i) {
                sum += parts[bin * copies + ((i + lane) & (copies - 1u))]; // each lane in a bank of its own
            }
            if (sum != 0u) {
                atomicAdd(counts[bin], sum);
            }
        }
    }
}
