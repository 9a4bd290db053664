// The turns that a point takes to leave a circle.
struct Numbers { left: f32, top: f32, step: f32, limit: i32, side: u32, zero: u32 }

@group(0) @binding(0) var<uniform> numbers: Numbers;
@group(0) @binding(1) var<storage, read_write> turns: array<i32>;

// As in saxpy.wgsl: the turns have to equal numpy's, so that no product may be fused with its sum.
fn rounded(product: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(product) ^ numbers.zero);
}

@compute @workgroup_size(16, 16)
fn main(@builtin(global_invocation_id) id: vec3u) {
    if id.x >= numbers.side || id.y >= numbers.side {
        return;
    }
    let cr = numbers.left + rounded(f32(id.x) * numbers.step);
    let ci = numbers.top + rounded(f32(id.y) * numbers.step);
    var zr = 0.0;
    var zi = 0.0;
    var n = 0;
    while n < numbers.limit {
        let rr = rounded(zr * zr);
        let ii = rounded(zi * zi);
        if rr + ii > 4.0 {
            break;
        }
        zi = rounded(2.0 * zr * zi) + ci;
        zr = rr - ii + cr;
        n += 1;
    }
    turns[id.y * numbers.side + id.x] = n;
}
