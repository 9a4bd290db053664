#version 450
layout(local_size_x = 16, local_size_y = 16) in;
layout(binding = 0) readonly buffer Picture { float picture[]; };
layout(binding = 1) writeonly buffer Strength { float strength[]; };
layout(push_constant) uniform Push { int height, width; };

float at(int i, int j) {
  return i >= 0 && i < height && j >= 0 && j < width ? picture[i * width + j] : 0.0;
}

void main() {
  int i = int(gl_GlobalInvocationID.y), j = int(gl_GlobalInvocationID.x);
  if (i >= height || j >= width) return;
  float right = at(i - 1, j + 1) + 2.0 * at(i, j + 1) + at(i + 1, j + 1);
  float left = at(i - 1, j - 1) + 2.0 * at(i, j - 1) + at(i + 1, j - 1);
  float below = at(i + 1, j - 1) + 2.0 * at(i + 1, j) + at(i + 1, j + 1);
  float above = at(i - 1, j - 1) + 2.0 * at(i - 1, j) + at(i - 1, j + 1);
  float dx = right - left, dy = below - above;
  strength[i * width + j] = sqrt(dx * dx + dy * dy);
}
