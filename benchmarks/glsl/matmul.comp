#version 450
layout(local_size_x = 16, local_size_y = 16) in;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) readonly buffer B { float b[]; };
layout(binding = 2) writeonly buffer C { float c[]; };
layout(push_constant) uniform Push { uint rows, inner, columns; };

shared float tile_a[16][16];
shared float tile_b[16][16];

void main() {
  uint row = gl_GlobalInvocationID.y, column = gl_GlobalInvocationID.x;
  uint y = gl_LocalInvocationID.y, x = gl_LocalInvocationID.x;
  float total = 0.0;
  for (uint t = 0; t < (inner + 15) / 16; t++) {
    uint at = t * 16 + x, down = t * 16 + y;
    tile_a[y][x] = row < rows && at < inner ? a[row * inner + at] : 0.0;
    tile_b[y][x] = down < inner && column < columns ? b[down * columns + column] : 0.0;
    barrier();
    for (uint k = 0; k < 16; k++) total = fma(tile_a[y][k], tile_b[k][x], total);
    barrier();
  }
  if (row < rows && column < columns) c[row * columns + column] = total;
}
