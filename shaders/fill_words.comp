#version 450
// Sets words to one value.
layout(local_size_x = 128) in;

layout(set = 0, binding = 0) writeonly buffer To { uint to[]; };
layout(push_constant) uniform Push { uint count; uint value; };

void main() {
    uint stride = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    for (uint i = gl_GlobalInvocationID.x; i < count; i += stride) {
        to[i] = value;
    }
}
