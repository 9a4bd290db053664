// Counts of byte values, four of which are one element of WGSL: a workgroup counts 2,048 of them in memory of its own first.
@group(0) @binding(0) var<storage, read> values: array<u32>;
@group(0) @binding(1) var<storage, read_write> counts: array<atomic<u32>>;

const BINS = 256u;
var<workgroup> own: array<atomic<u32>, BINS>;

@compute @workgroup_size(BINS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) t: u32) {
    atomicStore(&own[t], 0u);  // WGSL says that it is 0 already; on lavapipe of Mesa 22.3 it is not
    workgroupBarrier();
    for (var k = 0u; k < 2u; k++) {
        let at = (group.x * 2u + k) * BINS + t;
        if at < arrayLength(&values) {
            let four = values[at];
            atomicAdd(&own[four & 0xffu], 1u);
            atomicAdd(&own[(four >> 8u) & 0xffu], 1u);
            atomicAdd(&own[(four >> 16u) & 0xffu], 1u);
            atomicAdd(&own[four >> 24u], 1u);
        }
    }
    workgroupBarrier();
    atomicAdd(&counts[t], atomicLoad(&own[t]));
}
