// A blur with weights of 5 x 5; the picture's edge is repeated outwards.
struct Numbers { height: i32, width: i32 }

@group(0) @binding(0) var<uniform> numbers: Numbers;
@group(0) @binding(1) var<storage, read> source: array<f32>;
@group(0) @binding(2) var<storage, read> weights: array<f32>;
@group(0) @binding(3) var<storage, read_write> result: array<f32>;

@compute @workgroup_size(16, 16)
fn main(@builtin(global_invocation_id) id: vec3u) {
    let i = i32(id.y);
    let j = i32(id.x);
    if i >= numbers.height || j >= numbers.width {
        return;
    }
    var total = 0.0;
    for (var di = -2; di <= 2; di++) {
        for (var dj = -2; dj <= 2; dj++) {
            let y = clamp(i + di, 0, numbers.height - 1);
            let x = clamp(j + dj, 0, numbers.width - 1);
            total += source[y * numbers.width + x] * weights[(di + 2) * 5 + dj + 2];
        }
    }
    result[i * numbers.width + j] = total;
}
