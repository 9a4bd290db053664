// y = a x + y: one element an invocation.
struct Numbers { a: f32, zero: u32 }

@group(0) @binding(0) var<uniform> numbers: Numbers;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

// The gallery asks for numpy's bits. WGSL cannot forbid a fused multiply-add; an operation on the product's bits prevents it.
fn rounded(product: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(product) ^ numbers.zero);
}

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3u) {
    if id.x < arrayLength(&y) {
        y[id.x] = rounded(numbers.a * x[id.x]) + y[id.x];
    }
}
