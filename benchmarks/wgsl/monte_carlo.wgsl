// Sums of payoffs of a European call; the random numbers are Philox's, of a counter.
struct Numbers { turns: u32 }

@group(0) @binding(0) var<uniform> numbers: Numbers;
@group(0) @binding(1) var<storage, read_write> sums: array<f32>;

// The upper 32 bits of a product, by halves: WGSL has no product of 64 bits.
fn high_product(a: u32, b: u32) -> u32 {
    let low_a = a & 0xffffu;
    let high_a = a >> 16u;
    let low_b = b & 0xffffu;
    let high_b = b >> 16u;
    let middle = high_a * low_b + ((low_a * low_b) >> 16u);
    let other = low_a * high_b + (middle & 0xffffu);
    return high_a * high_b + (middle >> 16u) + (other >> 16u);
}

fn philox(counter: vec4u) -> vec4u {
    var c = counter;
    var k = vec2u(0x243f6a88u, 0x85a308d3u);
    for (var n = 0; n < 10; n++) {
        let high0 = high_product(0xd2511f53u, c.x);
        let low0 = 0xd2511f53u * c.x;
        let high1 = high_product(0xcd9e8d57u, c.z);
        let low1 = 0xcd9e8d57u * c.z;
        c = vec4u(high1 ^ c.y ^ k.x, low1, high0 ^ c.w ^ k.y, low0);
        k += vec2u(0x9e3779b9u, 0xbb67ae85u);
    }
    return c;
}

fn payoff(normal: f32) -> f32 {
    return max(100.0 * exp(0.01 + 0.2 * normal) - 105.0, 0.0);
}

fn two_payoffs(a: u32, b: u32) -> f32 {
    let radius = sqrt(-2.0 * log((f32(a >> 8u) + 0.5) * 5.9604645e-8));
    let angle = f32(b >> 8u) * 3.7450702e-7;
    return payoff(radius * cos(angle)) + payoff(radius * sin(angle));
}

@compute @workgroup_size(128)
fn main(@builtin(global_invocation_id) id: vec3u) {
    if id.x >= arrayLength(&sums) {
        return;
    }
    var total = 0.0;
    for (var turn = 0u; turn < numbers.turns; turn++) {
        let words = philox(vec4u(id.x, turn, 0u, 0u));
        total += two_payoffs(words.x, words.y) + two_payoffs(words.z, words.w);
    }
    sums[id.x] = total;
}
