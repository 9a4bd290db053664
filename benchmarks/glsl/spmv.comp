#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer Values { float values[]; };
layout(binding = 1) readonly buffer Columns { int columns[]; };
layout(binding = 2) readonly buffer Starts { int starts[]; };
layout(binding = 3) readonly buffer X { float x[]; };
layout(binding = 4) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Push { uint count; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= count) return;
  float total = 0.0;
  for (int k = starts[i]; k < starts[i + 1]; k++) total += values[k] * x[columns[k]];
  y[i] = total;
}
