// The mean of the points of one centre: a workgroup for each centre.
@group(0) @binding(0) var<storage, read> points: array<vec2f>;
@group(0) @binding(1) var<storage, read> labels: array<i32>;
@group(0) @binding(2) var<storage, read_write> centres: array<vec2f>;

const WIDTH = 128u;
var<workgroup> sums: array<vec3f, WIDTH>;

@compute @workgroup_size(WIDTH)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) t: u32) {
    var total = vec3f();
    for (var i = t; i < arrayLength(&labels); i += WIDTH) {
        if labels[i] == i32(group.x) {
            total += vec3f(points[i], 1.0);
        }
    }
    sums[t] = total;
    workgroupBarrier();
    for (var half = WIDTH / 2u; half > 0u; half /= 2u) {
        if t < half {
            sums[t] += sums[t + half];
        }
        workgroupBarrier();
    }
    if t == 0u {
        centres[group.x] = sums[0].xy / sums[0].z;
    }
}
