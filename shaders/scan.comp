#version 450
#extension GL_GOOGLE_include_directive : require
// Through shared memory alone, for devices whose subgroups do not compute.
#include "scan.glsl"
