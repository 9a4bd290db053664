#version 450
// Sets words to one value. A structure of one word has no scalar type, so arrays of any type may be bound.
layout(local_size_x = 128) in;

struct Word { uint bits; };
layout(set = 0, binding = 0) writeonly buffer To { Word to[]; };
layout(push_constant) uniform Push { uint count; uint value; };

void main() {
    uint stride = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    for (uint i = gl_GlobalInvocationID.x; i < count; i += stride) {
        to[i].bits = value;
    }
}
