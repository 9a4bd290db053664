#version 450
// Copies words as they are. A structure of one word has no scalar type, so arrays of any type may be bound.
layout(local_size_x = 64) in;

struct Word { uint bits; };
layout(set = 0, binding = 0) readonly buffer From { Word from[]; };
layout(set = 0, binding = 1) writeonly buffer To { Word to[]; };
layout(push_constant) uniform Push { uint count; };

void main() {
    uint stride = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    for (uint i = gl_GlobalInvocationID.x; i < count; i += stride) {
        to[i].bits = from[i].bits;
    }
}
