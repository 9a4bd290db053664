// Sums of 2,048 numbers each, as a tree in memory that the workgroup shares.
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> sums: array<f32>;

const WIDTH = 256u;
const EACH = 8u;
var<workgroup> part: array<f32, WIDTH>;

@compute @workgroup_size(WIDTH)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) t: u32) {
    var total = 0.0;
    for (var k = 0u; k < EACH; k++) {
        let at = (group.x * EACH + k) * WIDTH + t;
        if at < arrayLength(&x) {
            total += x[at];
        }
    }
    part[t] = total;
    workgroupBarrier();
    for (var half = WIDTH / 2u; half > 0u; half /= 2u) {
        if t < half {
            part[t] += part[t + half];
        }
        workgroupBarrier();
    }
    if t == 0u {
        sums[group.x] = part[0];
    }
}
