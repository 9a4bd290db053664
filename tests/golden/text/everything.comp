#version 450
#extension GL_KHR_shader_subgroup_arithmetic : require
// One of each thing that is read of a module and that this driver can run.
layout(local_size_x = 32, local_size_y = 2, local_size_x_id = 5) in;
layout(constant_id = 0) const uint TILE = 16;
layout(constant_id = 1) const float SCALE = 0.1;
layout(constant_id = 2) const bool FAST = true;
struct Pair { uint key; vec3 weight; };
layout(set = 1, binding = 2) readonly buffer Header { uint size; layout(row_major) mat2x3 turn; Pair pairs[]; } header;
layout(set = 0, binding = 3) uniform Sizes { ivec2 shape; float steps[3]; } sizes;
layout(set = 0, binding = 0) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { float alpha; uvec2 start; } push;
shared float tile[TILE * 2];
shared Pair best;
void main() {
    uint i = gl_LocalInvocationIndex;
    tile[i % TILE] = push.alpha + float(push.start.x);
    best.key = i;
    barrier();
    float sum = subgroupAdd(tile[i % TILE] * SCALE + header.pairs[i].weight.x * header.turn[0].y);
    result[i] = FAST ? sum : sum + float(sizes.shape.x) + sizes.steps[1] + float(best.key);
}
