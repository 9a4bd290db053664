"""Kernels with a mistake each; what is said of them stands in tests/golden/text/kernel_messages.txt, in this order.

No decorator: test_refusals.py translates them. Lines may move, for the text tells them relative to the function.
"""

# ruff: noqa: ANN001, ANN201, ARG001, F821, F841, N806
# mypy: ignore-errors

import math

import numpy as np

from vyre_driver.lang.frontend.intrinsics import atomic_add, static_range
from vyre_driver.lang.types import Const, Group, In, Index, InOut, Out, f32, f64, i32, u32

TABLE = np.arange(8)
OPTIONS = [1, 2]


def misspelt(i: Index, x: In[f32], y: Out[f32]):
    total = 0.0
    y[i] = totl


def only_one_side(i: Index, x: In[f32], y: Out[f32]):
    if x[i] > 3.0:
        z = 1.0
    y[i] = z


def after_the_loop(i: Index, x: In[f32], y: Out[f32]):
    for k in range(len(x)):
        last = x[k]
    y[i] = last


def a_list(i: Index, x: In[f32], y: Out[f32]):
    s = [1, 2, 3]
    y[i] = s[0]


def mixed_signs(i: Index, x: In[i32], y: In[u32], z: Out[u32]):
    z[i] = x[i] + y[i]


def wrong_element(i: Index, x: In[f32], y: Out[i32]):
    y[i] = x[i] * 2.0


def stored_to_in(i: Index, x: In[f32], y: Out[f32]):
    x[i] = 1.0


def read_of_out(i: Index, x: In[f32], y: Out[f32]):
    y[i] += x[i]


def too_few_indices(i: Index, j: Index, x: In[f32], y: Out[f32]):
    y[i, j] = x[i, j] + x[i]


def from_the_end(i: Index, x: In[f32], y: Out[f32]):
    y[i] = x[-1]


def array_of_the_host(i: Index, x: In[f32], y: Out[f32]):
    y[i] = x[i] * TABLE[0]


def list_of_the_host(i: Index, x: In[f32], y: Out[f32]):
    y[i] = x[i] * OPTIONS[0]


def atomic_on_f64(i: Index, x: In[f64], y: InOut[f64]):
    atomic_add(y, 0, x[i])


def catches(i: Index, x: In[f32], y: Out[f32]):
    try:
        y[i] = x[i]
    except ValueError:
        pass


def changes_its_type(i: Index, x: In[f32], y: Out[f32]):
    n = i32(0)
    if x[i] > 1.0:
        n = x[i]
    y[i] = n


def no_annotation(i: Index, x, y: Out[f32]):
    y[i] = x[i]


def returns_a_value(i: Index, x: In[f32], y: Out[f32]):
    return x[i]


def shifts_floats(i: Index, x: In[f32], y: Out[f32]):
    y[i] = x[i] << 2


def fib(n):
    return fib(n - 1)


def calls_itself(i: Index, x: In[f32], y: Out[f32]):
    y[i] = fib(3)


def outer(v):
    return inner(v) + 1.0


def inner(v):
    return math.gamma(v)


def three_frames_deep(i: Index, x: In[f32], y: Out[f32]):
    y[i] = outer(x[i])


def prints(i: Index, x: In[f32], y: Out[f32]):
    print(x[i])  # noqa: T201
    y[i] = x[i]


def barrier_in_an_if(g: Group[64], x: In[f32], y: Out[f32]):
    if g.local < 3:
        g.barrier()
    y[g.index] = x[g.index]


def barrier_in_a_loop(g: Group[64], sizes: In[i32], y: Out[f32]):
    for k in range(sizes[g.local]):
        g.barrier()
    y[g.index] = 1.0


def or_of_numbers(i: Index, x: In[f32], y: Out[f32]):
    y[i] = x[i] or 1.0


def unrolled_too_far(i: Index, x: In[f32], y: Out[f32]):
    s = 0.0
    for k in static_range(12000):
        s += x[k]
    y[i] = s


def plain_and_atomic(i: Index, counts: InOut[u32], y: Out[u32]):
    atomic_add(counts, 0, 1)
    y[i] = counts[1]


def never_ends(i: Index, y: Out[f32]):
    while True:
        y[i] = 1.0


def float_index(i: Index, x: In[f32], y: Out[f32]):
    y[i] = x[i / 2]


def method_of_an_array(i: Index, x: In[f32], y: Out[f32]):
    y[i] = x.sum()


def many_arguments(i: Index, *x: In[f32]):
    x[0][i] = 1.0


def generator(i: Index, y: Out[f32]):
    yield 1


def shadowed_builtin(i: Index, y: Out[f32]):
    len = 3
    y[i] = len(y)


def default_value(i: Index, x: In[f32], a: f32 = 2.0):
    x[i]


def constant_by_position(i: Index, y: Out[f32], k: Const[int]):
    y[i] = k


def breaks_an_unrolled_loop(i: Index, x: In[f32], y: Out[f32]):
    for k in static_range(4):
        if x[k] > 1.0:
            break
    y[i] = 1.0


def wide_characters(i: Index, x: In[f32], y: Out[f32]):
    größe漢 = x[i]
    y[i] = größe漢 + größe字


def continued(i: Index, x: In[f32], y: Out[f32]):
    y[i] = x[i] + x[i, 0]


def sum_that_begins_as_a_whole_number(i: Index, x: In[f32], y: Out[f32]):
    total = 0
    for k in range(x.shape[0]):
        total += x[k]
    y[i] = total


def returns_before_a_barrier(g: Group[64], x: In[f32], y: Out[f32]):
    tile = g.shared(f32, 64)
    if g.index >= len(x):
        return
    tile[g.local] = x[g.index]
    g.barrier()
    y[g.index] = tile[63 - g.local]


def group_without_size(g: Group, x: In[f32], y: Out[f32]):
    y[g.index] = x[g.index]


def literal_of_another_type(i: Index, x: In[u32], y: Out[u32]):
    y[i] = x[i] ^ (0xEDB88320 if x[i] & 1 else 0)


def index_after_index(i: Index, x: In[f32], y: Out[f32]):
    y[i] = x[i][0]


def table_of_a_tuple(i: Index, x: In[i32], y: Out[f32]):
    y[i] = (1.0, 2.0)[x[i]]


def zeros_of_numpy(i: Index, x: In[f32], y: Out[f32]):
    parts = np.zeros(4, np.float32)
    y[i] = parts[0]


def loop_over_an_array(i: Index, x: In[f32], y: Out[f32]):
    for one in x:
        y[i] = one


def loop_over_enumerate(i: Index, x: In[f32], y: Out[f32]):
    for k, one in enumerate((1.0, 2.0)):
        y[i] = x[k] * one


MISTAKEN = [
    one
    for name, one in list(globals().items())
    if callable(one) and getattr(one, "__module__", "") == __name__ and name not in {"fib", "outer", "inner"}
]
