#version 450
// How often each byte value occurs: counts in shared memory first, so that a workgroup touches each global bin once.
layout(local_size_x = 128) in;
layout(set = 0, binding = 0) readonly buffer Words { uint words[]; };
layout(set = 0, binding = 1) buffer Counts { uint counts[256]; };
layout(push_constant) uniform Push { uint byte_count; };

shared uint bins[256];

void main() {
    for (uint bin = gl_LocalInvocationIndex; bin < 256u; bin += gl_WorkGroupSize.x) {
        bins[bin] = 0u;
    }
    barrier();
    uint stride = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    uint whole = byte_count / 4u;
    for (uint i = gl_GlobalInvocationID.x; i < whole; i += stride) {
        uint word = words[i];
        atomicAdd(bins[word & 255u], 1u);
        atomicAdd(bins[(word >> 8) & 255u], 1u);
        atomicAdd(bins[(word >> 16) & 255u], 1u);
        atomicAdd(bins[word >> 24], 1u);
    }
    // The last one to three bytes, when the count is no multiple of four.
    if (gl_GlobalInvocationID.x < byte_count % 4u) {
        atomicAdd(bins[(words[whole] >> (8u * gl_GlobalInvocationID.x)) & 255u], 1u);
    }
    barrier();
    for (uint bin = gl_LocalInvocationIndex; bin < 256u; bin += gl_WorkGroupSize.x) {
        if (bins[bin] != 0u) {
            atomicAdd(counts[bin], bins[bin]);
        }
    }
}
