#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
// o = softmax(scale * q @ k^T) @ v of each head, in one pass over the keys, on ordinary units; all sums are float32.
// setup.py compiles each variant: arrays are float32, with HALVES float16, with BFLOATS bfloat16.
// A workgroup makes QUERIES rows of one head. In a step each invocation scores one key, then each sums its places of a row.
// With PARTS a dispatch goes over some of the keys only, for drivers that end long loops, and keeps what it has for the next one.
layout(local_size_x = 128) in;
const uint INVOCATIONS = 128, QUERIES = 8, LANES = INVOCATIONS / QUERIES;
const uint MOST_PLACES = 2;  // of a row, for each invocation: heads have at most 256
#define NOTHING uintBitsToFloat(0xFF800000)  // minus infinity

#if defined(HALVES)
#define ELEMENT float16_t
#define NUMBER(x) float(x)
#define ROUNDED(x) float16_t(x)
#elif defined(BFLOATS)
#define ELEMENT uint16_t
#define NUMBER(x) uintBitsToFloat(uint(x) << 16)
#define ROUNDED(x) uint16_t(bits_of(x))
uint bits_of(float x) {
    uint bits = floatBitsToUint(x);
    bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    return is_nan ? bits >> 16 | 0x40 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}
#else
#define ELEMENT float
#define NUMBER(x) (x)
#define ROUNDED(x) (x)
#endif

layout(set = 0, binding = 0) readonly buffer Q { ELEMENT q[]; };
layout(set = 0, binding = 1) readonly buffer K { ELEMENT k[]; };
layout(set = 0, binding = 2) readonly buffer V { ELEMENT v[]; };
layout(set = 0, binding = 3) writeonly buffer O { ELEMENT o[]; };
layout(push_constant) uniform Push {
    uint heads, kv_heads, queries, keys;
    float scale;
    int shift;  // how many keys beyond its own number a query sees
    uint head;  // elements of a row
    uint is_causal;
    uint q_row, q_head, k_row, k_head;  // elements from a row and from a head to the next one, of q and o, of k and v
#ifdef PARTS
    uint first_key, end_key;  // of this dispatch; the first one is at a whole number of steps
#endif
};

#ifdef PARTS
#define FIRST_KEY first_key
#define END_KEY end_key
layout(set = 0, binding = 4) buffer State { float state[]; };  // of each query: its sums, the largest score, the sum of weights
#else
#define FIRST_KEY 0
#define END_KEY keys
#endif

shared float rows[QUERIES][INVOCATIONS * MOST_PLACES];
shared float scores[QUERIES][INVOCATIONS];
shared float partial[QUERIES][LANES];
shared float largest[QUERIES], total[QUERIES], factor[QUERIES];

// Scores of a step's keys: each invocation has one key, and reads its row once for all queries.
void score(uint key, uint first_row, uint place) {
    float sums[QUERIES];
    [[unroll]] for (uint r = 0; r < QUERIES; ++r) {
        sums[r] = 0.0;
    }
    if (key < keys) {
        for (uint e = 0; e < head; ++e) {
            float x = NUMBER(k[place + key * k_row + e]);
            [[unroll]] for (uint r = 0; r < QUERIES; ++r) {
                sums[r] += rows[r][e] * x;
            }
        }
    }
    [[unroll]] for (uint r = 0; r < QUERIES; ++r) {
        bool sees = key < keys && (is_causal == 0 || int(key) <= int(first_row + r) + shift);
        scores[r][gl_LocalInvocationID.x] = sees ? sums[r] * scale : NOTHING;
    }
}

// The larger one; a NaN if one is.
float larger(float x, float y) { return isnan(x) || x > y ? x : y; }

// Makes weights of scores: the largest of a row so far becomes 1, and what was summed before is scaled by `factor`.
void weigh() {
    uint r = gl_LocalInvocationID.x / LANES, lane = gl_LocalInvocationID.x % LANES;
    float most = NOTHING;
    for (uint i = lane; i < INVOCATIONS; i += LANES) {
        most = larger(scores[r][i], most);
    }
    partial[r][lane] = most;
    barrier();
    if (lane == 0) {
        float before = largest[r];
        most = before;
        for (uint i = 0; i < LANES; ++i) {
            most = larger(partial[r][i], most);
        }
        factor[r] = most == NOTHING ? 1.0 : exp(before - most);
        largest[r] = most;
    }
    barrier();
    most = largest[r];
    float sum = 0.0;
    for (uint i = lane; i < INVOCATIONS; i += LANES) {
        float weight = most == NOTHING ? 0.0 : exp(scores[r][i] - most);
        scores[r][i] = weight;
        sum += weight;
    }
    partial[r][lane] = sum;
    barrier();
    if (lane == 0) {
        sum = total[r] * factor[r];
        for (uint i = 0; i < LANES; ++i) {
            sum += partial[r][i];
        }
        total[r] = sum;
    }
}

void main() {
    uint me = gl_LocalInvocationID.x, tiles = (queries - 1) / QUERIES + 1;
    uint job = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, batch = gl_WorkGroupID.z;
    if (job >= heads * tiles) {
        return;
    }
    uint of_head = job / tiles, first_row = job % tiles * QUERIES, of_keys = of_head / (heads / kv_heads);
    uint from = batch * heads * queries * head + of_head * q_head, of_k = batch * kv_heads * keys * head + of_keys * k_head;
    for (uint i = me; i < QUERIES * head; i += INVOCATIONS) {
        uint row = min(first_row + i / head, queries - 1);
        rows[i / head][i % head] = NUMBER(q[from + row * q_row + i % head]);
    }
    if (me < QUERIES) {
        largest[me] = NOTHING;
        total[me] = 0.0;
    }
    float sums[QUERIES][MOST_PLACES];
    [[unroll]] for (uint r = 0; r < QUERIES; ++r) {
        [[unroll]] for (uint p = 0; p < MOST_PLACES; ++p) {
            sums[r][p] = 0.0;
        }
    }
#ifdef PARTS
    uint of_state = ((batch * heads + of_head) * queries + first_row) * (head + 2);
    if (first_key > 0) {
        if (me < QUERIES && first_row + me < queries) {
            largest[me] = state[of_state + me * (head + 2) + head];
            total[me] = state[of_state + me * (head + 2) + head + 1];
        }
        [[unroll]] for (uint r = 0; r < QUERIES; ++r) {
            [[unroll]] for (uint p = 0; p < MOST_PLACES; ++p) {
                uint place = me + p * INVOCATIONS;
                if (place < head && first_row + r < queries) {
                    sums[r][p] = state[of_state + r * (head + 2) + place];
                }
            }
        }
    }
#endif
    barrier();
    int seen = is_causal == 0 ? int(END_KEY) : min(int(first_row + QUERIES) + shift, int(END_KEY));
    for (uint first = FIRST_KEY; int(first) < seen; first += INVOCATIONS) {
        score(first + me, first_row, of_k);
        barrier();
        weigh();
        [[unroll]] for (uint r = 0; r < QUERIES; ++r) {
            [[unroll]] for (uint p = 0; p < MOST_PLACES; ++p) {
                sums[r][p] *= factor[r];
            }
        }
        for (uint i = 0; i < min(INVOCATIONS, keys - first); ++i) {
            [[unroll]] for (uint p = 0; p < MOST_PLACES; ++p) {
                if (me + p * INVOCATIONS < head) {
                    float x = NUMBER(v[of_k + (first + i) * k_row + me + p * INVOCATIONS]);
                    [[unroll]] for (uint r = 0; r < QUERIES; ++r) {
                        float weight = scores[r][i];
                        sums[r][p] += weight == 0.0 ? 0.0 : weight * x;  // what a query does not see adds nothing, not even a NaN
                    }
                }
            }
        }
        barrier();
    }
    barrier();
#ifdef PARTS
    if (end_key < keys) {
        if (me < QUERIES && first_row + me < queries) {
            state[of_state + me * (head + 2) + head] = largest[me];
            state[of_state + me * (head + 2) + head + 1] = total[me];
        }
        [[unroll]] for (uint r = 0; r < QUERIES; ++r) {
            [[unroll]] for (uint p = 0; p < MOST_PLACES; ++p) {
                uint place = me + p * INVOCATIONS;
                if (place < head && first_row + r < queries) {
                    state[of_state + r * (head + 2) + place] = sums[r][p];
                }
            }
        }
        return;
    }
#endif
    [[unroll]] for (uint r = 0; r < QUERIES; ++r) {
        [[unroll]] for (uint p = 0; p < MOST_PLACES; ++p) {
            uint place = me + p * INVOCATIONS;
            if (place < head && first_row + r < queries) {
                float sum = total[r];
                o[from + (first_row + r) * q_row + place] = ROUNDED(sum == 0.0 ? 0.0 : sums[r][p] / sum);
            }
        }
    }
}
