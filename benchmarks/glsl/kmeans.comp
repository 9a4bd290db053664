#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer Points { float points[]; };
layout(binding = 1) readonly buffer Centres { float centres[]; };
layout(binding = 2) writeonly buffer Labels { int labels[]; };
layout(push_constant) uniform Push { uint count, centre_count, axes; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= count) return;
  int nearest = 0;
  float least = 1.0 / 0.0;
  for (uint k = 0; k < centre_count; k++) {
    float dist = 0.0;
    for (uint axis = 0; axis < axes; axis++) {
      float d = points[i * axes + axis] - centres[k * axes + axis];
      dist += d * d;
    }
    if (dist < least) {
      nearest = int(k);
      least = dist;
    }
  }
  labels[i] = nearest;
}
