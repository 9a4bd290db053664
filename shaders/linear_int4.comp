#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
// y = x @ (weight * scales).T: a few rows of x with many of quantized weights, which are read once; all sums are float32.
// setup.py compiles each variant:
// BYTES: weights of 8 bits. FLOATS: x and y are float32, else float16. SUBGROUPS: with subgroup operations.
// A workgroup makes ROWS columns of y, of BATCH of its rows; each of its invocations takes vectors of 16 bytes of these rows of
// weights, and what x has for them comes out of the cache once for all.
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WORKGROUP_X = 64;
layout(constant_id = 1) const uint UNROLL = 1;
layout(constant_id = 2) const uint ROWS = 8;
layout(constant_id = 3) const uint BATCH = 1;
layout(constant_id = 4) const uint PER_SCALE = 1;  // vectors of weights that have a scale in common
const uint SUMS = ROWS * BATCH;  // by name: an array of as many by another expression is of another type

#ifdef BYTES
const uint EIGHTS = 2;  // of weights, in a vector of 16 bytes
#else
const uint EIGHTS = 4;
#endif
struct Vector { uvec4 bits; };  // a structure has no scalar type: arrays of any may be bound
#ifdef FLOATS
layout(set = 0, binding = 0) readonly buffer X { vec4 x[]; };
#else
layout(set = 0, binding = 0) readonly buffer X { Vector x[]; };
#endif
layout(set = 0, binding = 1) readonly buffer Weight { Vector weight[]; };
layout(set = 0, binding = 2) readonly buffer Scales { float16_t scales[]; };
#ifdef FLOATS
layout(set = 0, binding = 3) writeonly buffer Y { float y[]; };
#define NUMBER float
#else
layout(set = 0, binding = 3) writeonly buffer Y { float16_t y[]; };
#define NUMBER float16_t
#endif
layout(push_constant) uniform Push { uint batch; uint rows; uint vectors; };  // the last of a row of weights

uint first_row, first_of_batch;

// Past the end the last is read again, and nothing written.
uint row_of(uint r) { return min(first_row + r, rows - 1); }

// Eight numbers of a row of x.
void load_eight(uint b, uint at, out vec4 low, out vec4 high) {
    uint place = min(first_of_batch + b, batch - 1) * (vectors * EIGHTS) + at;
#ifdef FLOATS
    low = x[place * 2];
    high = x[place * 2 + 1];
#else
    uvec4 bits = x[place].bits;
    low = vec4(unpackHalf2x16(bits.x), unpackHalf2x16(bits.y));
    high = vec4(unpackHalf2x16(bits.z), unpackHalf2x16(bits.w));
#endif
}

// An integer that stands in the mantissa of a float whose last bit is worth as much as the integer's is added to a power of two,
// exactly: one operation on bits and one subtraction, both at full speed, where a conversion has a fraction of it.
#ifdef BYTES
vec4 four_of(uint word) {
    uint upper = word >> 16;
    // Of two's complement the highest bit is turned: that adds 128.
    vec4 made = uintBitsToFloat(
        (uvec4(word, word, upper, upper) & uvec4(0xFF, 0xFF00, 0xFF, 0xFF00))
        ^ uvec4(0x4B000080, 0x47008000, 0x4B000080, 0x47008000)
    );
    precise vec4 numbers = made - vec4(8388736.0, 32896.0, 8388736.0, 32896.0);
    return numbers;
}

void decode(uvec4 bits, uint i, out vec4 low, out vec4 high) {
    low = four_of(i == 0 ? bits.x : bits.z);
    high = four_of(i == 0 ? bits.y : bits.w);
}
#else
vec4 four_of(uint word) {
    vec4 made = uintBitsToFloat(
        (uvec4(word) & uvec4(0xF, 0xF0, 0xF00, 0xF000)) | uvec4(0x4B000000, 0x49000000, 0x47000000, 0x45000000)
    );
    precise vec4 numbers = made - vec4(8388616.0, 524296.0, 32776.0, 2056.0);  // 2**23, 2**19, 2**15, 2**11, and 8
    return numbers;
}

void decode(uvec4 bits, uint i, out vec4 low, out vec4 high) {
    low = four_of(bits[i]);
    high = four_of(bits[i] >> 16);
}
#endif

void load(uint at, out uvec4 held[ROWS], out float scale[ROWS]) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        held[r] = weight[row_of(r) * vectors + at].bits;
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        scale[r] = float(scales[row_of(r) * (vectors / PER_SCALE) + at / PER_SCALE]);
    }
}

void add(uint at, uvec4 held[ROWS], float scale[ROWS], inout float sums[SUMS]) {
    float parts[SUMS];
    [[unroll]] for (uint i = 0; i < SUMS; ++i) {
        parts[i] = 0.0;
    }
    [[unroll]] for (uint i = 0; i < EIGHTS; ++i) {
        vec4 low[BATCH], high[BATCH];
        [[unroll]] for (uint b = 0; b < BATCH; ++b) {
            load_eight(b, at * EIGHTS + i, low[b], high[b]);
        }
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            vec4 first, second;
            decode(held[r], i, first, second);
            [[unroll]] for (uint b = 0; b < BATCH; ++b) {
                float part = parts[r * BATCH + b];
                [[unroll]] for (uint j = 0; j < 4; ++j) {
                    part += first[j] * low[b][j];
                }
                [[unroll]] for (uint j = 0; j < 4; ++j) {
                    part += second[j] * high[b][j];
                }
                parts[r * BATCH + b] = part;
            }
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        [[unroll]] for (uint b = 0; b < BATCH; ++b) {
            sums[r * BATCH + b] += scale[r] * parts[r * BATCH + b];
        }
    }
}

shared float kept[WORKGROUP_X * ROWS];

// Writes what a workgroup's invocations have for a row of x.
#ifdef SUBGROUPS
void write(uint b, float sums[SUMS]) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        float sum = subgroupAdd(sums[r * BATCH + b]);
        if (subgroupElect()) {
            kept[gl_SubgroupID * ROWS + r] = sum;
        }
    }
    barrier();
    uint count = gl_NumSubgroups;
#else
void write(uint b, float sums[SUMS]) {
    uint me = gl_LocalInvocationID.x;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        kept[me * ROWS + r] = sums[r * BATCH + b];
    }
    barrier();
    uint count = WORKGROUP_X;
    [[dont_unroll]] while (count > ROWS) {
        uint half_of = (count + 1) / 2;
        if (me + half_of < count) {
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                kept[me * ROWS + r] += kept[(me + half_of) * ROWS + r];
            }
        }
        barrier();
        count = half_of;
    }
#endif
    uint row = gl_LocalInvocationID.x;
    if (row < ROWS && first_row + row < rows && first_of_batch + b < batch) {
        float sum = kept[row];
        [[dont_unroll]] for (uint i = 1; i < count; ++i) {
            sum += kept[i * ROWS + row];
        }
        y[(first_of_batch + b) * rows + first_row + row] = NUMBER(sum);
    }
    if (b + 1 < BATCH) {
        barrier();  // what is kept is overwritten
    }
}

void main() {
    // Those that read the same weights run at the same time.
    uint job = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint shares = (batch - 1) / BATCH + 1;
    first_row = job / shares * ROWS;
    first_of_batch = job % shares * BATCH;
    if (first_row >= rows) {
        return;
    }
    float sums[SUMS];
    [[unroll]] for (uint i = 0; i < SUMS; ++i) {
        sums[i] = 0.0;
    }
    uint at = gl_LocalInvocationID.x;
    [[dont_unroll]] for (; at + (UNROLL - 1) * WORKGROUP_X < vectors; at += UNROLL * WORKGROUP_X) {
        uvec4 held[UNROLL][ROWS];
        float scale[UNROLL][ROWS];
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
            load(at + u * WORKGROUP_X, held[u], scale[u]);
        }
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
            add(at + u * WORKGROUP_X, held[u], scale[u], sums);
        }
    }
    if (UNROLL > 1) {
        [[dont_unroll]] for (; at < vectors; at += WORKGROUP_X) {
            uvec4 held[ROWS];
            float scale[ROWS];
            load(at, held, scale);
            add(at, held, scale, sums);
        }
    }
    [[unroll]] for (uint b = 0; b < BATCH; ++b) {  // unrolled, so that sums stay in registers
        write(b, sums);
    }
}
