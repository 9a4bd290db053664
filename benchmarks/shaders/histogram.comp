#version 450
layout(local_size_x = 256) in;
layout(binding = 0) readonly buffer Values { uint values[]; };
layout(binding = 1) buffer Counts { uint counts[256]; };
layout(push_constant) uniform Lengths { uint count; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < count) atomicAdd(counts[values[i] & 255u], 1u);
}
