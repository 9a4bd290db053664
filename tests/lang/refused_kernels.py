"""Kernels with what Python has and the kernel language has not; what is said of them stands in kernel_refusals.txt, in this order.

As ``mistaken_kernels``: no decorator, and lines may move.
"""

# ruff: noqa: ANN001, ANN003, ANN201, ANN202, ARG001, B006, E501, F841
# mypy: ignore-errors

import functools

from vyre_driver.lang.frontend.intrinsics import static_range
from vyre_driver.lang.types import In, Index, InOut, Out, f32, i32

HUGE = 10**5000


def _even(n):
    return n == 0 or _odd(n - 1)


def _odd(n):
    return n != 0 and _even(n - 1)


def _keywords(**n):
    return n["n"]


async def _later(n):
    return n


def _with_a_list(n, found=[]):
    return n


def _first(n):
    return n


def _second(n):
    return -n


def calls_in_a_circle(i: Index, x: In[i32], y: Out[i32]):
    y[i] = 1 if _even(x[i]) else 0


async def a_coroutine(i: Index, y: Out[i32]):
    y[i] = 1


def calls_a_coroutine(i: Index, y: Out[i32]):
    y[i] = _later(1)


def any_keywords(i: Index, y: Out[i32], **more):
    y[i] = 1


def keywords_of_a_function(i: Index, y: Out[i32]):
    y[i] = _keywords(n=i)


def spreads_a_dict(i: Index, y: Out[i32]):
    y[i] = _first(**{"n": i})


def a_list_as_default(i: Index, y: Out[i32]):
    y[i] = _with_a_list(1)


def a_float_as_index(i: Index, x: In[i32], y: Out[i32]):
    y[i] = x[i / 2]


def loops_over_its_own_name(i: Index, y: Out[i32]):
    for range in range(3):
        y[i] = range


def calls_a_variable(i: Index, x: In[i32], y: Out[i32]):
    min = x[i]
    y[i] = min(min, 0)


def loops_over_a_variable(i: Index, y: Out[i32]):
    range = 3
    for k in range(range):
        y[i] = k


def a_huge_number(i: Index, y: Out[i32]):
    y[i] = HUGE


def a_huge_float(i: Index, x: In[f32], y: Out[f32]):
    y[i] = x[i] * 10**400


def a_huge_power(i: Index, y: Out[i32]):
    y[i] = 10**10**10 % 7


def a_growing_tuple(i: Index, y: Out[i32]):
    t = (1, 2)
    for k in static_range(60):
        t = t + t
    y[i] = t[0]


def unrolls_for_ever(i: Index, y: Out[i32]):
    for k in static_range(10**12):
        y[0] = k


def nothing_for_ever(i: Index, y: Out[i32]):
    for k in static_range(10**12):
        pass
    y[i] = 1


def never_ends(i: Index, y: Out[i32]):
    while True:
        y[i] = 1


def assigns_in_an_expression(i: Index, x: In[i32], y: Out[i32]):
    y[i] = (n := x[i]) + n


def a_comprehension(i: Index, y: Out[i32]):
    y[i] = sum([k for k in range(3)])


def a_generator_expression(i: Index, y: Out[i32]):
    y[i] = sum(k for k in range(3))


def an_f_string(i: Index, y: Out[i32]):
    name = f"{i}"


def a_slice(i: Index, x: In[i32], y: Out[i32]):
    y[1:3] = x[1:3]


def adds_to_a_slice(i: Index, y: InOut[i32]):
    y[1:3] += 1


def adds_to_an_array(i: Index, x: In[i32], y: Out[i32]):
    z = x + 1


def the_rest_of_a_tuple(i: Index, y: Out[i32]):
    first, *rest = (1, 2, 3)
    y[i] = first


def for_else(i: Index, x: In[i32], y: Out[i32]):
    for k in range(3):
        if x[k] == i:
            break
    else:
        y[i] = 1


def while_else(i: Index, x: In[i32], y: Out[i32]):
    while x[i] > 1:
        break
    else:
        y[i] = 1


def matches(i: Index, x: In[i32], y: Out[i32]):
    match x[i]:
        case 0:
            y[i] = 1


def deletes(i: Index, y: Out[i32]):
    z = 1
    del z


def declares_global(i: Index, y: Out[i32]):
    global HUGE
    HUGE = 1


def a_lambda(i: Index, y: Out[i32]):
    twice = lambda n: 2 * n  # noqa: E731
    y[i] = twice(i)


def raises(i: Index, y: Out[i32]):
    raise ValueError


def a_string(i: Index, y: Out[i32]):
    y[i] = "one"


def chooses_a_function(i: Index, x: In[i32], y: Out[i32]):
    chosen = _first if x[i] > 0 else _second
    y[i] = chosen(i)


def a_partial_function(i: Index, y: Out[i32]):
    y[i] = functools.partial(_first, 1)()


def one_of_two_numbers(i: Index, x: In[i32], y: Out[i32]):
    y[i] = x[i] > 0 and 3


def iterates_an_array(i: Index, x: In[i32], y: Out[i32]):
    for one in x:
        y[i] = one


REFUSED = [
    one
    for name, one in list(globals().items())
    if callable(one) and getattr(one, "__module__", "") == __name__ and not name.startswith("_")
]
