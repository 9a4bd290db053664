#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Push { float a; uint count; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < count) y[i] = a * x[i] + y[i];
}
