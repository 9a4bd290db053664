// A sparse matrix in compressed rows times a vector: one row an invocation.
@group(0) @binding(0) var<storage, read> values: array<f32>;
@group(0) @binding(1) var<storage, read> columns: array<u32>;
@group(0) @binding(2) var<storage, read> starts: array<u32>;
@group(0) @binding(3) var<storage, read> x: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3u) {
    if id.x >= arrayLength(&y) {
        return;
    }
    var total = 0.0;
    for (var k = starts[id.x]; k < starts[id.x + 1u]; k++) {
        total += values[k] * x[columns[k]];
    }
    y[id.x] = total;
}
