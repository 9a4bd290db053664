// Edges by Sobel's filter; what lies outside of the picture is 0.
struct Numbers { height: i32, width: i32 }

@group(0) @binding(0) var<uniform> numbers: Numbers;
@group(0) @binding(1) var<storage, read> picture: array<f32>;
@group(0) @binding(2) var<storage, read_write> strength: array<f32>;

fn at(i: i32, j: i32) -> f32 {
    if i < 0 || j < 0 || i >= numbers.height || j >= numbers.width {
        return 0.0;
    }
    return picture[i * numbers.width + j];
}

@compute @workgroup_size(16, 16)
fn main(@builtin(global_invocation_id) id: vec3u) {
    let i = i32(id.y);
    let j = i32(id.x);
    if i >= numbers.height || j >= numbers.width {
        return;
    }
    let right = at(i - 1, j + 1) + 2.0 * at(i, j + 1) + at(i + 1, j + 1);
    let left = at(i - 1, j - 1) + 2.0 * at(i, j - 1) + at(i + 1, j - 1);
    let below = at(i + 1, j - 1) + 2.0 * at(i + 1, j) + at(i + 1, j + 1);
    let above = at(i - 1, j - 1) + 2.0 * at(i - 1, j) + at(i - 1, j + 1);
    strength[i * numbers.width + j] = length(vec2f(right - left, below - above));
}
