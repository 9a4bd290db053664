#version 450
// One buffer as numbers, as vectors and as words, and one as a structure and as words.
layout(local_size_x = 64) in;
layout(set = 1, binding = 2) readonly buffer X { float x[]; };
layout(set = 1, binding = 2) readonly buffer X4 { vec4 x4[]; };
layout(set = 1, binding = 2) readonly buffer Unused { uvec2 unused[]; };
layout(set = 1, binding = 5) writeonly buffer Head { uint count; float sums[]; } head;
layout(set = 1, binding = 5) buffer Words { uint words[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < x.length()) head.sums[i] = x[i] + x4[i / 4].y;
    if (i == 0) { head.count = x.length(); words[1] += 1u; }
}
