#version 450
#extension GL_EXT_control_flow_attributes : require
// out = alpha * x + y, four numbers a load. `precise` forbids a fused multiply-add, so that the result equals numpy's bit for bit.
layout(constant_id = 0) const uint WORKGROUP_X = 256;
layout(constant_id = 1) const uint UNROLL = 2;
layout(constant_id = 2) const uint TURNS = 1;
layout(local_size_x_id = 0) in;

layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 0) readonly buffer XV { vec4 xv[]; };
layout(set = 0, binding = 1) readonly buffer Y { float y[]; };
layout(set = 0, binding = 1) readonly buffer YV { vec4 yv[]; };
layout(set = 0, binding = 2) writeonly buffer Sums { float sums[]; };
layout(set = 0, binding = 2) writeonly buffer SumsV { vec4 sumsv[]; };
layout(push_constant) uniform Push { float alpha; uint count; };

vec4 computed(vec4 a, vec4 b) {
    precise vec4 scaled = alpha * a;
    precise vec4 sum = scaled + b;
    return sum;
}

void guarded(uint at, uint vectors) {
    if (at < vectors) {
        sumsv[at] = computed(xv[at], yv[at]);
    }
}

void main() {
    uint vectors = count / 4u;
    uint row = WORKGROUP_X * UNROLL;
    uint tile = row * TURNS;
    // More tiles than the device has workgroups along x go round again.
    for (uint start = gl_WorkGroupID.x * tile; start < vectors; start += gl_NumWorkGroups.x * tile) {
        for (uint turn = 0u; turn < TURNS; ++turn) {
            uint first = start + turn * row;
            uint at = first + gl_LocalInvocationIndex;
            if (first + row <= vectors) {
                // All loads before the first store: as many as possible are under way together.
                vec4 a[UNROLL];
                vec4 b[UNROLL];
                [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
                    a[k] = xv[at + k * WORKGROUP_X];
                    b[k] = yv[at + k * WORKGROUP_X];
                }
                [[unroll]] for (uint k = 0u; k < UNROLL; ++k) {
                    sumsv[at + k * WORKGROUP_X] = computed(a[k], b[k]);
                }
            } else {
                for (uint k = 0u; k < UNROLL; ++k) {
                    guarded(at + k * WORKGROUP_X, vectors);
                }
            }
        }
    }
    // The last one to three numbers, which fill no vector.
    if (gl_WorkGroupID.x == 0u) {
        for (uint rest = 4u * vectors + gl_LocalInvocationIndex; rest < count; rest += WORKGROUP_X) {
            sums[rest] = computed(vec4(x[rest]), vec4(y[rest])).x;
        }
    }
}
