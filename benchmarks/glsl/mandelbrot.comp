#version 450
layout(local_size_x = 16, local_size_y = 16) in;
layout(binding = 0) writeonly buffer Turns { int turns[]; };
layout(push_constant) uniform Push { float left, top, step_; int limit; uint height, width; };

void main() {
  uint i = gl_GlobalInvocationID.y, j = gl_GlobalInvocationID.x;
  if (i >= height || j >= width) return;
  float cr = left + float(j) * step_, ci = top + float(i) * step_, zr = 0.0, zi = 0.0;
  int n = 0;
  while (n < limit && zr * zr + zi * zi <= 4.0) {
    float next = zr * zr - zi * zi + cr;
    zi = 2.0 * zr * zi + ci;
    zr = next;
    n++;
  }
  turns[i * width + j] = n;
}
