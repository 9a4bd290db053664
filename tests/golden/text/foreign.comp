#version 450
// What this driver refuses to run, and shows.
layout(local_size_x = 8, local_size_y = 8) in;
layout(set = 0, binding = 0, rgba8) writeonly uniform image2D picture;
layout(set = 0, binding = 1) uniform sampler2D looked[2];
layout(set = 0, binding = 2) buffer Block { double data[]; } many[2];
layout(push_constant) uniform Push { double wide; mat3 turn; } push;
void main() {
    vec4 texel = texture(looked[0], vec2(gl_GlobalInvocationID.xy)) + texture(looked[1], vec2(0.5));
    many[1].data[0] = push.wide + double(push.turn[0][0]);
    imageStore(picture, ivec2(gl_GlobalInvocationID.xy), texel);
}
