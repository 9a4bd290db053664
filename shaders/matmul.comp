#version 450
#extension GL_EXT_control_flow_attributes : require
#ifdef HALVES
#extension GL_EXT_shader_16bit_storage : require
#endif
// c = a b of row-major matrices, summed in float32. A workgroup makes one tile of c, an invocation a block of it in registers.
// WIDE: rows of b and c are whole vectors of four numbers (setup.py compiles each variant). HALVES: a and b are float16.
// Along z workgroups sum parts of k, each into a matrix of its own (matmul_parts.comp adds them).
layout(local_size_x_id = 0, local_size_y_id = 1) in;
layout(constant_id = 0) const uint WORKGROUP_X = 16;
layout(constant_id = 1) const uint WORKGROUP_Y = 16;
// Products of a sum that go through shared memory at once.
layout(constant_id = 2) const uint UNROLL = 8;
layout(constant_id = 3) const uint TILE_X = 128;
layout(constant_id = 4) const uint TILE_Y = 128;

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
layout(push_constant) uniform Push { uint m; uint n; uint k; uint part; };

const uint INVOCATIONS = WORKGROUP_X * WORKGROUP_Y;
const uint QUADS_X = TILE_X / 4;
const uint QUADS_Y = TILE_Y / 4;
const uint LOADS_A = QUADS_Y * UNROLL / INVOCATIONS;
const uint LOADS_B = QUADS_X * UNROLL / INVOCATIONS;
// An invocation's sums: rows and columns of four side by side, and as far apart as the workgroup is high and wide.
const uint BLOCK_X = QUADS_X / WORKGROUP_X;
const uint BLOCK_Y = QUADS_Y / WORKGROUP_Y;
const uint COLUMNS = 4 * BLOCK_X;
const uint ROWS = 4 * BLOCK_Y;
// The tile of a lies transposed: four rows are one vector. One more a line, so that lines start in different banks.
const uint LINE_A = QUADS_Y + 1;
const uint BAND = 8;

shared vec4 tile_a[2 * UNROLL * LINE_A];
shared vec4 tile_b[2 * UNROLL * QUADS_X];

// Of what four columns of b are found by, and how far apart rows of b and c are.
#ifdef WIDE
#define PLACE uint
#define ROW (n / 4)
#else
#define PLACE uvec4
#define ROW n
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
        places_a[i] = min(first_row + at / UNROLL * 4 + uvec4(0, 1, 2, 3), uvec4(m - 1)) * k + at % UNROLL;
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
    // Pairs stand below each other, so that a quarter of them reads different banks.
    uint patch_ = lane / 32;
    uint x = patch_ % (WORKGROUP_X / 8) * 8 + lane / 2 % 8;
    uint y = patch_ / (WORKGROUP_X / 8) * 4 + lane % 32 / 16 * 2 + lane % 2;

    // The first step is the one that may be shorter than others. Zeros in both: a zero beside an infinity would make a NaN.
    uint depth = gl_WorkGroupID.z * part;
    uint length_ = min(k - depth, part);
    uint steps = (length_ - 1) / UNROLL + 1;
    uint first = length_ - (steps - 1) * UNROLL;
    vec4 next_a[LOADS_A];
    vec4 next_b[LOADS_B];
    [[unroll]] for (uint i = 0; i < LOADS_A; ++i) {
        next_a[i] = vec4(0);
        if ((lane + i * INVOCATIONS) % UNROLL < first) {
            next_a[i] = rows_of_a(places_a[i] + depth);
        }
    }
    [[unroll]] for (uint i = 0; i < LOADS_B; ++i) {
        next_b[i] = vec4(0);
        if ((lane + i * INVOCATIONS) / QUADS_X < first) {
            next_b[i] = columns_of_b(places_b[i] + depth * ROW);
        }
    }
    depth += first;

    float sums[ROWS * COLUMNS];
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; ++i) {
        sums[i] = 0;
    }
    uint half_ = 0;
    // Each turn stores a step, loads the next one and multiplies.
    [[dont_unroll]] for (uint step_ = 1; step_ <= steps; ++step_) {
        [[unroll]] for (uint i = 0; i < LOADS_A; ++i) {
            uint at = lane + i * INVOCATIONS;
            tile_a[(half_ * UNROLL + at % UNROLL) * LINE_A + at / UNROLL] = next_a[i];
        }
        [[unroll]] for (uint i = 0; i < LOADS_B; ++i) {
            tile_b[half_ * UNROLL * QUADS_X + lane + i * INVOCATIONS] = next_b[i];
        }
        barrier();
        if (step_ < steps) {
            [[unroll]] for (uint i = 0; i < LOADS_A; ++i) {
                next_a[i] = rows_of_a(places_a[i] + depth);
            }
            [[unroll]] for (uint i = 0; i < LOADS_B; ++i) {
                next_b[i] = columns_of_b(places_b[i] + depth * ROW);
            }
            depth += UNROLL;
        }
        uint at_a = half_ * UNROLL * LINE_A + y;
        uint at_b = half_ * UNROLL * QUADS_X + x;
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
            float of_a[ROWS];
            float of_b[COLUMNS];
            [[unroll]] for (uint i = 0; i < BLOCK_Y; ++i) {
                vec4 rows = tile_a[at_a + u * LINE_A + i * WORKGROUP_Y];
                of_a[i * 4] = rows.x;
                of_a[i * 4 + 1] = rows.y;
                of_a[i * 4 + 2] = rows.z;
                of_a[i * 4 + 3] = rows.w;
            }
            [[unroll]] for (uint j = 0; j < BLOCK_X; ++j) {
                vec4 columns = tile_b[at_b + u * QUADS_X + j * WORKGROUP_X];
                of_b[j * 4] = columns.x;
                of_b[j * 4 + 1] = columns.y;
                of_b[j * 4 + 2] = columns.z;
                of_b[j * 4 + 3] = columns.w;
            }
            // Column by column, down and up: of two products in a row one operand is the same, which NVIDIA's units keep.
            [[unroll]] for (uint column = 0; column < COLUMNS; ++column) {
                [[unroll]] for (uint i = 0; i < ROWS; ++i) {
                    uint row = column % 2 == 0 ? i : ROWS - 1 - i;
                    uint at = row * COLUMNS + column;
                    sums[at] = fma(of_a[row], of_b[column], sums[at]);
                }
            }
        }
        half_ = 1 - half_;
    }

    [[unroll]] for (uint i = 0; i < ROWS; ++i) {
        uint row = first_row + (i / 4 * WORKGROUP_Y + y) * 4 + i % 4;
        uint line = (gl_WorkGroupID.z * m + row) * ROW;
        [[unroll]] for (uint j = 0; j < BLOCK_X; ++j) {
            uint quad = first_quad + j * WORKGROUP_X + x;
            uint at = i * COLUMNS + j * 4;
#ifdef WIDE
            if (row < m && quad < n / 4) {
                c[line + quad] = vec4(sums[at], sums[at + 1], sums[at + 2], sums[at + 3]);
            }
#else
            [[unroll]] for (uint r = 0; r < 4; ++r) {
                if (row < m && quad * 4 + r < n) {
                    c[line + quad * 4 + r] = sums[at + r];
                }
            }
#endif
        }
    }
}
