// The nearest centre of each point.
@group(0) @binding(0) var<storage, read> points: array<vec2f>;
@group(0) @binding(1) var<storage, read> centres: array<vec2f>;
@group(0) @binding(2) var<storage, read_write> labels: array<i32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3u) {
    if id.x >= arrayLength(&labels) {
        return;
    }
    let here = points[id.x];
    var nearest = 0u;
    var least = 3.4e38;
    for (var k = 0u; k < arrayLength(&centres); k++) {
        let away = here - centres[k];
        let distance = dot(away, away);
        if distance < least {
            nearest = k;
            least = distance;
        }
    }
    labels[id.x] = i32(nearest);
}
