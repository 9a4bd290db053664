#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer Spot { float spot[]; };
layout(binding = 1) readonly buffer Strike { float strike[]; };
layout(binding = 2) readonly buffer Years { float years[]; };
layout(binding = 3) writeonly buffer Call { float call[]; };
layout(binding = 4) writeonly buffer Put { float put[]; };
layout(push_constant) uniform Push { float rate, sigma; uint count; };

float normal_below(float x) {
  float k = 1.0 / (1.0 + 0.2316419 * abs(x));
  float w = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))));
  float above = 0.3989422804 * exp(-0.5 * x * x) * w;
  return x >= 0.0 ? 1.0 - above : above;
}

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= count) return;
  float s = spot[i], k = strike[i], t = years[i];
  float deviation = sigma * sqrt(t);
  float d1 = (log(s / k) + (rate + 0.5 * sigma * sigma) * t) / deviation;
  float a = normal_below(d1), b = normal_below(d1 - deviation);
  float discounted = k * exp(-rate * t);
  call[i] = s * a - discounted * b;
  put[i] = discounted * (1.0 - b) - s * (1.0 - a);
}
