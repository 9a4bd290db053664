#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer Places { float places[]; };
layout(binding = 1) buffer Speeds { float speeds[]; };
layout(push_constant) uniform Push { float step_; uint count; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= count) return;
  float x = places[3 * i], y = places[3 * i + 1], z = places[3 * i + 2];
  float ax = 0.0, ay = 0.0, az = 0.0;
  for (uint j = 0; j < count; j++) {
    float dx = places[3 * j] - x, dy = places[3 * j + 1] - y, dz = places[3 * j + 2] - z;
    float inverse_ = inversesqrt(dx * dx + dy * dy + dz * dz + 0.0004);
    float w = inverse_ * inverse_ * inverse_;
    ax += dx * w;
    ay += dy * w;
    az += dz * w;
  }
  speeds[3 * i] += ax * step_;
  speeds[3 * i + 1] += ay * step_;
  speeds[3 * i + 2] += az * step_;
}
