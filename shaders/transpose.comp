#version 450
#extension GL_EXT_control_flow_attributes : require
// The transpose of a row-major matrix of words, whatever they stand for. A workgroup turns one tile in shared memory, so that
// neighbours read and write neighbouring words. WIDE: rows of both matrices are whole vectors of four (setup.py compiles both).
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint WORKGROUP_X = 256;
layout(constant_id = 1) const uint UNROLL = 4;
layout(constant_id = 2) const uint TILE_X = 64;
layout(constant_id = 3) const uint TILE_Y = 64;
layout(constant_id = 4) const uint BAND = 8;

// Structures travel as raw bytes, so that a buffer may be of any type.
#ifdef WIDE
const uint WIDTH = 4;
struct Words { uvec4 bits; };
#else
const uint WIDTH = 1;
struct Words { uint bits; };
#endif
layout(set = 0, binding = 0) restrict readonly buffer A { Words a[]; };
layout(set = 0, binding = 1) restrict writeonly buffer B { Words b[]; };
layout(push_constant) uniform Push { uint m; uint n; };

const uint ACROSS = TILE_X / WIDTH;
const uint DOWN = TILE_Y / WIDTH;
const uint LOADS = TILE_X * TILE_Y / WIDTH / WORKGROUP_X;
// An odd length, so that the words of a column lie in different banks.
const uint LINE = TILE_X + 1;

shared uint tile[TILE_Y * LINE];

void main() {
    uint lane = gl_LocalInvocationIndex;
    // Bands of BAND tiles' height are walked column by column: what is written at one time lies side by side as well.
    uint tiles_across = (n - 1) / TILE_X + 1;
    uint tiles_down = (m - 1) / TILE_Y + 1;
    uint index = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (index >= tiles_across * tiles_down) {
        return;
    }
    uint band = index / (BAND * tiles_across);
    uint within = index % (BAND * tiles_across);
    uint high = min(BAND, tiles_down - band * BAND);
    uint top = (band * BAND + within % high) * TILE_Y;
    uint left = within / high * TILE_X;

    [[dont_unroll]] for (uint first = 0; first < LOADS; first += UNROLL) {
        Words held[UNROLL];
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
            uint at = lane + (first + u) * WORKGROUP_X;
            uint row = top + at / ACROSS;
            uint column = left / WIDTH + at % ACROSS;
            if (row < m && column < n / WIDTH) {
                held[u] = a[row * (n / WIDTH) + column];
            }
        }
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
            uint at = lane + (first + u) * WORKGROUP_X;
            uint place = at / ACROSS * LINE + at % ACROSS * WIDTH;
#ifdef WIDE
            tile[place] = held[u].bits.x;
            tile[place + 1] = held[u].bits.y;
            tile[place + 2] = held[u].bits.z;
            tile[place + 3] = held[u].bits.w;
#else
            tile[place] = held[u].bits;
#endif
        }
    }
    barrier();
    [[dont_unroll]] for (uint first = 0; first < LOADS; first += UNROLL) {
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
            uint at = lane + (first + u) * WORKGROUP_X;
            uint row = left + at / DOWN;
            uint column = top / WIDTH + at % DOWN;
            uint place = at % DOWN * WIDTH * LINE + at / DOWN;
            if (row < n && column < m / WIDTH) {
#ifdef WIDE
                uvec4 bits = uvec4(tile[place], tile[place + LINE], tile[place + 2 * LINE], tile[place + 3 * LINE]);
                b[row * (m / WIDTH) + column].bits = bits;
#else
                b[row * m + column].bits = tile[place];
#endif
            }
        }
    }
}
