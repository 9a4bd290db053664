// c = a @ b: a workgroup of 16 x 16 multiplies tiles in memory that it shares. What lies outside of a matrix is 0.
struct Numbers { rows: u32, depth: u32, columns: u32 }

@group(0) @binding(0) var<uniform> numbers: Numbers;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read_write> c: array<f32>;

const TILE = 16u;
var<workgroup> tile_a: array<array<f32, TILE>, TILE>;
var<workgroup> tile_b: array<array<f32, TILE>, TILE>;

@compute @workgroup_size(TILE, TILE)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(local_invocation_id) local: vec3u) {
    var total = 0.0;
    for (var start = 0u; start < numbers.depth; start += TILE) {
        let x = start + local.x;
        let y = start + local.y;
        tile_a[local.y][local.x] = 0.0;
        tile_b[local.y][local.x] = 0.0;
        if id.y < numbers.rows && x < numbers.depth {
            tile_a[local.y][local.x] = a[id.y * numbers.depth + x];
        }
        if y < numbers.depth && id.x < numbers.columns {
            tile_b[local.y][local.x] = b[y * numbers.columns + id.x];
        }
        workgroupBarrier();
        for (var k = 0u; k < TILE; k++) {
            total = fma(tile_a[local.y][k], tile_b[k][local.x], total);
        }
        workgroupBarrier();
    }
    if id.y < numbers.rows && id.x < numbers.columns {
        c[id.y * numbers.columns + id.x] = total;
    }
}
