// One step of heat in a plate whose edge stays as it is.
struct Numbers { height: u32, width: u32, rate: f32 }

@group(0) @binding(0) var<uniform> numbers: Numbers;
@group(0) @binding(1) var<storage, read> now: array<f32>;
@group(0) @binding(2) var<storage, read_write> then: array<f32>;

@compute @workgroup_size(16, 16)
fn main(@builtin(global_invocation_id) id: vec3u) {
    if id.y >= numbers.height || id.x >= numbers.width {
        return;
    }
    let at = id.y * numbers.width + id.x;
    var warmth = now[at];
    if id.y > 0u && id.y < numbers.height - 1u && id.x > 0u && id.x < numbers.width - 1u {
        let around = now[at - numbers.width] + now[at + numbers.width] + now[at - 1u] + now[at + 1u];
        warmth += numbers.rate * (around - 4.0 * warmth);
    }
    then[at] = warmth;
}
