#version 450
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
layout(local_size_x = 256) in;
layout(binding = 0) readonly buffer Values { uint8_t values[]; };
layout(binding = 1) buffer Counts { uint counts[]; };
layout(push_constant) uniform Push { uint count; };

shared uint own[256];

void main() {
  uint t = gl_LocalInvocationID.x;
  own[t] = 0;
  barrier();
  for (uint k = 0; k < 8; k++) {
    uint at = (gl_WorkGroupID.x * 8 + k) * 256 + t;
    if (at < count) atomicAdd(own[uint(values[at])], 1);
  }
  barrier();
  atomicAdd(counts[t], own[t]);
}
