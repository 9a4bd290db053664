#version 450
layout(local_size_x = 16, local_size_y = 16) in;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) readonly buffer B { float b[]; };
layout(binding = 2) writeonly buffer C { float c[]; };

shared float tile_a[256];
shared float tile_b[256];

layout(constant_id = 0) const uint N = 1024u;

void main() {
  uint row = gl_GlobalInvocationID.y, column = gl_GlobalInvocationID.x;
  uint y = gl_LocalInvocationID.y, x = gl_LocalInvocationID.x;
#ifdef PRECISE
  precise float total = 0.0;
#else
  float total = 0.0;
#endif
  for (uint tile = 0u; tile < N / 16u; tile++) {
    tile_a[y * 16u + x] = a[row * N + tile * 16u + x];
    tile_b[y * 16u + x] = b[(tile * 16u + y) * N + column];
    barrier();
    for (uint k = 0u; k < 16u; k++) total = total + tile_a[y * 16u + k] * tile_b[k * 16u + x];
    barrier();
  }
  c[row * N + column] = total;
}
