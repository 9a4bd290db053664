"""The compute shaders this package ships, as GLSL and as the SPIR-V that the build made of them."""
