#version 450
#extension GL_EXT_control_flow_attributes : require
#ifdef HALVES
#extension GL_EXT_shader_16bit_storage : require
#endif
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
// (x - mean) / sqrt(variance + eps) * weight + bias along the rows of a matrix; all sums are float32. setup.py compiles each
// variant:
// RMS: x / sqrt(mean of squares + eps) * weight. HALVES: arrays of float16. WIDE: rows are whole vectors of 16 bytes.
// SUBGROUPS: with subgroup operations, for one row a workgroup.
// STATISTICS and APPLY: the two halves, for rows that several workgroups share, TILE_X numbers each.
layout(local_size_x_id = 0, local_size_y_id = 1) in;
layout(constant_id = 0) const uint WORKGROUP_X = 256;
layout(constant_id = 1) const uint WORKGROUP_Y = 1;
layout(constant_id = 2) const uint UNROLL = 4;
layout(constant_id = 3) const uint TILE_X = 16384;

// STORED is an element of a buffer of WIDTH numbers, HELD that in registers, PART one of the PARTS that are computed with at once.
#if defined(WIDE) && defined(HALVES)
struct Eight { uvec4 bits; };  // a structure has no scalar type: arrays of float16 may be bound
#define STORED Eight
#define HELD uvec4
#define PART vec4
// Not a constant here: its name would take the place of UNROLL's in the module.
#define LOADS UNROLL
const uint WIDTH = 8, PARTS = 2;
HELD taken(STORED one) { return one.bits; }
PART part(HELD one, uint i) {
    uvec2 pairs = i == 0 ? one.xy : one.zw;
    return vec4(unpackHalf2x16(pairs.x), unpackHalf2x16(pairs.y));
}
STORED given(PART parts[PARTS]) {
    return Eight(uvec4(packHalf2x16(parts[0].xy), packHalf2x16(parts[0].zw), packHalf2x16(parts[1].xy), packHalf2x16(parts[1].zw)));
}
#elif defined(WIDE)
#define STORED vec4
#define HELD vec4
#define PART vec4
#define LOADS UNROLL
const uint WIDTH = 4, PARTS = 1;
HELD taken(STORED one) { return one; }
PART part(HELD one, uint i) { return one; }
STORED given(PART parts[PARTS]) { return parts[0]; }
#else
#ifdef HALVES
#define STORED float16_t
const uint LOADS = UNROLL * 8;
#else
#define STORED float
const uint LOADS = UNROLL * 4;
#endif
#define HELD float
#define PART float
#define taken(one) float(one)
#define given(parts) STORED(parts[0])
const uint WIDTH = 1, PARTS = 1;
PART part(HELD one, uint i) { return one; }
#endif
float sum_of(float x) { return x; }
float sum_of(vec4 x) { return (x.x + x.y) + (x.z + x.w); }
float first_of(float x) { return x; }
float first_of(vec4 x) { return x.x; }

#ifdef RMS
#define STATE float  // the sum of squares
#else
// How many numbers; their mean less w; the sum of squares of differences from the mean; w, the row's first number.
#define STATE vec4
#endif
layout(set = 0, binding = 0) readonly buffer X { STORED x[]; };
#ifdef STATISTICS
layout(set = 0, binding = 1) writeonly buffer Statistics { STATE statistics[]; };
#else
layout(set = 0, binding = 1) readonly buffer Weight { STORED weight[]; };
#ifdef RMS
layout(set = 0, binding = 2) writeonly buffer Y { STORED y[]; };
#else
layout(set = 0, binding = 2) readonly buffer Bias { STORED bias[]; };
layout(set = 0, binding = 3) writeonly buffer Y { STORED y[]; };
#endif
#ifdef APPLY
#ifdef RMS
layout(set = 0, binding = 3) readonly buffer Statistics { STATE statistics[]; };
#else
layout(set = 0, binding = 4) readonly buffer Statistics { STATE statistics[]; };
#endif
#endif
#endif
layout(push_constant) uniform Push { uint rows; uint columns; float eps; };

uint row, begin, end;

// What a workgroup does: rows of it, or a part of each.
void find_work() {
    uint job = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * WORKGROUP_Y + gl_LocalInvocationID.y;
    uint length = columns / WIDTH;
#if defined(STATISTICS) || defined(APPLY)
    uint parts_of_row = (columns - 1) / TILE_X + 1;
    row = job / parts_of_row;
    begin = job % parts_of_row * (TILE_X / WIDTH);
    end = min(begin + TILE_X / WIDTH, length);
#else
    row = job;
    begin = 0;
    end = length;
#endif
    if (row >= rows) {
        end = begin;
    }
}

uint place(uint first, uint load) {
    return first + load * WORKGROUP_X + gl_LocalInvocationID.x;
}

void load(uint first, out HELD held[LOADS]) {
    uint start = row * (columns / WIDTH);
    [[unroll]] for (uint u = 0; u < LOADS; ++u) {
        uint at = place(first, u);
        held[u] = HELD(0);
        if (at < end) {
            held[u] = taken(x[start + at]);
        }
    }
}

#ifndef RMS
// Returns how far numbers are from shift + mean; shift is near them, and so the first difference is exact, or as good as that.
PART apart_from(PART numbers, float shift, float mean) {
    precise PART near = numbers - shift;
    precise PART apart = near - mean;
    return apart;
}
#endif

// Returns the state of the numbers of two. Means are put together by their difference: nothing large is subtracted from its like.
STATE merged(STATE a, STATE b) {
#ifdef RMS
    return a + b;
#else
    float count = a.x + b.x;
    float share = b.x / max(count, 1.0);
    float apart = b.y - a.y;
    // In this order: a square that is infinite times no numbers would be a NaN.
    precise float between = apart * (apart * (a.x * share));
    return vec4(count, a.y + apart * share, a.z + b.z + between, a.w);
#endif
}

#ifndef APPLY
// Returns the state of what an invocation holds: the mean first, then the squares of the differences from it.
STATE of_held(uint first, float shift, HELD held[LOADS]) {
    float squares = 0.0;
#ifdef RMS
    [[unroll]] for (uint u = 0; u < LOADS; ++u) {
        [[unroll]] for (uint i = 0; i < PARTS; ++i) {
            PART numbers = part(held[u], i);
            squares += sum_of(numbers * numbers);
        }
    }
    return squares;
#else
    float count = 0.0;
    float sum = 0.0;
    [[unroll]] for (uint u = 0; u < LOADS; ++u) {
        if (place(first, u) < end) {
            count += float(WIDTH);
            [[unroll]] for (uint i = 0; i < PARTS; ++i) {
                sum += sum_of(part(held[u], i) - shift);
            }
        }
    }
    float mean = sum / max(count, 1.0);
    [[unroll]] for (uint u = 0; u < LOADS; ++u) {
        if (place(first, u) < end) {
            [[unroll]] for (uint i = 0; i < PARTS; ++i) {
                PART apart = apart_from(part(held[u], i), shift, mean);
                squares += sum_of(apart * apart);
            }
        }
    }
    return vec4(count, mean, squares, shift);
#endif
}

#ifdef SUBGROUPS
shared STATE of_subgroups[WORKGROUP_X];

// Returns the state of a workgroup's row of each invocation's.
STATE reduced(STATE mine) {
#ifdef RMS
    STATE sum = subgroupAdd(mine);
#else
    float count = subgroupAdd(mine.x);
    float mean = subgroupAdd(mine.x * mine.y) / max(count, 1.0);
    float apart = mine.y - mean;
    precise float between = apart * (apart * mine.x);
    STATE sum = vec4(count, mean, subgroupAdd(mine.z + between), mine.w);
#endif
    if (subgroupElect()) {
        of_subgroups[gl_SubgroupID] = sum;
    }
    barrier();
    STATE found = of_subgroups[0];
    [[dont_unroll]] for (uint i = 1; i < gl_NumSubgroups; ++i) {
        found = merged(found, of_subgroups[i]);
    }
    return found;
}
#else
shared STATE of_invocations[WORKGROUP_X * WORKGROUP_Y];

STATE reduced(STATE mine) {
    uint at = gl_LocalInvocationIndex;
    of_invocations[at] = mine;
    barrier();
    [[dont_unroll]] for (uint apart = WORKGROUP_X / 2; apart > 0; apart /= 2) {
        if (gl_LocalInvocationID.x < apart) {
            mine = merged(mine, of_invocations[at + apart]);
            of_invocations[at] = mine;
        }
        barrier();
    }
    return of_invocations[at - gl_LocalInvocationID.x];
}
#endif

// Reads the numbers; `held` is left with them where one turn reads them all. What y may lie over is read before a barrier or by
// the invocation that writes it: so the row's first number comes back out of shared memory, or out of the statistics.
STATE read_all(out HELD held[LOADS]) {
    float shift = 0.0;
#ifdef RMS
    STATE mine = 0.0;
#else
    if (row < rows) {
        shift = first_of(part(taken(x[row * (columns / WIDTH)]), 0));
    }
    STATE mine = vec4(0.0, 0.0, 0.0, shift);
#endif
    [[dont_unroll]] for (uint first = begin; first < end; first += WORKGROUP_X * LOADS) {
        load(first, held);
        mine = merged(mine, of_held(first, shift, held));
    }
    return mine;
}
#endif

#ifndef STATISTICS
PART normalized(PART numbers, STATE whole, float factor) {
#ifdef RMS
    return numbers * factor;
#else
    return apart_from(numbers, whole.w, whole.y) * factor;
#endif
}

float factor_of(STATE whole) {
#ifdef RMS
    return inversesqrt(whole / float(columns) + eps);
#else
    return inversesqrt(whole.z / float(columns) + eps);
#endif
}

void store(uint first, STATE whole, HELD held[LOADS]) {
    uint start = row * (columns / WIDTH);
    float factor = factor_of(whole);
    [[unroll]] for (uint u = 0; u < LOADS; ++u) {
        uint at = place(first, u);
        if (at < end) {
            HELD scale = taken(weight[at]);
#ifndef RMS
            HELD offset = taken(bias[at]);
#endif
            PART made[PARTS];
            [[unroll]] for (uint i = 0; i < PARTS; ++i) {
                made[i] = normalized(part(held[u], i), whole, factor) * part(scale, i);
#ifndef RMS
                made[i] += part(offset, i);
#endif
            }
            y[start + at] = given(made);
        }
    }
}

void write_all(STATE whole) {
    HELD held[LOADS];
    [[dont_unroll]] for (uint first = begin; first < end; first += WORKGROUP_X * LOADS) {
        load(first, held);
        store(first, whole, held);
    }
}
#endif

void main() {
    find_work();
#ifdef STATISTICS
    uint parts_of_row = (columns - 1) / TILE_X + 1;
    HELD held[LOADS];
    STATE whole = reduced(read_all(held));
    if (gl_LocalInvocationID.x == 0 && row < rows) {
        statistics[row * parts_of_row + begin / (TILE_X / WIDTH)] = whole;
    }
#elif defined(APPLY)
    if (row >= rows) {
        return;
    }
    uint parts_of_row = (columns - 1) / TILE_X + 1;
    STATE whole = statistics[row * parts_of_row];
    [[dont_unroll]] for (uint i = row * parts_of_row + 1; i < (row + 1) * parts_of_row; ++i) {
        whole = merged(whole, statistics[i]);
    }
    write_all(whole);
#else
    HELD held[LOADS];
    STATE whole = reduced(read_all(held));
    if (columns / WIDTH <= WORKGROUP_X * LOADS) {
        store(begin, whole, held);
    } else {
        write_all(whole);
    }
#endif
}
