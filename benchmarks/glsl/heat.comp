#version 450
layout(local_size_x = 16, local_size_y = 16) in;
layout(binding = 0) readonly buffer Now { float now[]; };
layout(binding = 1) writeonly buffer Then { float then[]; };
layout(push_constant) uniform Push { float rate; uint height, width; };

void main() {
  uint i = gl_GlobalInvocationID.y, j = gl_GlobalInvocationID.x;
  if (i >= height || j >= width) return;
  uint at = i * width + j;
  float here = now[at];
  if (i > 0 && i < height - 1 && j > 0 && j < width - 1) {
    float around = now[at - width] + now[at + width] + now[at - 1] + now[at + 1];
    then[at] = here + rate * (around - 4.0 * here);
  } else {
    then[at] = here;
  }
}
