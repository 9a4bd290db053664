#version 450
layout(local_size_x = 256) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Sums { float sums[]; };
layout(push_constant) uniform Push { uint count; };

shared float part[256];
#define ADD_UPPER(half) if (t < half) part[t] += part[t + half]; barrier();

void main() {
  uint t = gl_LocalInvocationID.x;
  float total = 0.0;
  for (uint k = 0; k < 8; k++) {
    uint at = (gl_WorkGroupID.x * 8 + k) * 256 + t;
    if (at < count) total += x[at];
  }
  part[t] = total;
  barrier();
  ADD_UPPER(128) ADD_UPPER(64) ADD_UPPER(32) ADD_UPPER(16) ADD_UPPER(8) ADD_UPPER(4) ADD_UPPER(2) ADD_UPPER(1)
  if (t == 0) sums[gl_WorkGroupID.x] = part[0];
}
