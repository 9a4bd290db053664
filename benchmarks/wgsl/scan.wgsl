// Running sums of 256 numbers in each workgroup, and their totals.
@group(0) @binding(0) var<storage, read> values: array<u32>;
@group(0) @binding(1) var<storage, read_write> sums: array<u32>;
@group(0) @binding(2) var<storage, read_write> totals: array<u32>;

const WIDTH = 256u;
var<workgroup> part: array<u32, WIDTH>;

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(global_invocation_id) id: vec3u, @builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) t: u32
) {
    var total = 0u;
    if id.x < arrayLength(&values) {
        total = values[id.x];
    }
    part[t] = total;
    workgroupBarrier();
    for (var reach = 1u; reach < WIDTH; reach *= 2u) {
        var before = 0u;
        if t >= reach {
            before = part[t - reach];
        }
        workgroupBarrier();
        total += before;
        part[t] = total;
        workgroupBarrier();
    }
    if id.x < arrayLength(&sums) {
        sums[id.x] = total;
    }
    if t == WIDTH - 1u {
        totals[group.x] = total;
    }
}
