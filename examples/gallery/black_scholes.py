"""Prices of European options by the formula of Black and Scholes: two outputs, and a function that the kernel calls."""

import math

import numpy as np
from checked import run_checked, tell

from vyre_driver.lang import In, Index, Out, f32, kernel

SIZE = 1 << 20
RATE, VOLATILITY = 0.02, 0.3


def normal_below(x):
    """Return the probability that a normal number is below x (Abramowitz and Stegun 26.2.17)."""
    k = 1.0 / (1.0 + 0.2316419 * abs(x))
    w = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    above = 0.3989422804 * math.exp(-0.5 * x * x) * w
    return 1.0 - above if x >= 0.0 else above


@kernel
def prices(i: Index, spot: In[f32], strike: In[f32], years: In[f32], call: Out[f32], put: Out[f32], rate: f32, sigma: f32):
    deviation = sigma * math.sqrt(years[i])
    d1 = (math.log(spot[i] / strike[i]) + (rate + 0.5 * sigma * sigma) * years[i]) / deviation
    a, b = normal_below(d1), normal_below(d1 - deviation)
    discounted = strike[i] * math.exp(-rate * years[i])
    call[i] = spot[i] * a - discounted * b
    put[i] = discounted * (1.0 - b) - spot[i] * (1.0 - a)


def data(size):
    random = np.random.default_rng(0)
    spot, strike, years = (random.uniform(*bounds, size).astype(np.float32) for bounds in ((5, 30), (5, 30), (0.25, 5)))
    return spot, strike, years


def compute(spot, strike, years):
    return prices(spot, strike, years, rate=RATE, sigma=VOLATILITY)  # call and put are made, and returned


def expected(spot, strike, years):
    deviation = np.float32(VOLATILITY) * np.sqrt(years)
    d1 = (np.log(spot / strike) + np.float32(RATE + 0.5 * VOLATILITY**2) * years) / deviation
    a, b = (_normal_below(one) for one in (d1, d1 - deviation))
    discounted = strike * np.exp(np.float32(-RATE) * years)
    return spot * a - discounted * b, discounted * (1 - b) - spot * (1 - a)


def _normal_below(x):
    k = 1 / (1 + np.float32(0.2316419) * np.abs(x))
    w = np.polynomial.polynomial.polyval(k, np.float32([0, 0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429]))
    above = np.float32(0.3989422804) * np.exp(np.float32(-0.5) * x * x) * w
    return np.where(x >= 0, 1 - above, above)


def run(size=SIZE):
    return run_checked(data(size), compute, expected, rtol=1e-4, atol=1e-4)


def main():
    tell(f"prices of {SIZE:,} options", run())


if __name__ == "__main__":
    main()
