#version 450
#extension GL_GOOGLE_include_directive : require
// Within subgroups first, then one subgroup over their sums.
#define SUBGROUPS
#include "scan.glsl"
