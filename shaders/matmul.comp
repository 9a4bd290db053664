#version 450
#extension GL_EXT_control_flow_attributes : require
#ifdef HALVES
#extension GL_EXT_shader_16bit_storage : require
#endif
// c = a b of row-major matrices, summed in float32. A workgroup makes one tile of c, an invocation a block of it in registers.
// WIDE: rows of b and c are whole vectors of four numbers (setup.py compiles each variant). HALVES: a and b are float16.
layout(local_size_x_id = 0, local_size_y_id = 1) in;
layout(constant_id = 0) const uint WORKGROUP_X = 16;
layout(constant_id = 1) const uint WORKGROUP_Y = 16;
layout(constant_id = 2) const uint UNROLL = 8;
layout(constant_id = 3) const uint TILE_X = 128;
layout(constant_id = 4) const uint TILE_Y = 128;
layout(constant_id = 5) const uint TILE_Z = 8;

#ifdef HALVES
#define NUMBER float16_t
#define NUMBERS f16vec4
#else
#define NUMBER float
#define NUMBERS vec4
#endif
layout(set = 0, binding = 0) restrict readonly buffer A { NUMBER a[]; };
#ifdef WIDE
layout(set = 0, binding = 1) restrict readonly buffer B { NUMBERS b[]; };
layout(set = 0, binding = 2) restrict writeonly buffer C { vec4 c[]; };
#else
layout(set = 0, binding = 1) restrict readonly buffer B { NUMBER b[]; };
layout(set = 0, binding = 2) restrict writeonly buffer C { float c[]; };
#endif
layout(push_constant) uniform Push { uint m; uint n; uint k; };

const uint INVOCATIONS = WORKGROUP_X * WORKGROUP_Y;
const uint QUADS_X = TILE_X / 4;
const uint QUADS_Y = TILE_Y / 4;
const uint LOADS_A = QUADS_Y * TILE_Z / INVOCATIONS;
const uint LOADS_B = QUADS_X * TILE_Z / INVOCATIONS;
const uint BLOCK_X = QUADS_X / WORKGROUP_X;
const uint BLOCK_Y = QUADS_Y / WORKGROUP_Y;
// The tile of a lies transposed: four rows are one vector. One more a line, so that lines start in different banks.
const uint LINE_A = QUADS_Y + 1;
const uint BAND = 8;

shared vec4 tile_a[2 * TILE_Z * LINE_A];
shared vec4 tile_b[2 * TILE_Z * QUADS_X];

// Of what four columns of b are found by, and how far apart its rows are.
#ifdef WIDE
#define PLACE uint
#define ROW_B (n / 4)
#else
#define PLACE uvec4
#define ROW_B n
#endif

vec4 rows_of_a(uvec4 at) {
    return vec4(float(a[at.x]), float(a[at.y]), float(a[at.z]), float(a[at.w]));
}

vec4 columns_of_b(PLACE at) {
#ifdef WIDE
    return vec4(b[at]);
#else
    return vec4(float(b[at.x]), float(b[at.y]), float(b[at.z]), float(b[at.w]));
#endif
}

// First row and first vector of columns of this workgroup's tile of c; false for a workgroup that has none.
// Bands of eight tiles' height are walked column by column, so that tiles at work at one time share inputs.
bool find_tile(out uint first_row, out uint first_quad) {
    uint across = (n - 1) / TILE_X + 1;
    uint down = (m - 1) / TILE_Y + 1;
    uint tile = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint band = tile / (BAND * across);
    uint within = tile % (BAND * across);
    uint high = clamp(down - band * BAND, 1, BAND);
    first_row = (band * BAND + within % high) * TILE_Y;
    first_quad = within / high * QUADS_X;
    return tile < across * down;
}

// All arrays are main's own, and every index is known once loops are unrolled: they become registers.
void main() {
    uint first_row, first_quad;
    if (!find_tile(first_row, first_quad)) {
        return;
    }
    uint lane = gl_LocalInvocationIndex;
    // Where loads start; what lies past an edge is replaced by the last row or column, and its results are never stored.
    uvec4 places_a[LOADS_A];
    PLACE places_b[LOADS_B];
    [[unroll]] for (uint i = 0; i < LOADS_A; ++i) {
        uint at = lane + i * INVOCATIONS;
        places_a[i] = min(first_row + at / TILE_Z * 4 + uvec4(0, 1, 2, 3), uvec4(m - 1)) * k + at % TILE_Z;
    }
    [[unroll]] for (uint i = 0; i < LOADS_B; ++i) {
        uint at = lane + i * INVOCATIONS;
#ifdef WIDE
        places_b[i] = at / QUADS_X * (n / 4) + min(first_quad + at % QUADS_X, n / 4 - 1);
#else
        places_b[i] = at / QUADS_X * n + min((first_quad + at % QUADS_X) * 4 + uvec4(0, 1, 2, 3), uvec4(n - 1));
#endif
    }
    // Of 32 invocations in a row, eight stand side by side and four below each other: they read the fewest vectors.
    uint patch_ = lane / 32;
    uint x = patch_ % (WORKGROUP_X / 8) * 8 + lane % 8;
    uint y = patch_ / (WORKGROUP_X / 8) * 4 + lane / 8 % 4;

    vec4 next_a[LOADS_A];
    vec4 next_b[LOADS_B];
    vec4 sums[BLOCK_Y * 4 * BLOCK_X];
    [[unroll]] for (uint i = 0; i < BLOCK_Y * 4 * BLOCK_X; ++i) {
        sums[i] = vec4(0);
    }
    uint half_ = 0;
    // Each turn loads one part and multiplies the part before it.
    [[dont_unroll]] for (uint depth = 0; depth < k + TILE_Z; depth += TILE_Z) {
        if (depth + TILE_Z <= k) {
            [[unroll]] for (uint i = 0; i < LOADS_A; ++i) {
                next_a[i] = rows_of_a(places_a[i] + depth);
            }
            [[unroll]] for (uint i = 0; i < LOADS_B; ++i) {
                next_b[i] = columns_of_b(places_b[i] + depth * ROW_B);
            }
        } else if (depth < k) {
            // Zeros in both: a zero beside an infinity would make a NaN.
            [[unroll]] for (uint i = 0; i < LOADS_A; ++i) {
                next_a[i] = vec4(0);
                if (depth + (lane + i * INVOCATIONS) % TILE_Z < k) {
                    next_a[i] = rows_of_a(places_a[i] + depth);
                }
            }
            [[unroll]] for (uint i = 0; i < LOADS_B; ++i) {
                next_b[i] = vec4(0);
                if (depth + (lane + i * INVOCATIONS) / QUADS_X < k) {
                    next_b[i] = columns_of_b(places_b[i] + depth * ROW_B);
                }
            }
        }
        if (depth > 0) {
            uint at_a = half_ * TILE_Z * LINE_A + y;
            uint at_b = half_ * TILE_Z * QUADS_X + x;
            [[dont_unroll]] for (uint step_ = 0; step_ < TILE_Z; step_ += UNROLL) {
                [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
                    vec4 of_a[BLOCK_Y];
                    vec4 of_b[BLOCK_X];
                    [[unroll]] for (uint i = 0; i < BLOCK_Y; ++i) {
                        of_a[i] = tile_a[at_a + (step_ + u) * LINE_A + i * WORKGROUP_Y];
                    }
                    [[unroll]] for (uint j = 0; j < BLOCK_X; ++j) {
                        of_b[j] = tile_b[at_b + (step_ + u) * QUADS_X + j * WORKGROUP_X];
                    }
                    [[unroll]] for (uint i = 0; i < BLOCK_Y; ++i) {
                        [[unroll]] for (uint j = 0; j < BLOCK_X; ++j) {
                            uint at = i * 4 * BLOCK_X + j;
                            sums[at] = fma(vec4(of_a[i].x), of_b[j], sums[at]);
                            sums[at + BLOCK_X] = fma(vec4(of_a[i].y), of_b[j], sums[at + BLOCK_X]);
                            sums[at + 2 * BLOCK_X] = fma(vec4(of_a[i].z), of_b[j], sums[at + 2 * BLOCK_X]);
                            sums[at + 3 * BLOCK_X] = fma(vec4(of_a[i].w), of_b[j], sums[at + 3 * BLOCK_X]);
                        }
                    }
                }
            }
        }
        half_ = 1 - half_;
        if (depth < k) {
            [[unroll]] for (uint i = 0; i < LOADS_A; ++i) {
                uint at = lane + i * INVOCATIONS;
                tile_a[(half_ * TILE_Z + at % TILE_Z) * LINE_A + at / TILE_Z] = next_a[i];
            }
            [[unroll]] for (uint i = 0; i < LOADS_B; ++i) {
                tile_b[half_ * TILE_Z * QUADS_X + lane + i * INVOCATIONS] = next_b[i];
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0; i < BLOCK_Y * 4; ++i) {
        uint row = first_row + (i / 4 * WORKGROUP_Y + y) * 4 + i % 4;
        [[unroll]] for (uint j = 0; j < BLOCK_X; ++j) {
            uint quad = first_quad + j * WORKGROUP_X + x;
            vec4 sum = sums[i * BLOCK_X + j];
#ifdef WIDE
            if (row < m && quad < n / 4) {
                c[row * (n / 4) + quad] = sum;
            }
#else
            [[unroll]] for (uint r = 0; r < 4; ++r) {
                if (row < m && quad * 4 + r < n) {
                    c[row * n + quad * 4 + r] = sum[r];
                }
            }
#endif
        }
    }
}
