#version 450
// Smooth escape counts of the Mandelbrot set: 0 inside, else iterations with the fraction that makes colours run smoothly.
// `precise` keeps every product and sum unfused, so that numpy meets the very same orbit.
layout(local_size_x = 16, local_size_y = 8) in;
layout(constant_id = 0) const uint MAX_ITERATIONS = 256;
layout(set = 0, binding = 0) writeonly buffer Escape { float escape[]; };
layout(push_constant) uniform Push { float left; float top; float step; uint width; uint height; };

void main() {
    uvec2 pixel = gl_GlobalInvocationID.xy;
    if (pixel.x >= width || pixel.y >= height) {
        return;
    }
    precise float across = float(pixel.x) * step;
    precise float down = float(pixel.y) * step;
    precise float cr = left + across;
    precise float ci = top - down;
    precise float zr = 0.0;
    precise float zi = 0.0;
    float smoothed = 0.0;
    for (uint n = 0u; n < MAX_ITERATIONS; ++n) {
        precise float zr2 = zr * zr;
        precise float zi2 = zi * zi;
        precise float norm = zr2 + zi2;
        if (norm > 256.0) {
            smoothed = float(n) + 1.0 - log2(0.5 * log2(norm));
            break;
        }
        precise float cross = zr * zi;
        precise float twice = cross + cross;
        precise float difference = zr2 - zi2;
        zi = twice + ci;
        zr = difference + cr;
    }
    escape[pixel.y * width + pixel.x] = smoothed;
}
