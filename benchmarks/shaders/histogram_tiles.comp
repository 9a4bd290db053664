#version 450
layout(local_size_x = 256) in;
layout(binding = 0) readonly buffer Values { uint values[]; };
layout(binding = 1) buffer Counts { uint counts[256]; };
layout(push_constant) uniform Lengths { uint count; };

shared uint tile[256];

void main() {
  uint own = gl_LocalInvocationID.x;
  uint i = gl_GlobalInvocationID.x;
  tile[own] = i < count ? values[i] & 255u : 256u;
  barrier();
  uint found = 0u;
  for (uint k = 0u; k < 256u; k++) found += uint(tile[k] == own);
  if (found != 0u) atomicAdd(counts[own], found);
}
