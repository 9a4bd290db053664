#version 450
// c is the sum of matrices that lie one behind the other, in their order (matmul.comp). An invocation adds up one element.
layout(local_size_x = 128) in;
layout(set = 0, binding = 0) restrict readonly buffer Parts { float parts[]; };
layout(set = 0, binding = 1) restrict writeonly buffer C { float c[]; };
layout(push_constant) uniform Push { uint elements; uint count; };

void main() {
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint at = group * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    if (at < elements) {
        float sum = parts[at];
        for (uint i = 1; i < count; ++i) {
            sum += parts[i * elements + at];
        }
        c[at] = sum;
    }
}
