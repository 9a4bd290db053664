// The pull of all bodies on each, added to its speed.
struct Numbers { step: f32 }

@group(0) @binding(0) var<uniform> numbers: Numbers;
@group(0) @binding(1) var<storage, read> places: array<f32>;
@group(0) @binding(2) var<storage, read_write> speeds: array<f32>;

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3u) {
    let count = arrayLength(&places) / 3u;
    if id.x >= count {
        return;
    }
    let i = 3u * id.x;
    let here = vec3f(places[i], places[i + 1u], places[i + 2u]);
    var pull = vec3f();
    for (var j = 0u; j < 3u * count; j += 3u) {
        let away = vec3f(places[j], places[j + 1u], places[j + 2u]) - here;
        let inverse = inverseSqrt(dot(away, away) + 0.0004);
        pull += away * (inverse * inverse * inverse);
    }
    speeds[i] += pull.x * numbers.step;
    speeds[i + 1u] += pull.y * numbers.step;
    speeds[i + 2u] += pull.z * numbers.step;
}
