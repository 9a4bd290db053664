// Bodies moved by their speeds: one coordinate an invocation.
struct Numbers { step: f32 }

@group(0) @binding(0) var<uniform> numbers: Numbers;
@group(0) @binding(1) var<storage, read_write> places: array<f32>;
@group(0) @binding(2) var<storage, read> speeds: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3u) {
    if id.x < arrayLength(&places) {
        places[id.x] += speeds[id.x] * numbers.step;
    }
}
