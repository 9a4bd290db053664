"""The programs of examples/gallery for which CuPy has no library: kernels in CUDA C, launched step by step.

Each takes what ``data`` of its program returns, with the arrays on the device, and leaves its results there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cupy  # type: ignore[import-not-found] # where it is installed
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

_WIDTH = 256
_SQUARE = (32, 8)


def _blocks(count: int) -> tuple[int]:
    return (-(-count // _WIDTH),)


def _squares(height: int, width: int) -> tuple[int, int]:
    return -(-width // _SQUARE[0]), -(-height // _SQUARE[1])


NBODY = """
extern "C" __global__ void accelerate(const float* places, float* speeds, float step, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = places[3 * i], y = places[3 * i + 1], z = places[3 * i + 2];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int j = 0; j < n; j++) {
        float dx = places[3 * j] - x, dy = places[3 * j + 1] - y, dz = places[3 * j + 2] - z;
        float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.0004f);
        float w = inverse * inverse * inverse;
        ax += dx * w;
        ay += dy * w;
        az += dz * w;
    }
    speeds[3 * i] += ax * step;
    speeds[3 * i + 1] += ay * step;
    speeds[3 * i + 2] += az * step;
}
extern "C" __global__ void move(float* places, const float* speeds, float step, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) places[i] += speeds[i] * step;
}
"""
_accelerate, _move = cupy.RawKernel(NBODY, "accelerate"), cupy.RawKernel(NBODY, "move")


def nbody(places: Any, speeds: Any) -> Any:
    places, speeds = places.copy(), speeds.copy()
    count = len(places)
    for _ in range(20):
        # A body has a long loop, and there are few: small blocks spread them over all processors.
        _accelerate((-(-count // 32),), (32,), (places, speeds, np.float32(0.002 / count), np.int32(count)))
        _move(_blocks(3 * count), (_WIDTH,), (places, speeds, np.float32(0.002), np.int32(3 * count)))
    return places


HEAT = """
extern "C" __global__ void warm(const float* now, float* then, float rate, int height, int width) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= height || j >= width) return;
    int at = i * width + j;
    float own = now[at];
    if (0 < i && i < height - 1 && 0 < j && j < width - 1)
        own += rate * (now[at - width] + now[at + width] + now[at - 1] + now[at + 1] - 4.0f * own);
    then[at] = own;
}
"""
_warm = cupy.RawKernel(HEAT, "warm")


def heat(plate: Any) -> Any:
    now, then, spare = plate, cupy.empty_like(plate), cupy.empty_like(plate)
    height, width = plate.shape
    for _ in range(100):
        _warm(_squares(height, width), _SQUARE, (now, then, np.float32(0.2), np.int32(height), np.int32(width)))
        now, then = then, spare if now is plate else now
    return now


LIFE = """
extern "C" __global__ void generation(const unsigned char* now, unsigned char* then, int height, int width) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= height || j >= width) return;
    int above = (i ? i : height) - 1, below = i + 1 < height ? i + 1 : 0;
    int left = (j ? j : width) - 1, right = j + 1 < width ? j + 1 : 0;
    const unsigned char *a = now + above * width, *own = now + i * width, *b = now + below * width;
    int alive = a[left] + a[j] + a[right] + own[left] + own[j] + own[right] + b[left] + b[j] + b[right];
    then[i * width + j] = alive == 3 || (alive == 4 && own[j] == 1);
}
"""
_generation = cupy.RawKernel(LIFE, "generation")


def life(cells: Any) -> Any:
    now, then, spare = cells, cupy.empty_like(cells), cupy.empty_like(cells)
    height, width = cells.shape
    for _ in range(100):
        _generation(_squares(height, width), _SQUARE, (now, then, np.int32(height), np.int32(width)))
        now, then = then, spare if now is cells else now
    return now


KMEANS = """
extern "C" __global__ void assign(const float2* points, const float2* centres, int* labels, float* sums, int n) {
    __shared__ float own[48];  // x, y and count of 16 centres
    __shared__ float2 here[16];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t < 48) own[t] = 0.0f;
    if (t < 16) here[t] = centres[t];
    __syncthreads();
    if (i < n) {
        float2 point = points[i];
        int nearest = 0;
        float least = 3.4028235e38f;
        for (int k = 0; k < 16; k++) {
            float dx = point.x - here[k].x, dy = point.y - here[k].y;
            float distance = dx * dx + dy * dy;
            if (distance < least) {
                nearest = k;
                least = distance;
            }
        }
        labels[i] = nearest;
        atomicAdd(&own[3 * nearest], point.x);
        atomicAdd(&own[3 * nearest + 1], point.y);
        atomicAdd(&own[3 * nearest + 2], 1.0f);
    }
    __syncthreads();
    if (t < 48) atomicAdd(&sums[t], own[t]);
}
extern "C" __global__ void average(float2* centres, float* sums) {
    float* own = sums + 3 * threadIdx.x;
    centres[threadIdx.x].x = own[0] / own[2];
    centres[threadIdx.x].y = own[1] / own[2];
    own[0] = own[1] = own[2] = 0.0f;
}
"""
_assign, _average = cupy.RawKernel(KMEANS, "assign"), cupy.RawKernel(KMEANS, "average")


def kmeans(points: Any, centres: Any) -> Any:
    centres = centres.copy()
    labels, sums = cupy.empty(len(points), cupy.int32), cupy.zeros((16, 3), cupy.float32)
    for _ in range(10):
        _assign(_blocks(len(points)), (_WIDTH,), (points, centres, labels, sums, np.int32(len(points))))
        _average((1,), (16,), (centres, sums))
    return labels, centres


PARTICLES = """
__device__ int cell_of(float2 place) {
    return min((int)(place.y * 64.0f), 63) * 64 + min((int)(place.x * 64.0f), 63);
}
extern "C" __global__ void count(const float2* places, int* counts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[cell_of(places[i])], 1);
}
extern "C" __global__ void sort(const float2* places, int* ends, int* order, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) order[atomicAdd(&ends[cell_of(places[i])], 1)] = i;
}
extern "C" __global__ void count_near(
    const float2* places, const int* starts, const int* order, int* near, float radius, int n
) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 own = places[i];
    int cell = cell_of(own), row = cell / 64, column = cell % 64, found = 0;
    for (int r = max(row - 1, 0); r < min(row + 2, 64); r++)
        for (int c = max(column - 1, 0); c < min(column + 2, 64); c++)
            for (int k = starts[r * 64 + c]; k < starts[r * 64 + c + 1]; k++) {
                int other = order[k];
                float dx = places[other].x - own.x, dy = places[other].y - own.y;
                if (other != i && dx * dx + dy * dy <= radius * radius) found++;
            }
    near[i] = found;
}
"""
_EXACT = ("--fmad=false",)  # who is near has to be whom numpy finds near
_count, _sort, _count_near = (cupy.RawKernel(PARTICLES, name, _EXACT) for name in ("count", "sort", "count_near"))


def particle_grid(places: Any) -> Any:
    count, blocks = np.int32(len(places)), _blocks(len(places))
    counts, starts = cupy.zeros(64 * 64, cupy.int32), cupy.zeros(64 * 64 + 1, cupy.int32)
    order, near = cupy.empty(len(places), cupy.int32), cupy.empty(len(places), cupy.int32)
    _count(blocks, (_WIDTH,), (places, counts, count))
    starts[1:] = cupy.cumsum(counts, dtype=cupy.int32)
    _sort(blocks, (_WIDTH,), (places, starts[:-1].copy(), order, count))
    _count_near(blocks, (_WIDTH,), (places, starts, order, near, np.float32(1 / 64), count))
    return near


def _first_bits(root: float) -> str:
    """Return the first 32 bits behind the point of a root, as C has them."""
    return f"{int(root % 1 * 2**32):#010x}u"


_PRIMES = [n for n in range(2, 312) if all(n % d for d in range(2, math.isqrt(n) + 1))]
SHA256 = """
__constant__ unsigned int rounds[64] = {ROUNDS};
__device__ unsigned int rotr(unsigned int x, int n) { return __funnelshift_r(x, x, n); }
__device__ unsigned int swapped(unsigned int x) { return __byte_perm(x, 0u, 0x0123u); }
extern "C" __global__ void sha256(const unsigned int* data, unsigned int* digests, int blocks, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned int state[8] = {START};
    for (int block = 0; block < blocks; block++) {
        unsigned int words[16], s[8];
        #pragma unroll
        for (int k = 0; k < 16; k++) words[k] = swapped(data[(i * blocks + block) * 16 + k]);
        #pragma unroll
        for (int k = 0; k < 8; k++) s[k] = state[k];
        #pragma unroll
        for (int r = 0; r < 64; r++) {
            if (r >= 16) {
                unsigned int a = words[(r + 1) & 15], b = words[(r + 14) & 15];
                words[r & 15] += words[(r + 9) & 15] + (rotr(a, 7) ^ rotr(a, 18) ^ (a >> 3))
                    + (rotr(b, 17) ^ rotr(b, 19) ^ (b >> 10));
            }
            unsigned int e = s[4], a = s[0];
            unsigned int t1 = s[7] + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & s[5]) ^ (~e & s[6]))
                + rounds[r] + words[r & 15];
            unsigned int t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
            s[7] = s[6]; s[6] = s[5]; s[5] = e; s[4] = s[3] + t1;
            s[3] = s[2]; s[2] = s[1]; s[1] = a; s[0] = t1 + t2;
        }
        #pragma unroll
        for (int k = 0; k < 8; k++) state[k] += s[k];
    }
    #pragma unroll
    for (int k = 0; k < 8; k++) digests[i * 8 + k] = swapped(state[k]);
}
""".replace("ROUNDS", ", ".join(_first_bits(prime ** (1 / 3)) for prime in _PRIMES)).replace(
    "START", ", ".join(_first_bits(prime**0.5) for prime in _PRIMES[:8])
)
_sha256 = cupy.RawKernel(SHA256, "sha256")


def sha256(records: Any) -> Any:
    count, length = records.shape
    blocks = -(-(length + 9) // 64)
    padded = cupy.zeros((count, 64 * blocks), cupy.uint8)
    padded[:, :length] = records
    padded[:, length] = 0x80
    for place, byte in enumerate((8 * length).to_bytes(2, "big")):  # of 8; the others are 0
        padded[:, place - 2] = byte
    digests = cupy.empty((count, 8), cupy.uint32)
    _sha256(_blocks(count), (_WIDTH,), (padded, digests, np.int32(blocks), np.int32(count)))
    return digests.view(cupy.uint8)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "nbody": nbody,
    "heat": heat,
    "life": life,
    "kmeans": kmeans,
    "particle_grid": particle_grid,
    "sha256": sha256,
}
