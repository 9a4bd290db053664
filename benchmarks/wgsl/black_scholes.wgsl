// Prices of European options: a call and a put from each spot price, strike price and time.
struct Numbers { rate: f32, sigma: f32 }

@group(0) @binding(0) var<uniform> numbers: Numbers;
@group(0) @binding(1) var<storage, read> spots: array<f32>;
@group(0) @binding(2) var<storage, read> strikes: array<f32>;
@group(0) @binding(3) var<storage, read> times: array<f32>;
@group(0) @binding(4) var<storage, read_write> calls: array<f32>;
@group(0) @binding(5) var<storage, read_write> puts: array<f32>;

fn normal_below(x: f32) -> f32 {
    let k = 1.0 / (1.0 + 0.2316419 * abs(x));
    let w = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))));
    let above = 0.3989422804 * exp(-0.5 * x * x) * w;
    return select(above, 1.0 - above, x >= 0.0);
}

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3u) {
    let i = id.x;
    if i >= arrayLength(&calls) {
        return;
    }
    let spot = spots[i];
    let strike = strikes[i];
    let years = times[i];
    let deviation = numbers.sigma * sqrt(years);
    let d1 = (log(spot / strike) + (numbers.rate + 0.5 * numbers.sigma * numbers.sigma) * years) / deviation;
    let a = normal_below(d1);
    let b = normal_below(d1 - deviation);
    let discounted = strike * exp(-numbers.rate * years);
    calls[i] = spot * a - discounted * b;
    puts[i] = discounted * (1.0 - b) - spot * (1.0 - a);
}
