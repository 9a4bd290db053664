#version 450
#extension GL_EXT_control_flow_attributes : require
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
// exp(x - largest) / sum of it, along the rows of a matrix. setup.py compiles each variant:
// WIDE: rows are whole vectors of four. SUBGROUPS: with subgroup operations, for one row a workgroup.
// STATISTICS and APPLY: the two halves, for rows that several workgroups share, TILE_X numbers each.
layout(local_size_x_id = 0, local_size_y_id = 1) in;
layout(constant_id = 0) const uint WORKGROUP_X = 256;
layout(constant_id = 1) const uint WORKGROUP_Y = 1;
layout(constant_id = 2) const uint UNROLL = 4;
layout(constant_id = 3) const uint TILE_X = 16384;

#ifdef WIDE
#define NUMBERS vec4
const uint WIDTH = 4;
float largest_of(vec4 x) { return max(max(x.x, x.y), max(x.z, x.w)); }
float sum_of(vec4 x) { return (x.x + x.y) + (x.z + x.w); }
#else
#define NUMBERS float
const uint WIDTH = 1;
float largest_of(float x) { return x; }
float sum_of(float x) { return x; }
#endif
layout(set = 0, binding = 0) restrict readonly buffer X { NUMBERS x[]; };
#ifdef STATISTICS
layout(set = 0, binding = 1) restrict writeonly buffer Parts { float parts[]; };
#elif defined(APPLY)
layout(set = 0, binding = 1) restrict readonly buffer Parts { float parts[]; };
layout(set = 0, binding = 2) restrict writeonly buffer Y { NUMBERS y[]; };
#else
layout(set = 0, binding = 1) restrict writeonly buffer Y { NUMBERS y[]; };
#endif
layout(push_constant) uniform Push { uint rows; uint columns; };

#define MINUS_INFINITY uintBitsToFloat(0xff800000u)
// Where the largest is looked for from: a finite number, so that nothing becomes infinity minus infinity that is none to numpy.
const float LOWEST = -3.4028234663852886e38;

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

// What lies past the end adds nothing to a sum.
void load(uint first, out NUMBERS held[UNROLL]) {
    uint start = row * (columns / WIDTH);
    [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
        uint at = first + u * WORKGROUP_X + gl_LocalInvocationID.x;
        held[u] = NUMBERS(MINUS_INFINITY);
        if (at < end) {
            held[u] = x[start + at];
        }
    }
}

#ifndef APPLY
#ifdef SUBGROUPS
shared vec2 of_subgroups[WORKGROUP_X];

// Returns the largest number and the sum of a workgroup's row of each invocation's.
vec2 reduced(vec2 mine) {
    float largest = subgroupMax(mine.x);
    float sum = subgroupAdd(mine.y * exp(mine.x - largest));
    if (subgroupElect()) {
        of_subgroups[gl_SubgroupID] = vec2(largest, sum);
    }
    barrier();
    vec2 found = of_subgroups[0];
    [[dont_unroll]] for (uint i = 1; i < gl_NumSubgroups; ++i) {
        found.x = max(found.x, of_subgroups[i].x);
    }
    found.y = 0.0;
    [[dont_unroll]] for (uint i = 0; i < gl_NumSubgroups; ++i) {
        found.y += of_subgroups[i].y * exp(of_subgroups[i].x - found.x);
    }
    return found;
}
#else
shared vec2 of_invocations[WORKGROUP_X * WORKGROUP_Y];

vec2 reduced(vec2 mine) {
    uint at = gl_LocalInvocationIndex;
    of_invocations[at] = mine;
    barrier();
    [[dont_unroll]] for (uint apart = WORKGROUP_X / 2; apart > 0; apart /= 2) {
        if (gl_LocalInvocationID.x < apart) {
            vec2 other = of_invocations[at + apart];
            float largest = max(mine.x, other.x);
            mine = vec2(largest, mine.y * exp(mine.x - largest) + other.y * exp(other.x - largest));
            of_invocations[at] = mine;
        }
        barrier();
    }
    return of_invocations[at - gl_LocalInvocationID.x];
}
#endif

// Reads the numbers; `held` is left with exp(x - largest of this invocation's) where one turn reads them all.
vec2 read_all(out NUMBERS held[UNROLL]) {
    vec2 mine = vec2(LOWEST, 0.0);
    [[dont_unroll]] for (uint first = begin; first < end; first += WORKGROUP_X * UNROLL) {
        load(first, held);
        float largest = mine.x;
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
            largest = max(largest, largest_of(held[u]));
        }
        float sum = 0.0;
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
            held[u] = exp(held[u] - largest);
            sum += sum_of(held[u]);
        }
        mine = vec2(largest, mine.y * exp(mine.x - largest) + sum);
    }
    return mine;
}
#endif

#ifndef STATISTICS
void store(uint first, float factor, NUMBERS held[UNROLL]) {
    uint start = row * (columns / WIDTH);
    [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
        uint at = first + u * WORKGROUP_X + gl_LocalInvocationID.x;
        if (at < end) {
            y[start + at] = held[u] * factor;
        }
    }
}

void write_all(vec2 whole) {
    NUMBERS held[UNROLL];
    [[dont_unroll]] for (uint first = begin; first < end; first += WORKGROUP_X * UNROLL) {
        load(first, held);
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
            held[u] = exp(held[u] - whole.x);
        }
        store(first, 1.0 / whole.y, held);
    }
}
#endif

void main() {
    find_work();
#ifdef STATISTICS
    uint parts_of_row = (columns - 1) / TILE_X + 1;
    NUMBERS held[UNROLL];
    vec2 whole = reduced(read_all(held));
    if (gl_LocalInvocationID.x == 0 && row < rows) {
        uint at = (row * parts_of_row + begin / (TILE_X / WIDTH)) * 2;
        parts[at] = whole.x;
        parts[at + 1] = whole.y;
    }
#elif defined(APPLY)
    if (row >= rows) {
        return;
    }
    uint parts_of_row = (columns - 1) / TILE_X + 1;
    vec2 whole = vec2(LOWEST, 0.0);
    [[dont_unroll]] for (uint i = row * parts_of_row; i < (row + 1) * parts_of_row; ++i) {
        whole.x = max(whole.x, parts[2 * i]);
    }
    [[dont_unroll]] for (uint i = row * parts_of_row; i < (row + 1) * parts_of_row; ++i) {
        whole.y += parts[2 * i + 1] * exp(parts[2 * i] - whole.x);
    }
    write_all(whole);
#else
    NUMBERS held[UNROLL];
    vec2 mine = read_all(held);
    vec2 whole = reduced(mine);
    if (columns / WIDTH <= WORKGROUP_X * UNROLL) {
        store(begin, exp(mine.x - whole.x) / whole.y, held);
    } else {
        write_all(whole);
    }
#endif
}
