#version 450
layout(local_size_x = 16, local_size_y = 16) in;
layout(binding = 0) readonly buffer Source { float source[]; };
layout(binding = 1) readonly buffer Weights { float weights[]; };
layout(binding = 2) writeonly buffer Result { float result[]; };
layout(push_constant) uniform Push { int height, width; };

void main() {
  int i = int(gl_GlobalInvocationID.y), j = int(gl_GlobalInvocationID.x);
  if (i >= height || j >= width) return;
  float total = 0.0;
  for (int di = -2; di <= 2; di++) {
    for (int dj = -2; dj <= 2; dj++) {
      int y = clamp(i + di, 0, height - 1), x = clamp(j + dj, 0, width - 1);
      total += source[y * width + x] * weights[(di + 2) * 5 + dj + 2];
    }
  }
  result[i * width + j] = total;
}
