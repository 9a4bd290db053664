// The running sums of the totals, added to the workgroups that follow.
@group(0) @binding(0) var<storage, read_write> sums: array<u32>;
@group(0) @binding(1) var<storage, read> totals: array<u32>;

const WIDTH = 256u;

@compute @workgroup_size(WIDTH)
fn main(@builtin(global_invocation_id) id: vec3u) {
    if id.x >= WIDTH && id.x < arrayLength(&sums) {
        sums[id.x] += totals[id.x / WIDTH - 1u];
    }
}
